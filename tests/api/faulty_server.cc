// `boreas serve` as it is, in a process of its own, over the CPU executor with a fault planted: after SIGUSR1 every
// step and every call is an error, as with a GPU that is lost; after SIGUSR2 a step hangs, and is an error as late as
// the CUDA executor gives it up (exec/cuda/deadlines.h). Memory of a lost GPU is perhaps never given back, so neither
// is this executor's: its destructor does not return.
//   api_faulty_server DIRECTORY_OF_A_CHECKPOINT [lost]
// Serves on a free port, which its banner names, with one thread. "lost": the device is, before the first step.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "apps/serve.h"
#include "exec/cuda/deadlines.h"
#include "program/device_spec.h"

namespace boreas {
namespace {

std::atomic<bool> lost = false, hung = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler may only touch such

constexpr std::chrono::milliseconds kStepTime{5};  // at least, so that answers last

// Of the longest launch of the full shape that an H200 has pages for.
std::chrono::nanoseconds longest_wait() {
  constexpr int32_t kContext = 387072;
  const cuda::Deadlines deadlines(model_shape("north").value(), h200_spec().read_bytes_per_s, 8192, 1);
  cuda::LaunchPlan launch;
  launch.rows = 8;
  for (int32_t row = 0; row < launch.rows; ++row) {
    launch.row[static_cast<size_t>(row)].position = kContext - 1;
    launch.row[static_cast<size_t>(row)].group_first = row;
  }
  return deadlines.of_launch(launch);
}

class LosableExecutor final : public Executor {
 public:
  explicit LosableExecutor(std::unique_ptr<Executor> executor) : executor_(std::move(executor)) {}
  ~LosableExecutor() override {
    while (lost) ::pause();
  }

  const ExecutorInfo& info() const override { return executor_->info(); }
  void open_sequence(int32_t slot, const SequenceSpec& spec) override { executor_->open_sequence(slot, spec); }
  void close_sequence(int32_t slot) override { executor_->close_sequence(slot); }
  Result<StepTicket> submit(const StepPlan& plan) override {
    if (lost) return gone();
    return executor_->submit(plan);
  }
  Result<StepResult> wait(StepTicket ticket) override {
    std::this_thread::sleep_for(kStepTime);
    Result<StepResult> result = executor_->wait(ticket);
    if (hung) {
      std::this_thread::sleep_for(longest_wait());
      lost = true;
    }
    if (lost) return gone();
    return result;
  }
  Status save_page(PagePoolKind pool, PageId page, std::span<std::byte> out) override {
    return lost ? Status(gone()) : executor_->save_page(pool, page, out);
  }
  Status restore_page(PagePoolKind pool, PageId page, std::span<const std::byte> in) override {
    return lost ? Status(gone()) : executor_->restore_page(pool, page, in);
  }
  Status copy_page(PagePoolKind pool, PageId from, PageId to) override {
    return lost ? Status(gone()) : executor_->copy_page(pool, from, to);
  }

 private:
  static Error gone() { return Error{"the device was lost (planted by a test)", ""}; }

  std::unique_ptr<Executor> executor_;
};

int run(int argc, char** argv) {
  if (argc < 2) return 2;
  lost = argc > 2 && std::string_view(argv[2]) == "lost";
  std::signal(SIGUSR1, [](int) { lost = true; });
  std::signal(SIGUSR2, [](int) { hung = true; });
  ServeFlags flags;
  flags.model = argv[1];
  flags.device = "cpu";
  flags.threads = 1;
  flags.log_level = "off";
  flags.server.http.port = 0;
  return run_serve(flags, [](std::unique_ptr<Executor> executor) -> std::unique_ptr<Executor> {
    return std::make_unique<LosableExecutor>(std::move(executor));
  });
}

}  // namespace
}  // namespace boreas

int main(int argc, char** argv) { return boreas::run(argc, argv); }
