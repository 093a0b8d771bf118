// A server of the bundled checkpoint in the test's process, on the CPU executor.
#pragma once

#include <memory>
#include <string>

#include "apps/eval_local.h"

namespace boreas {

inline Result<std::unique_ptr<LocalServer>> start_demo_server() {
  ModelSource source;
  source.model = std::string(BOREAS_SOURCE_DIR) + "/models/demo";
  DeviceChoice choice;
  choice.device = "cpu";
  choice.context_max = 4096;
  choice.kv_bytes = int64_t{64} << 20;
  return LocalServer::start(source, choice);
}

}  // namespace boreas
