// What this binary is made of, wherever it runs: the commit, looked up when it was built (cmake/commit.cmake), and how
// it is linked.
#pragma once

namespace boreas {

// Twelve digits, with "-dirty" behind them if more was built than that commit; "unknown": not from a git tree.
const char* build_commit();

// Whether it is the one of preset portable, which needs only glibc.
bool build_is_portable();

}  // namespace boreas
