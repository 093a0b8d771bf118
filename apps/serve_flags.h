// The command line of `boreas serve`: names that vLLM users know, with the spellings of other servers as aliases, and
// flags that make no sense here accepted as long as their value says what this server does anyway.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "command_line.h"
#include "engine/engine.h"
#include "model/model.h"
#include "model_loading.h"
#include "server/server.h"

namespace boreas {

struct ServeFlags {
  std::string model;
  std::string model_shape;
  std::string load_format = "auto";
  std::string tokenizer;  // directory; empty: the model's
  std::string chat_template;
  std::vector<std::string> served_model_names;
  std::string device = "auto";
  bool require_gpu = false;
  int32_t threads = 0;
  int32_t running_asked = 0;  // --max-num-seqs; 0: not given
  int64_t kv_bytes = 0;
  std::string max_model_len = "auto";
  std::string generation_config = "auto";
  std::string override_generation_config;
  std::string api_key_file;
  std::string allowed_origins;
  std::string log_level = "info";
  std::string reasoning_field = "both";
  bool check_only = false;
  EngineOptions engine;
  ServerOptions server;
};

// Declares the flags; values land in `flags`, which must live as long as the parser.
void declare_serve_flags(Command command, ServeFlags& flags);

// Those of device and engine alone, for other commands that start a server of their own.
void declare_engine_flags(Command command, ServeFlags& flags);

// What needs more than a plain value: keys from file and environment, origins, lengths, names.
Status complete_serve_flags(ServeFlags& flags);

// What to load, and what to run it on.
ModelSource model_source(const ServeFlags& flags);
DeviceChoice device_choice(const ServeFlags& flags);

// Sampling defaults: the model's generation_config.json or neutral ones, then overrides.
Result<SamplingDefaults> sampling_defaults(const ServeFlags& flags, const ModelConfig& config);

}  // namespace boreas
