#include "memory_report.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <ostream>

#include "exec/cuda/cuda_executor.h"

namespace boreas {

namespace {

int64_t pages_of(int64_t positions) { return (positions + kPagePositions - 1) / kPagePositions; }

// A window that begins in the middle of a page needs one more.
int64_t window_pages(const ExecutorInfo& info, int64_t positions) {
  return std::min(pages_of(positions), pages_of(info.window) + 1);
}

void print_line(std::ostream& out, const std::string& what, int64_t bytes) {
  char line[96];
  std::snprintf(line, sizeof(line), "  %-32s %9.3f GB\n", what.c_str(), static_cast<double>(bytes) / 1e9);
  out << line;
}

}  // namespace

int64_t tokens_that_fit(const ExecutorInfo& info) {
  return info.page_bytes_full > 0 ? int64_t{info.pages_full} * kPagePositions : 0;
}

int64_t windows_that_fit(const ExecutorInfo& info) {
  return info.page_bytes_sliding > 0 ? info.pages_sliding / window_pages(info, info.context_max) : 0;
}

int64_t sequences_that_fit(const ExecutorInfo& info, int64_t positions) {
  int64_t sequences = std::numeric_limits<int64_t>::max();
  if (info.page_bytes_full > 0) sequences = info.pages_full / pages_of(positions);
  if (info.page_bytes_sliding > 0) sequences = std::min(sequences, info.pages_sliding / window_pages(info, positions));
  return sequences;
}

std::string describe_running(const ExecutorInfo& info, int32_t running_max, int32_t asked, int32_t step_tokens_max) {
  const int32_t launch_rows = CudaExecutorOptions{}.rows_max;  // of the kernel
  const bool gpu = info.name == "cuda";
  std::string text = std::to_string(running_max) + " sequences at once; others wait";
  if (gpu && running_max > launch_rows)
    text += "; " + std::to_string((running_max + launch_rows - 1) / launch_rows) + " launches of up to " +
            std::to_string(launch_rows) + " a step";
  if (gpu && asked == 0) text += "; --max-num-seqs raises that, at more launches a step";
  if (asked <= running_max) return text;
  text += "\n           --max-num-seqs " + std::to_string(asked) + " is " + std::to_string(running_max) + " here: ";
  const int32_t tokens = step_tokens_max > 0 ? std::min(step_tokens_max, info.tokens_max) : info.tokens_max;
  if (running_max < std::min(info.rows_max, info.sequence_slots))
    return text + "a step has " + std::to_string(tokens) +
           " tokens, a few of them for prompts; give more --max-num-batched-tokens";
  return text + info.device + " takes no more rows in a step";
}

void print_memory(std::ostream& out, const ExecutorInfo& info) {
  if (info.memory.empty()) return;
  out << "memory on " << info.device << "\n";
  int64_t sum = 0;
  for (const MemoryUse& use : info.memory) {
    print_line(out, use.what, use.bytes);
    sum += use.bytes;
  }
  print_line(out, "together", sum);
  if (info.page_bytes_full > 0)
    out << "  full attention: " << info.pages_full << " pages, " << tokens_that_fit(info)
        << " tokens of all sequences together\n";
  if (info.page_bytes_sliding > 0)
    out << "  sliding window: " << info.pages_sliding << " pages, " << windows_that_fit(info) << " windows of "
        << info.window << " tokens\n";
  out << "  one sequence: up to " << info.context_max << " tokens" << std::endl;
}

}  // namespace boreas
