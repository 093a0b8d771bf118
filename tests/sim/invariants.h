// What must hold of an EngineCore between two steps, recounted naively from all tables: owners of every page, pins,
// idle pages, host memory, the text of every cache node. The scenario calls it after every step.
#pragma once

#include <string>

#include "engine/core.h"
#include "exec/fake/fake_executor.h"

namespace boreas {

// An empty string, or what is wrong. contents: also compares cached pages with the executor's memory.
std::string broken_invariant(const EngineCore& core, const FakeExecutor& executor, bool contents);

}  // namespace boreas
