// Which commit this binary is made of, wherever it runs: looked up when it was built (cmake/commit.cmake).
#pragma once

namespace boreas {

// Twelve digits, with "-dirty" behind them if more was built than that commit; "unknown": not from a git tree.
const char* build_commit();

}  // namespace boreas
