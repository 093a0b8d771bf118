#include "memory_report.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <ostream>

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
