// See bench_load.h. Loading is timed from where all memory of the GPU is allocated to where the executor is ready. The
// files are read beside it by as many threads, once through, in their order, into memory that is thrown away; with
// --cold the operating system forgets what it keeps of them before each run of either.
#include "bench_load.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench_support.h"
#include "exec/cuda/cuda_executor.h"
#include "model_loading.h"

namespace boreas {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr unsigned kThreadsMax = 16;  // as loading has

struct LoadFlags {
  std::string model, device = "cuda", results_dir;
  bool cold = false;
  int32_t runs = 3;
};

using Seconds = std::chrono::duration<double>;

class WeightFile {
 public:
  explicit WeightFile(const std::filesystem::path& path) : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    std::error_code error;
    bytes_ = file_ < 0 ? 0 : std::filesystem::file_size(path, error);
    if (error) bytes_ = 0;
  }
  WeightFile(WeightFile&& other) noexcept : file_(std::exchange(other.file_, -1)), bytes_(other.bytes_) {}
  ~WeightFile() {
    if (file_ >= 0) ::close(file_);
  }
  WeightFile& operator=(WeightFile&&) = delete;

  uint64_t bytes() const { return bytes_; }
  // Of the system's memory; works for pages that nobody has mapped and that are written.
  void forget() const { ::posix_fadvise(file_, 0, 0, POSIX_FADV_DONTNEED); }
  bool read(uint64_t offset, std::vector<std::byte>& to) const {
    const size_t wanted = std::min<uint64_t>(to.size(), bytes_ - offset);
    return ::pread(file_, to.data(), wanted, static_cast<off_t>(offset)) == static_cast<ssize_t>(wanted);
  }

 private:
  int file_;
  uint64_t bytes_ = 0;
};

class WeightFiles {
 public:
  explicit WeightFiles(const std::string& directory) {
    std::error_code error;
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(directory, error))
      if (entry.path().extension() == ".safetensors") paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    for (const std::filesystem::path& path : paths) files_.emplace_back(path);
  }

  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const WeightFile& file : files_) sum += file.bytes();
    return sum;
  }
  void forget() const {
    for (const WeightFile& file : files_) file.forget();
  }
  // GB/s (1e9).
  Result<double> read() const {
    struct Piece {
      const WeightFile* file;
      uint64_t offset;
    };
    std::vector<Piece> pieces;
    for (const WeightFile& file : files_)
      for (uint64_t at = 0; at < file.bytes(); at += kPieceBytes) pieces.push_back({&file, at});
    std::atomic<size_t> next{0};
    std::atomic<bool> failed{false};
    const auto work = [&] {
      std::vector<std::byte> memory(kPieceBytes);
      for (size_t i = next.fetch_add(1); i < pieces.size(); i = next.fetch_add(1))
        if (!pieces[i].file->read(pieces[i].offset, memory)) failed = true;
    };
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> threads;
    for (unsigned i = 1; i < std::clamp(std::thread::hardware_concurrency(), 1u, kThreadsMax); ++i)
      threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
    const double seconds = Seconds(std::chrono::steady_clock::now() - start).count();
    if (failed) return Error{"a weight file cannot be read"};
    return static_cast<double>(bytes()) / seconds * 1e-9;
  }

 private:
  std::vector<WeightFile> files_;
};

struct Loading {
  double seconds = 0;
  std::string device;
};
Result<Loading> load_once(const std::string& directory, int32_t index) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Model> model, load_model(directory));
  DeviceChoice choice;
  choice.kv_bytes = int64_t{1} << 30;
  CudaExecutorOptions options = gpu_options(choice, index);
  std::chrono::steady_clock::time_point start;
  options.planned = [&](const ExecutorInfo&) { start = std::chrono::steady_clock::now(); };
  ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor, make_cuda_executor(model, options));
  return Loading{Seconds(std::chrono::steady_clock::now() - start).count(), executor->info().device};
}

Status run_load(const LoadFlags& flags) {
  ASSIGN_OR_RETURN(const int32_t index, gpu_index(flags.device));
  RETURN_IF_ERROR(check_gpu(index));
  ASSIGN_OR_RETURN(const std::string directory, resolve_model_directory(flags.model));
  const WeightFiles files(directory);
  std::vector<double> seconds, files_gb_s;
  std::string device;
  for (int32_t run = flags.cold ? 0 : -1; run < flags.runs; ++run) {  // run -1 fills the system's memory
    if (flags.cold) files.forget();
    ASSIGN_OR_RETURN(const Loading loading, load_once(directory, index));
    if (flags.cold) files.forget();
    ASSIGN_OR_RETURN(const double reading, files.read());
    if (run < 0) continue;
    seconds.push_back(loading.seconds);
    device = loading.device;
    files_gb_s.push_back(reading);
  }
  ASSIGN_OR_RETURN(const double copy_gb_s, measure_gpu_copy_bandwidth(index));
  const Spread time = spread_of(seconds), reading = spread_of(files_gb_s);
  const double gb = static_cast<double>(files.bytes()) * 1e-9;
  boost::json::object line = result_line("load", flags.cold ? "cold" : "cached", device);
  line["model_shape"] = flags.model;
  line["gb"] = gb;
  line["seconds"] = time.median;
  line["seconds_min"] = time.min;
  line["seconds_max"] = time.max;
  line["gb_s"] = gb / time.median;
  line["files_gb_s"] = reading.median;
  line["copy_gb_s"] = copy_gb_s;
  line["percent_of_limit"] = 100 * gb / time.median / std::min(reading.median, copy_gb_s);
  line["runs"] = flags.runs;
  if (!record_result(line, flags.results_dir)) return Error{"the result was not recorded"};
  return Ok{};
}

}  // namespace

void add_load_bench(Command bench, const std::function<void(const Status&)>& finish) {
  auto flags = std::make_shared<LoadFlags>();
  const Command load =
      bench.add_subcommand("load", "gigabytes a second of a checkpoint's weights on their way to a GPU");
  load.add_option("--model", flags->model, "checkpoint directory or hub id").required();
  load.add_option("--device", flags->device, "cuda or cuda:INDEX").show_default();
  load.add_flag("--cold", flags->cold,
                "the operating system forgets the files before each run: they come from the disk");
  load.add_option("--runs", flags->runs, "repetitions").between(1, 1000).show_default();
  load.add_option("--results", flags->results_dir,
                  "append the line to <machine>.ndjson in this folder, e.g. bench/results")
      .writable_folder();
  load.callback([=] { finish(run_load(*flags)); });
}

}  // namespace boreas
