#include "serve_flags.h"

#include <boost/json.hpp>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <utility>

namespace boreas {

namespace json = boost::json;

namespace {

constexpr size_t kKeyFileBytesMax = 1 << 20;
constexpr double kBytesPerGib = 1 << 30, kSwapGibMax = 1 << 16;

// With --require-gpu, auto is the GPU or the reason why not.
std::string wanted_device(const ServeFlags& flags) {
  return flags.device == "auto" && flags.require_gpu ? "cuda" : flags.device;
}

void declare_model_flags(Command command, ServeFlags& flags) {
  command.add_option(
      "model,--model,-m,--model-path,--ckpt", flags.model,
      "Directory with config.json, weights, tokenizer.json and chat template, or a hub id in the local cache");
  command.add_option("--served-model-name,--alias,--model-id", flags.served_model_names,
                     "Names clients may ask for; the first is echoed");
  command.add_option("--model-shape", flags.model_shape, "Serve made-up weights of this shape instead of a checkpoint");
  command.add_option("--load-format", flags.load_format, "auto: the checkpoint's weights; dummy: made-up ones")
      .one_of({"auto", "safetensors", "dummy"});
  command.add_option("--tokenizer", flags.tokenizer, "Directory of tokenizer and chat template, if not the model's");
  command.add_option("--chat-template,--chat-template-file", flags.chat_template, "File to use instead of the model's")
      .existing_file();
  command.add_option("--default-chat-template-kwargs,--chat-template-kwargs", flags.server.default_chat_template_kwargs,
                     "JSON object with arguments for every rendering of the template");
  command
      .add_option("--generation-config", flags.generation_config,
                  "auto: sampling defaults of the model; vllm: neutral ones")
      .one_of({"auto", "vllm"});
  command.add_option("--override-generation-config", flags.override_generation_config,
                     "JSON object with temperature, top_p, top_k, min_p, repetition_penalty");
  command.add_flag("--dry-run,--check", flags.check_only, "Load and check everything, then exit");
}

}  // namespace

void declare_engine_flags(Command command, ServeFlags& flags) {
  command.add_option("--device", flags.device, "auto, cpu, cuda or cuda:INDEX");
  command.add_flag("--require-gpu", flags.require_gpu, "Fail instead of falling back to the processor");
  command
      .add_option("--threads,-t", flags.threads,
                  "Processor threads that compute, at most one a processor; 0: all processors")
      .between(0, 1024);
  command
      .add_option("--kv-cache-memory-bytes", flags.kv_bytes,
                  "Memory of the KV pages (default: 1 GiB, or what a GPU has left)")
      .between(int64_t{1} << 20, int64_t{1} << 44);
  command.add_option("--max-model-len,--context-length,--max-seq-len,--max-context,--ctx-size,-c", flags.max_model_len,
                     "Longest prompt + answer: a number, also as 256k, or auto");
  command
      .add_option("--max-num-seqs,--max-running-requests,--max-batch-size,--parallel,--bs", flags.running_asked,
                  "Sequences that run at once, the others wait; default: 64 on a processor, 8 on a GPU, whose kernel "
                  "takes 8 at a time: with more, every step is several launches")
      .between(1, 4096);
  command
      .add_option("--max-num-batched-tokens,--chunked-prefill-size,--max-num-tokens,--prefill-chunk-size",
                  flags.engine.step_tokens_max, "Tokens of one step; default: 8192 on a GPU, 2048 on a processor")
      .between(kStepTokensMin, 1 << 20);
  command
      .add_option("--max-num-queued-reqs,--max-queued-requests", flags.engine.waiting_max,
                  "Requests that may wait; more are answered 429")
      .between(0, 1 << 20);
  command.add_option("--max-num-queued-tokens", flags.engine.waiting_tokens_max, "Prompt tokens that may wait")
      .between(int64_t{1}, int64_t{1} << 40);
  command.add_flag("--enable-prefix-caching,!--no-enable-prefix-caching,!--disable-radix-cache",
                   flags.engine.prefix_cache, "Reuse the KV of equal prompt beginnings");
  command.add_flag("--prefix-cache-exact", flags.engine.prefix_cache_exact, "Reuse only what a prefill computed");
  command
      .add_number(
          "--swap-space",
          [&flags](const double& gib) { flags.engine.swap_bytes_max = static_cast<int64_t>(gib * kBytesPerGib); },
          "GiB of host memory for the KV pages of preempted sequences; 0: they are computed again")
      .number_between(0, kSwapGibMax);
  command
      .add_option("--step-latency-ms", flags.engine.step_latency_ms,
                  "By how much prefill may delay the decoding of other requests in a step; 0: any")
      .between(0, 60'000);
  command
      .add_option("--decode-percent", flags.engine.decode_percent,
                  "Share of the time that running requests keep for decoding while prompts prefill; 0: none")
      .between(0, 99);
}

namespace {

void declare_http_flags(Command command, ServeFlags& flags) {
  HttpOptions& http = flags.server.http;
  http.port = 8000;
  command.add_option("--host", http.host, "Address to listen on").show_default();
  command.add_option("--port", http.port, "Port; 0: any free one").between(0, 65535).show_default();
  command.add_option("--api-key", flags.server.api_keys, "Keys clients may use; also BOREAS_API_KEY, VLLM_API_KEY");
  command.add_option("--api-key-file", flags.api_key_file, "File with one key a line").existing_file();
  command.add_flag("--allow-no-auth", flags.server.allow_no_auth, "Serve other machines without a key");
  command.add_option("--allowed-origins", flags.allowed_origins, "JSON list of origins for browsers");
  command.add_option("--max-body-bytes", http.body_bytes_max, "Longest request body")
      .between(int64_t{1024}, int64_t{1} << 30);
  command.add_option("--max-connections", http.connections_max, "Open connections").between(1, 1 << 20);
  const auto seconds = [command](const std::string& name, int64_t& target_ms, const std::string& help) {
    command
        .add_number(
            name, [&target_ms](const double& value) { target_ms = static_cast<int64_t>(value * 1000); }, help)
        .number_between(0, 1e7);
  };
  seconds("--timeout-keep-alive", http.idle_timeout_ms, "Seconds an idle connection stays open");
  seconds("--sse-ping-interval", http.ping_interval_ms, "Seconds after which a silent stream gets a comment; 0: never");
  seconds("--request-timeout,--timeout", flags.server.limits.request_timeout_ms,
          "Seconds a request may take, waiting included: its deadline in the engine; 0: any");
  seconds("--shutdown-timeout", flags.server.shutdown_timeout_ms, "Seconds that running requests get after SIGTERM");
  command.add_option("--log-level,--uvicorn-log-level", flags.log_level, "trace, debug, info, warning, error or off");
}

void declare_api_flags(Command command, ServeFlags& flags) {
  RequestLimits& limits = flags.server.limits;
  command.add_option("--max-n", limits.choices_max, "Largest n").between(1, 1024);
  command.add_option("--max-logprobs", limits.logprobs_max, "Largest top_logprobs").between(0, 1024);
  command.add_option("--max-stop-strings", limits.stop_strings_max, "Stop strings of a request").between(0, 1024);
  command.add_option("--max-output-tokens,--max-new", limits.output_tokens_max, "Longest answer; 0: the context")
      .between(0, std::numeric_limits<int32_t>::max());
  command.add_flag("--strict-max-tokens", limits.strict_max_tokens,
                   "Refuse max_tokens that do not fit the context instead of answering shorter");
  command.add_option("--reasoning-field", flags.reasoning_field, "both, reasoning or reasoning_content")
      .one_of({"both", "reasoning", "reasoning_content"});
  command.add_flag("--enable-force-include-usage", flags.server.force_include_usage, "Usage in every stream");
  command.add_flag("--exclude-tools-when-tool-choice-none", flags.server.exclude_tools_when_none,
                   "Leave the tools out of the prompt if tool_choice is none");
  command.add_flag("!--parse-markers-in-messages", flags.server.escape_markers,
                   "Let marker text in messages become control tokens");
  command.add_option("--owned-by", flags.server.owned_by, "owned_by of /v1/models");
}

// Flags of other servers whose only possible values are what happens here.
void declare_compatible_flags(Command command) {
  constexpr const char* kGroup = "Accepted for compatibility";
  const auto value = [&](const std::string& name, std::vector<std::string> values, const std::string& help = "") {
    command
        .add_word(
            name, [](const std::string&) {}, help)
        .one_of(std::move(values))
        .in_group(kGroup);
  };
  value("--tensor-parallel-size,--tp", {"1"});
  value("--pipeline-parallel-size,--pp", {"1"});
  value("--data-parallel-size,--dp", {"1"});
  value("--dtype", {"auto", "bfloat16"});
  value("--kv-cache-dtype", {"auto", "bfloat16"});
  value("--tokenizer-mode", {"auto"});
  value("--tool-call-parser", {"cohere_command4", "auto"});
  value("--reasoning-parser", {"cohere_command4", "auto"});
  value("--block-size", {"64"});
  value("--scheduling-policy", {"fcfs", "priority"},
        "Either: lower 'priority' of requests first, strictly, so higher ones may starve; then by arrival");
  value("--max-num-partial-prefills", {"1"});
  for (const char* flag :
       {"--trust-remote-code", "--enforce-eager", "--enable-auto-tool-choice", "--enable-chunked-prefill",
        "--enable-prompt-tokens-details", "--enable-request-id-headers", "--enable-server-load-tracking",
        "--disable-log-requests", "--disable-log-stats", "--disable-uvicorn-access-log", "--async-scheduling"}) {
    command.add_flag(flag).in_group(kGroup);
  }
}

Result<int32_t> parse_length(const std::string& text) {
  if (text == "auto" || text == "-1") return 0;
  int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(parsed.ptr, static_cast<size_t>(text.data() + text.size() - parsed.ptr));
  if (unit == "k") value *= 1000;
  if (unit == "K") value *= 1024;
  const bool known = unit.empty() || unit == "k" || unit == "K";
  if (parsed.ec != std::errc() || !known || value < 1 || value > std::numeric_limits<int32_t>::max()) {
    return Error{"--max-model-len must be a number such as 8192 or 256K, or auto, not '" + text + "'", "max-model-len"};
  }
  return static_cast<int32_t>(value);
}

Status read_keys(ServeFlags& flags) {
  for (const char* name : {"BOREAS_API_KEY", "VLLM_API_KEY"}) {
    const char* key = std::getenv(name);
    if (key && *key && flags.server.api_keys.empty()) flags.server.api_keys.emplace_back(key);
  }
  if (flags.api_key_file.empty()) return Ok{};
  std::error_code error;
  const auto bytes = std::filesystem::file_size(flags.api_key_file, error);
  if (error || bytes > kKeyFileBytesMax)
    return Error{"cannot read the API keys in " + flags.api_key_file, "api-key-file"};
  std::ifstream file(flags.api_key_file);
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty() && line.front() != '#') flags.server.api_keys.push_back(line);
  }
  if (flags.server.api_keys.empty()) return Error{flags.api_key_file + " holds no API key", "api-key-file"};
  return Ok{};
}

Status read_origins(ServeFlags& flags) {
  if (flags.allowed_origins.empty()) return Ok{};
  boost::system::error_code error;
  const json::value origins = json::parse(flags.allowed_origins, error);
  if (error || !origins.is_array()) return Error{"--allowed-origins must be a JSON list of strings", "allowed-origins"};
  flags.server.allowed_origins.clear();
  for (const json::value& origin : origins.get_array()) {
    if (!origin.is_string()) return Error{"--allowed-origins must be a JSON list of strings", "allowed-origins"};
    flags.server.allowed_origins.emplace_back(origin.get_string());
  }
  return Ok{};
}

}  // namespace

