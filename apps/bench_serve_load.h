// Puts conversations to a server: closed loop (so many clients, each with one request at a time) or open loop (arrivals
// by a seeded Poisson process, however slow the server is). Used by `boreas bench serve`.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench_serve_stream.h"
#include "bench_serve_workload.h"
#include "eval_client.h"

namespace boreas {

struct ServeLoadOptions {
  HttpTarget target;
  std::string model;
  int32_t clients = 1;        // closed loop, if rate is 0
  double rate = 0;            // requests a second on average
  uint64_t seed = 1;          // of the arrivals; of the sampling together with the prompt
  int64_t timeout_ms = 1000;  // of a request; in the closed loop with all its waits for a server that says 429
  bool ignore_eos = false;
  double temperature = 0;
  double seconds_max = 0;                      // no request begins after so many; 0: any
  bool show_progress = false;                  // on stderr
  std::function<std::string()> progress_note;  // what it says besides; empty: nothing
  std::function<void()> on_progress;           // called many times a second while it lasts; empty: not
  const std::atomic<bool>* stop = nullptr;     // another thread's or a signal handler's wish to end; null: none
};

struct LoadResult {
  std::vector<ChatRecord> records;  // of the requests that were made, in no order
  double seconds = 0;               // from the first request to the last answer
  bool interrupted = false;
  bool lost_server = false;  // so many requests in a row found no connection that the rest was not tried
};

// The most requests that the open loop has under way; what comes then counts as an error "too_many_open".
constexpr int32_t kOpenMax = 1024;

// The turns of a conversation follow each other; the texts of earlier answers are the workload's, whatever the server
// said, so that all servers get the same prompts. In the open loop the first turns arrive at rate / turns on average. A
// client of the closed loop that is told 429 waits as long as Retry-After says (1 s without it) and asks again.
LoadResult run_load(const std::vector<Conversation>& conversations, const ServeLoadOptions& options);

// The closed loop alone, over conversations that are made as they are needed, until there is none.
using ConversationSource = std::function<std::shared_ptr<const Conversation>()>;  // never called by two at once
LoadResult run_load(const ConversationSource& source, const ServeLoadOptions& options);

// Kind and message of a request that failed, the first in the records; empty: none did. One that Ctrl-C or `stop` ended
// has not failed.
std::string first_error_of(const LoadResult& result);

// Request body of a turn. Its seed is its own: other prompts have others.
std::string request_body(const Conversation& conversation, size_t turn, const ServeLoadOptions& options);

}  // namespace boreas
