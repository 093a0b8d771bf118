#include "eval_syscalls.h"

#include <asm/termbits.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace boreas {

namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;
#endif

// Nothing here reaches another process, the network, or the content of a file that the process does not read.
constexpr long kPermitted[] = {
    SYS_read,
    SYS_readv,
    SYS_pread64,
    SYS_write,
    SYS_writev,
    SYS_close,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_lseek,
    SYS_faccessat,
    SYS_readlinkat,
    SYS_getdents64,
    SYS_getcwd,
    SYS_dup,
    SYS_mmap,
    SYS_munmap,
    SYS_mremap,
    SYS_mprotect,
    SYS_madvise,
    SYS_brk,
    SYS_futex,
    SYS_execve,
    SYS_exit,
    SYS_exit_group,
    SYS_rt_sigaction,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_rt_sigprocmask,
    SYS_getpid,
    SYS_gettid,
    SYS_getppid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_uname,
    SYS_sysinfo,
    SYS_getrandom,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_gettimeofday,
    SYS_nanosleep,
    SYS_clock_nanosleep,
    SYS_sched_yield,
    SYS_getrusage,
    SYS_times,
    SYS_set_robust_list,
    SYS_set_tid_address,
    SYS_restart_syscall,
    SYS_sched_getaffinity,
#ifdef SYS_rseq
    SYS_rseq,
#endif
#ifdef SYS_faccessat2
    SYS_faccessat2,
#endif
#if defined(__x86_64__)
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_getdents,
    SYS_arch_prctl,
    SYS_time,
#endif
};

constexpr uint32_t kAnswer = SECCOMP_RET_ERRNO | (EPERM & SECCOMP_RET_DATA);

sock_filter statement(uint16_t code, uint32_t k) { return {code, 0, 0, k}; }

sock_filter jump_unless_equal(uint32_t value, uint8_t skip) { return {BPF_JMP | BPF_JEQ | BPF_K, 0, skip, value}; }

// Permits call `number` if argument `index` (its low 32 bits), masked, equals one of `values`.
void permit_if(std::vector<sock_filter>& filter, long number, uint32_t index, uint32_t mask,
               std::initializer_list<uint32_t> values) {
  const auto low_word = static_cast<uint32_t>(offsetof(seccomp_data, args) + index * sizeof(uint64_t));
  const auto length = static_cast<uint8_t>(2 + 2 * values.size() + 1);
  filter.push_back(jump_unless_equal(static_cast<uint32_t>(number), length));
  filter.push_back(statement(BPF_LD | BPF_W | BPF_ABS, low_word));
  filter.push_back(statement(BPF_ALU | BPF_AND | BPF_K, mask));
  for (const uint32_t value : values) {
    filter.push_back(jump_unless_equal(value, 1));
    filter.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  filter.push_back(statement(BPF_RET | BPF_K, kAnswer));
}

}  // namespace

std::vector<sock_filter> compute_only_filter() {
  if (kArchitecture == 0) return {};
  std::vector<sock_filter> filter;
  filter.push_back(statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)));
  filter.push_back(jump_unless_equal(kArchitecture, 1));
  filter.push_back({BPF_JMP | BPF_JA, 0, 0, 1});
  filter.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  filter.push_back(statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  for (const long number : kPermitted) {
    filter.push_back(jump_unless_equal(static_cast<uint32_t>(number), 1));
    filter.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  constexpr uint32_t kWriting = O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND;  // none of them set: for reading
  permit_if(filter, SYS_openat, 2, kWriting, {O_RDONLY});
#if defined(__x86_64__)
  permit_if(filter, SYS_open, 1, kWriting, {O_RDONLY});
#endif
  permit_if(filter, SYS_ioctl, 1, UINT32_MAX, {TCGETS});  // isatty
  permit_if(filter, SYS_prlimit64, 0, UINT32_MAX, {0});   // the process's own
  // Others than these lock files, or send a signal of choice to any process of the same user (F_SETOWN, F_SETSIG).
  permit_if(filter, SYS_fcntl, 1, UINT32_MAX, {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL});
  filter.push_back(statement(BPF_RET | BPF_K, kAnswer));
  return filter;
}

}  // namespace boreas
