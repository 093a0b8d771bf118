// The door of server/: how the engine is asked. HTTP in, engine requests out, engine events in, HTTP out.
//
//   auto server = Server::start(options);   listens at once; every route but /live and /version answers 503 "loading"
//   server->ready(model);                   once weights are loaded and a warm-up generation has passed
//   return server->wait();                  until a signal, shut_down() or an engine fault; the process's exit code
//
// Threads: one I/O thread owns sockets, live requests and output text; a few workers parse, render and tokenise
// requests, so that a large one delays nobody; the engine has its own thread and only hands events over.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/engine.h"
#include "server/http.h"
#include "text/text.h"

namespace boreas {

enum class ReasoningField : uint8_t { kBoth, kReasoning, kReasoningContent };

// Used for what a request leaves open.
struct SamplingDefaults {
  float temperature = 1;
  float top_p = 0.95F;  // the model card's advice
  int32_t top_k = 0;
  float min_p = 0;
  float repetition_penalty = 1;
};

struct RequestLimits {
  int32_t choices_max = 16;         // --max-n
  int32_t logprobs_max = 20;        // --max-logprobs
  int32_t output_tokens_max = 0;    // --max-output-tokens; 0: the context
  bool strict_max_tokens = false;   // prompt + max_tokens over the context is an error, not a shorter answer
  int32_t stop_strings_max = 4;     // --max-stop-strings
  size_t stop_bytes_max = 4 << 10;  // of one stop string
  int32_t stop_ids_max = 128;
  int32_t logit_bias_max = 1024;  // entries
  int32_t prompts_max = 128;      // of one completions request
  int32_t tools_max = 512;
  int64_t request_timeout_ms = 0;  // 0: none
};

struct ServerOptions {
  HttpOptions http;
  std::string version = "0.0.0";
  std::vector<std::string> model_names;  // not empty; the first is the default and is echoed
  std::string owned_by = "boreas";
  std::vector<std::string> api_keys;              // empty: no authorisation
  bool allow_no_auth = false;                     // without keys a non-loopback address is refused unless set
  std::vector<std::string> allowed_origins{"*"};  // CORS
  RequestLimits limits;
  ReasoningField reasoning_field = ReasoningField::kBoth;
  bool force_include_usage = false;
  bool exclude_tools_when_none = false;  // tool_choice "none" leaves the tools out of the prompt
  bool escape_markers = true;            // marker text in messages stays text
  bool strip_citations = false;
  std::string default_chat_template_kwargs;  // a JSON object; empty: none
  int32_t worker_threads = 2;
  int32_t worker_jobs_max = 1024;               // requests waiting for a worker -> 429
  size_t worker_bytes_max = size_t{256} << 20;  // of their bodies, likewise
  int64_t shutdown_timeout_ms = 30'000;         // for running requests after a signal
  bool handle_signals = false;                  // SIGTERM and SIGINT drain; a second one ends the process
};

// What is served. Everything must live until Server::wait() has returned.
struct ServedModel {
  Engine* engine = nullptr;
  const Tokenizer* tokenizer = nullptr;
  const ChatTemplate* chat_template = nullptr;  // null: no chat, completions only
  const Clock* clock = nullptr;                 // the engine's, for deadlines
  OutputMarkers markers;
  std::vector<TokenId> eos_ids;  // end generation unless a request ignores them
  int32_t vocab_size = 0;        // ids below it are valid
  SamplingDefaults sampling;
  std::string root;         // shown in /v1/models
  std::string fingerprint;  // "fp_..."
  bool dummy = false;       // weights are made up; ids the tokenizer lacks print as <id>
};

// "trace", "debug", "info", "warning", "error" or "off"; false for others. At "info" there is a line a request, without
// its text.
bool set_log_level(std::string_view name);

// The ids of North's markers in a tokenizer. An error names the one that is missing.
Result<OutputMarkers> find_output_markers(const Tokenizer& tokenizer);

class Server {
 public:
  // Errors: address in use or unknown, a non-loopback address without keys, malformed template arguments.
  static Result<std::unique_ptr<Server>> start(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;
  std::string url() const;
  // Until ready(): what /health says is being done, and how much of it (0 to 1; below 0: unknown). Any thread.
  void loading(std::string phase, double progress = -1);
  // Takes over the engine's step and fault hooks.
  void ready(const ServedModel& model);
  // As a first signal does: no new requests, running ones may finish within shutdown_timeout_ms.
  void shut_down();
  // Blocks. 0 after a shutdown, 1 after an engine fault.
  int wait();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace boreas
