// The system calls that Python needs to compute, as a filter program for seccomp. Used by eval_python.cc alone.
#pragma once

#include <linux/filter.h>

#include <vector>

namespace boreas {

// Empty on a processor for which there is no list.
std::vector<sock_filter> compute_only_filter();

}  // namespace boreas