void declare_serve_flags(Command command, ServeFlags& flags) {
  declare_model_flags(command, flags);
  declare_engine_flags(command, flags);
  declare_http_flags(command, flags);
  declare_api_flags(command, flags);
  declare_compatible_flags(command);
}

Status complete_serve_flags(ServeFlags& flags) {
  RETURN_IF_ERROR(read_keys(flags));
  RETURN_IF_ERROR(read_origins(flags));
  if (flags.running_asked > 0) flags.engine.running_max = flags.running_asked;
  ASSIGN_OR_RETURN(flags.engine.context_max, parse_length(flags.max_model_len));
  if (flags.reasoning_field == "reasoning") flags.server.reasoning_field = ReasoningField::kReasoning;
  if (flags.reasoning_field == "reasoning_content") flags.server.reasoning_field = ReasoningField::kReasoningContent;
  if (flags.model.empty() && flags.model_shape.empty()) {
    return Error{"name a model: boreas serve MODEL (or --model-shape for made-up weights)", "model"};
  }
  std::vector<std::string>& names = flags.server.model_names;
  names = flags.served_model_names;
  if (names.empty() && flags.model.empty()) names.push_back(flags.model_shape + "-dummy");
  if (names.empty()) {
    // A directory is served under its own name and as it was given.
    std::error_code error;
    const std::filesystem::path path = std::filesystem::canonical(flags.model, error);
    if (!error && !path.filename().empty() && path.filename() != flags.model) names.push_back(path.filename());
    names.push_back(flags.model);
  }
  return Ok{};
}

