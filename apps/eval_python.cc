#include "eval_python.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/seccomp.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "eval_syscalls.h"

namespace boreas {

namespace {

constexpr uid_t kNobody = 65534;
constexpr rlim_t kMemoryBytes = rlim_t{1} << 29;
constexpr rlim_t kFilesMax = 32;
constexpr int64_t kPollMs = 2;

// Calls one function for each list of arguments and prints what they return.
constexpr const char* kRunner =
    "import json, sys\n"
    "task = json.load(sys.stdin.buffer)\n"
    "scope = {}\n"
    "exec(task['code'], scope)\n"
    "made = [v for k, v in scope.items() if callable(v) and not k.startswith('__')]\n"
    "function = scope[task['function']] if task['function'] else made[-1]\n"
    "print(json.dumps([function(*args) for args in task['args']]))\n";

// A file descriptor that closes itself.
class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { reset(); }
  void reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

struct Pipe {
  Fd read, write;
};

bool open_pipe(Pipe& pipe) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  pipe.read = Fd(ends[0]);
  pipe.write = Fd(ends[1]);
  return true;
}

// All that the child needs, made before the fork: after it only system calls are allowed, as other threads' locks stay
// taken for ever.
struct Launch {
  const char* python = nullptr;
  const char* folder = nullptr;
  char* const* arguments = nullptr;
  sock_fprog filter{};
  int input = -1, output = -1, nowhere = -1, status = -1;
};

enum Stage : int { kStageFiles = 1, kStageLimits, kStageFilter, kStageExec };

struct Failure {
  int stage = 0;
  int error = 0;
};

[[noreturn]] void fail(const Launch& launch, Stage stage) {
  const Failure failure{stage, errno};
  const ssize_t written = ::write(launch.status, &failure, sizeof(failure));
  ::_exit(written < 0 ? 126 : 125);
}

// Descriptors 0, 1, 2 and the status pipe as 3; all others closed.
void place_descriptors(Launch& launch) {
  constexpr int kAside = 10;  // above the four places
  const int input = ::fcntl(launch.input, F_DUPFD, kAside);
  const int output = ::fcntl(launch.output, F_DUPFD, kAside);
  const int nowhere = ::fcntl(launch.nowhere, F_DUPFD, kAside);
  const int status = ::fcntl(launch.status, F_DUPFD, kAside);
  if (input < 0 || output < 0 || nowhere < 0 || status < 0) fail(launch, kStageFiles);
  launch.status = status;
  if (::dup2(input, 0) < 0 || ::dup2(output, 1) < 0 || ::dup2(nowhere, 2) < 0) fail(launch, kStageFiles);
  if (::dup3(status, 3, O_CLOEXEC) < 0) fail(launch, kStageFiles);
  launch.status = 3;
  if (::syscall(SYS_close_range, 4U, ~0U, 0U) != 0) {
    for (int fd = 4; fd < 4096; ++fd) ::close(fd);  // kernels before 5.9
  }
}

// A network name space without interfaces, and no more rights than nobody. Neither may be permitted here; the list of
// system calls holds in any case.
void drop_rights() {
  if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) errno = 0;
  if (::geteuid() != 0) return;
  if (::setgroups(0, nullptr) != 0 || ::setresgid(kNobody, kNobody, kNobody) != 0 ||
      ::setresuid(kNobody, kNobody, kNobody) != 0) {
    errno = 0;
  }
}

void set_limits(const Launch& launch) {
  struct Limit {
    int resource;
    rlim_t value;
  };
  const Limit limits[] = {
      {RLIMIT_CPU, PythonSandbox::kCpuSeconds},
      {RLIMIT_AS, kMemoryBytes},
      {RLIMIT_NOFILE, kFilesMax},
      {RLIMIT_FSIZE, 0},
      {RLIMIT_NPROC, 0},
      {RLIMIT_CORE, 0},
  };
  for (const Limit& limit : limits) {
    const rlimit both{limit.value, limit.value};
    if (::setrlimit(static_cast<__rlimit_resource>(limit.resource), &both) != 0) fail(launch, kStageLimits);
  }
}

[[noreturn]] void become_python(Launch launch) {
  ::setsid();
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  place_descriptors(launch);
  if (::chdir(launch.folder) != 0) fail(launch, kStageFiles);
  drop_rights();
  set_limits(launch);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &launch.filter) != 0) {
    fail(launch, kStageFilter);
  }
  char* const environment[] = {nullptr};
  ::execve(launch.python, launch.arguments, environment);
  fail(launch, kStageExec);
}

