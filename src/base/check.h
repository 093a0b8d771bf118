// CHECK and DCHECK: our own bugs stop the process with a message; they are never used on outside data (that is Result,
// result.h). CHECK stays on in release builds; DCHECK is for hot loops and is compiled in only with BOREAS_DCHECK
// defined.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace boreas {

[[noreturn]] inline void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s\n", file, line, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace boreas

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) ::boreas::check_failed(#condition, __FILE__, __LINE__); \
  } while (0)

#ifdef BOREAS_DCHECK
#define DCHECK(condition) CHECK(condition)
#else
#define DCHECK(condition) \
  do {                    \
  } while (0)
#endif