ModelSource model_source(const ServeFlags& flags) {
  ModelSource source;
  source.model = flags.model;
  source.model_shape = flags.model_shape;
  source.load_format = flags.load_format;
  source.tokenizer = flags.tokenizer;
  source.chat_template_file = flags.chat_template;
  source.device = wanted_device(flags);
  return source;
}

DeviceChoice device_choice(const ServeFlags& flags) {
  DeviceChoice choice;
  choice.device = wanted_device(flags);
  choice.require_gpu = flags.require_gpu;
  choice.threads = flags.threads;
  choice.sequence_slots = flags.engine.running_max;
  choice.rows_max = flags.running_asked;
  choice.step_tokens_max = flags.engine.step_tokens_max;
  choice.context_max = flags.engine.context_max;
  choice.kv_bytes = flags.kv_bytes;
  return choice;
}

Result<SamplingDefaults> sampling_defaults(const ServeFlags& flags, const ModelConfig& config) {
  SamplingDefaults defaults;
  if (flags.generation_config == "vllm") {
    defaults.top_p = 1;
  } else {
    if (config.default_temperature >= 0) defaults.temperature = config.default_temperature;
    if (config.default_top_p > 0) defaults.top_p = config.default_top_p;
    if (config.default_top_k > 0) defaults.top_k = config.default_top_k;
  }
  if (flags.override_generation_config.empty()) return defaults;
  boost::system::error_code error;
  const json::value given = json::parse(flags.override_generation_config, error);
  if (error || !given.is_object()) {
    return Error{"--override-generation-config must be a JSON object", "override-generation-config"};
  }
  for (const auto& entry : given.get_object()) {
    const std::string key(entry.key());
    const double value = entry.value().is_number() ? entry.value().to_number<double>() : -1;
    if (key == "temperature" && value >= 0 && value <= 2) defaults.temperature = static_cast<float>(value);
    else if (key == "top_p" && value > 0 && value <= 1) defaults.top_p = static_cast<float>(value);
    else if (key == "top_k" && value >= 0 && value <= 1e9) defaults.top_k = static_cast<int32_t>(value);
    else if (key == "min_p" && value >= 0 && value <= 1) defaults.min_p = static_cast<float>(value);
    else if (key == "repetition_penalty" && value > 0 && value <= 10)
      defaults.repetition_penalty = static_cast<float>(value);
    else
      return Error{"--override-generation-config: '" + key + "' is unknown or out of range",
                   "override-generation-config"};
  }
  return defaults;
}

}  // namespace boreas