int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Reads until the other end closes. False: the deadline passed or there was more than allowed.
bool read_all(int fd, int64_t deadline_ms, std::string& out) {
  char bytes[16 << 10];
  for (;;) {
    pollfd state{fd, POLLIN, 0};
    const int64_t left = deadline_ms - now_ms();
    if (left <= 0) return false;
    const int ready = ::poll(&state, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t count = ::read(fd, bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    out.append(bytes, static_cast<size_t>(count));
    if (out.size() > PythonSandbox::kOutputBytesMax) return false;
  }
}

// Waits for the process; false: it had to be killed at the deadline.
bool reap(pid_t pid, int64_t deadline_ms) {
  for (;;) {
    const pid_t ended = ::waitpid(pid, nullptr, WNOHANG);
    if (ended == pid || (ended < 0 && errno != EINTR)) return true;
    if (now_ms() >= deadline_ms) break;
    ::poll(nullptr, 0, kPollMs);
  }
  ::kill(-pid, SIGKILL);
  ::kill(pid, SIGKILL);  // had it no group of its own yet
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return false;
}

std::string describe(const Failure& failure) {
  static constexpr const char* kStages[] = {"", "its descriptors", "its limits", "its list of system calls", "python3"};
  return std::string("cannot set up ") + kStages[failure.stage] + ": " + std::strerror(failure.error);
}

PythonSandbox::Outcome not_started(const std::string& what) {
  return {PythonSandbox::End::kNotStarted, {}, what + ": " + std::strerror(errno)};
}

Fd input_of(const std::string& text) {
  Fd file(static_cast<int>(::syscall(SYS_memfd_create, "input", 1U /* MFD_CLOEXEC */)));
  size_t written = 0;
  while (file.get() >= 0 && written < text.size()) {
    const ssize_t count = ::write(file.get(), text.data() + written, text.size() - written);
    if (count < 0) return Fd();
    written += static_cast<size_t>(count);
  }
  if (file.get() >= 0 && ::lseek(file.get(), 0, SEEK_SET) != 0) return Fd();
  return file;
}

std::vector<std::string> candidates(const std::string& python) {
  std::error_code error;
  if (!python.empty()) return {std::filesystem::absolute(python, error).string()};  // we start it from another folder
  std::vector<std::string> paths{"/usr/bin/python3", "/usr/local/bin/python3", "/bin/python3"};
  const char* search = std::getenv("PATH");
  std::string folders = search ? search : "";
  for (size_t at = 0; at < folders.size();) {
    const size_t end = std::min(folders.find(':', at), folders.size());
    if (end > at && folders[at] == '/') paths.push_back(folders.substr(at, end - at) + "/python3");
    at = end + 1;
  }
  return paths;
}

}  // namespace

PythonSandbox::PythonSandbox() : turns_(std::max(1, static_cast<int>(std::thread::hardware_concurrency()))) {}

PythonSandbox::~PythonSandbox() {
  if (!folder_.empty()) ::rmdir(folder_.c_str());
}

PythonSandbox::Outcome PythonSandbox::run(const std::string& task) const { return run_program(kRunner, task); }

PythonSandbox::Outcome PythonSandbox::run_program(const std::string& program, const std::string& input) const {
  turns_.acquire();
  Outcome outcome = run_now(program, input);
  turns_.release();
  return outcome;
}

PythonSandbox::Outcome PythonSandbox::run_now(const std::string& program, const std::string& input) const {
  const Fd text = input_of(input);
  const Fd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  Pipe output, status;
  if (text.get() < 0 || nowhere.get() < 0 || !open_pipe(output) || !open_pipe(status)) {
    return not_started("no descriptors for python3");
  }
  std::vector<std::string> words{python_, "-I", "-S", "-c", program};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::vector<sock_filter> filter = compute_only_filter();
  if (filter.empty()) return {End::kNotStarted, {}, "no list of system calls for this processor"};
  Launch launch{python_.c_str(), folder_.c_str(),    arguments.data(), {},
                text.get(),      output.write.get(), nowhere.get(),    status.write.get()};
  launch.filter = {static_cast<unsigned short>(filter.size()), filter.data()};

  const int64_t deadline_ms = now_ms() + wall_ms_;
  const pid_t pid = ::fork();
  if (pid < 0) return not_started("no process for python3");
  if (pid == 0) become_python(launch);
  output.write.reset();
  status.write.reset();
  std::string problem;
  read_all(status.read.get(), deadline_ms, problem);  // ends when python3 has begun
  Outcome outcome;
  const bool read = problem.empty() && read_all(output.read.get(), deadline_ms, outcome.output);
  const bool ended = reap(pid, read ? deadline_ms : 0);
  if (problem.size() == sizeof(Failure)) {
    Failure failure;
    std::memcpy(&failure, problem.data(), sizeof(failure));
    return {End::kNotStarted, {}, describe(failure)};
  }
  outcome.end = read && ended ? End::kFinished : End::kKilled;
  if (outcome.end == End::kKilled) outcome.output.clear();
  return outcome;
}

Result<std::unique_ptr<PythonSandbox>> PythonSandbox::create(const std::string& python, int64_t wall_ms) {
  std::unique_ptr<PythonSandbox> sandbox(new PythonSandbox);
  std::error_code error;
  std::string pattern = (std::filesystem::temp_directory_path(error) / "boreas-eval-XXXXXX").string();
  if (error || !::mkdtemp(pattern.data())) return Error{"no temporary folder for python3"};
  sandbox->folder_ = pattern;
  std::string problem = "python3 is not installed";
  for (const std::string& path : candidates(python)) {
    if (::access(path.c_str(), X_OK) != 0) continue;
    sandbox->python_ = path;
    const Outcome first = sandbox->run(R"({"code": "def one(x):\n  return x + 1", "function": null, "args": [[0]]})");
    sandbox->wall_ms_ = wall_ms;
    if (first.end == End::kFinished && first.output == "[1]\n") return sandbox;
    problem = path + " does not run apart: " + (first.reason.empty() ? "no output" : first.reason);
  }
  return Error{problem};
}

}  // namespace boreas
