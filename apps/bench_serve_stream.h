// One streamed chat completion as a load generator sees it: when which tokens arrived, and how it ended. Used by
// `boreas bench serve`; pure but for ask_stream().
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "eval_client.h"

namespace boreas {

// Server-sent events out of pieces of any size.
class SseReader {
 public:
  static constexpr size_t kEventBytesMax = size_t{8} << 20;

  // Calls on_data with the data of every event that is now whole. False: what came are no server-sent events, or one
  // is longer than kEventBytesMax, or on_data said so.
  bool feed(std::string_view bytes, const std::function<bool(std::string_view data)>& on_data);

 private:
  bool take_line(std::string_view line, const std::function<bool(std::string_view data)>& on_data);

  std::string line_;  // not yet ended
  std::string data_;
  bool has_data_ = false;
};

// Tokens that came in one piece: nobody can tell when each of them was made.
struct Arrival {
  int64_t at_ns = 0;
  int64_t tokens = 0;
};

struct ChatRecord {
  std::string error;    // kind, see error_kinds; empty: answered to its end
  std::string message;  // what is known about the error
  int64_t sent_ns = 0, end_ns = 0;
  std::vector<Arrival> arrivals;
  int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;  // the server's usage, where it tells it
  bool has_usage = false;
  std::string finish_reason;
  int32_t waits_429 = 0;  // answers 429 that were waited out before this one
};

// Kinds of errors: "unreachable" no connection; "timeout"; "closed" the connection ended in the middle; "http" no HTTP;
// "http_NNN" that status; "malformed" no server-sent events or no JSON in them; "server_error" an error object in the
// stream; "incomplete" an end without finish_reason or [DONE]; "too_many_open" not sent, see run_load; "interrupted".
constexpr std::string_view kInterrupted = "interrupted";

// Folds the body of a stream into a record. Tokens are counted by the usage of each chunk (continuous_usage_stats)
// where the server sends it; else a chunk with text, reasoning or a tool call in it counts as one token.
class ChatStream {
 public:
  explicit ChatStream(ChatRecord& record) : record_(record) {}

  // Bytes that arrived at at_ns. False: no more is wanted, the record says why.
  bool feed(std::string_view bytes, int64_t at_ns);
  // After the last byte.
  void finish();

 private:
  bool take_event(std::string_view data);

  ChatRecord& record_;
  SseReader reader_;
  bool done_ = false;
  int64_t chunks_ = 0;      // with something in them, of this piece
  int64_t counted_ = 0;     // tokens in arrivals
  int64_t told_ = -1;       // by the usage of a chunk
  int64_t finish_ns_ = -1;  // arrival of [DONE], else of the last piece
};

int64_t now_ns();

// Sends `body` to /chat/completions and reads the stream. A refusal with Retry-After leaves the seconds in
// `retry_after_s`, -1 otherwise.
ChatRecord ask_stream(HttpClient& client, const std::string& body, const std::atomic<bool>& stop,
                      int32_t& retry_after_s);

}  // namespace boreas
