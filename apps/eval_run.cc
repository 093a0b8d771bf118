#include "eval_run.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace boreas {

namespace {

// What a user sees meanwhile. Any thread.
class Progress {
 public:
  Progress(size_t total, bool show) : total_(total), show_(show), terminal_(::isatty(STDERR_FILENO) != 0) {}

  void add(bool right) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++done_;
    right_ += right ? 1 : 0;
    if (!show_) return;
    if (terminal_) return draw_bar();
    const size_t tenth = done_ * 10 / total_;
    if (tenth == (done_ - 1) * 10 / total_) return;
    std::fprintf(stderr, "%zu of %zu prompts, %zu right, %.1f s\n", done_, total_, right_, seconds());
  }

 private:
  void draw_bar() {
    constexpr size_t kWidth = 40;
    char bar[kWidth + 1];
    const size_t full = done_ * kWidth / total_;
    for (size_t i = 0; i < kWidth; ++i) bar[i] = i < full ? '=' : ' ';
    bar[kWidth] = '\0';
    const double percent = 100.0 * static_cast<double>(right_) / static_cast<double>(done_);
    std::fprintf(stderr, "\r[%s] %zu/%zu  %.1f %% right  %.0f s%s", bar, done_, total_, percent, seconds(),
                 done_ == total_ ? "\n" : " ");
    std::fflush(stderr);
  }

  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

  const size_t total_;
  const bool show_, terminal_;
  std::mutex mutex_;
  size_t done_ = 0, right_ = 0;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

Result<std::vector<EvalOutcome>> run_prompts(const std::vector<EvalSet>& sets, const RunOptions& options,
                                             const PythonSandbox* sandbox) {
  std::vector<EvalOutcome> outcomes;
  for (const EvalSet& set : sets) {
    for (const EvalItem& item : set.items) outcomes.push_back({&set, &item, AnswerVerdict::kWrong, {}});
  }
  Progress progress(outcomes.size(), options.show_progress);
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::optional<Error> failure;  // guarded by mutex; also ends the others
  const auto work = [&] {
    HttpClient client(options.target, options.timeout_ms);
    for (size_t i = next++; i < outcomes.size(); i = next++) {
      EvalOutcome& outcome = outcomes[i];
      Result<Reply> reply = ask(client, outcome.item->request, options.ask);
      if (!reply.ok()) {
        const std::lock_guard<std::mutex> lock(mutex);
        if (!failure) failure = reply.error();
        next = outcomes.size();
        return;
      }
      outcome.reply = std::move(*reply);
      if (outcome.reply.error.empty()) outcome.verdict = score(outcome.reply.answer, outcome.item->check, sandbox);
      progress.add(outcome.verdict == AnswerVerdict::kRight);
    }
  };
  std::vector<std::thread> threads;
  const size_t count = std::min(outcomes.size(), static_cast<size_t>(options.parallel));
  for (size_t i = 0; i < count; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  if (failure) return *failure;
  return outcomes;
}

}  // namespace boreas
