#include "bench_serve_stream.h"

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <optional>

#include "eval_score.h"

namespace boreas {

namespace json = boost::json;

namespace {

constexpr size_t kMessageBytesMax = 200;

const json::value* member(const json::value* value, std::string_view key) {
  const json::object* object = value ? value->if_object() : nullptr;
  return object ? object->if_contains(key) : nullptr;
}

bool has_text(const json::value* value) { return value && value->is_string() && !value->get_string().empty(); }

// A count, or -1.
int64_t count(const json::value* value) {
  if (value && value->is_int64() && value->get_int64() >= 0) return value->get_int64();
  return -1;
}

bool has_payload(const json::value* delta) {
  const json::value* calls = member(delta, "tool_calls");
  return has_text(member(delta, "content")) || has_text(member(delta, "reasoning")) ||
         has_text(member(delta, "reasoning_content")) || (calls && calls->is_array() && !calls->get_array().empty());
}

void fail(ChatRecord& record, std::string kind, std::string_view message) {
  record.error = std::move(kind);
  record.message = message.substr(0, kMessageBytesMax);
}

void take_usage(const json::value* usage, ChatRecord& record) {
  if (!usage || !usage->is_object()) return;
  record.has_usage = true;
  record.prompt_tokens = std::max(record.prompt_tokens, count(member(usage, "prompt_tokens")));
  record.output_tokens = std::max(record.output_tokens, count(member(usage, "completion_tokens")));
  const int64_t cached = count(member(member(usage, "prompt_tokens_details"), "cached_tokens"));
  record.cached_tokens = std::max(record.cached_tokens, cached);
}

}  // namespace

bool SseReader::take_line(std::string_view line, const std::function<bool(std::string_view data)>& on_data) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (line.empty()) {
    if (!has_data_) return true;
    has_data_ = false;
    const std::string data = std::move(data_);
    data_.clear();
    return on_data(data);
  }
  const size_t colon = line.find(':');
  const std::string_view field = line.substr(0, colon);
  if (field == "data") {
    std::string_view value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
    if (!value.empty() && value.front() == ' ') value.remove_prefix(1);
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
    return data_.size() <= kEventBytesMax;
  }
  return field.empty() || field == "event" || field == "id" || field == "retry";  // an empty name is a comment
}

bool SseReader::feed(std::string_view bytes, const std::function<bool(std::string_view data)>& on_data) {
  for (size_t end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
    line_ += bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    const std::string line = std::move(line_);
    line_.clear();
    if (!take_line(line, on_data)) return false;
  }
  line_ += bytes;
  return line_.size() <= kEventBytesMax;
}

bool ChatStream::take_event(std::string_view data) {
  if (data == "[DONE]") {
    done_ = true;
    return true;
  }
  const std::optional<json::value> chunk = parse_json(data);
  if (!chunk || !chunk->is_object()) {
    fail(record_, "malformed", data);
    return false;
  }
  if (const json::value* error = member(&*chunk, "error"); error && !error->is_null()) {
    const json::value* message = member(error, "message");
    fail(record_, "server_error", has_text(message) ? std::string_view(message->get_string()) : data);
    return false;
  }
  const json::value* usage = member(&*chunk, "usage");
  take_usage(usage, record_);
  const json::value* choices = member(&*chunk, "choices");
  if (!choices || !choices->is_array() || choices->get_array().empty()) return true;
  const json::value* choice = &choices->get_array().front();
  if (has_payload(member(choice, "delta"))) ++chunks_;
  told_ = std::max(told_, count(member(usage, "completion_tokens")));
  if (const json::value* reason = member(choice, "finish_reason"); has_text(reason))
    record_.finish_reason = std::string_view(reason->get_string());
  return true;
}

bool ChatStream::feed(std::string_view bytes, int64_t at_ns) {
  chunks_ = 0;
  const bool was_done = done_;
  const bool good = reader_.feed(bytes, [this](std::string_view data) { return take_event(data); });
  if (!good && record_.error.empty()) fail(record_, "malformed", bytes);
  const int64_t tokens = told_ >= 0 ? told_ - counted_ : chunks_;
  if (tokens > 0) record_.arrivals.push_back({at_ns, tokens});
  counted_ += std::max<int64_t>(tokens, 0);
  if (!was_done) finish_ns_ = at_ns;
  return record_.error.empty();
}

void ChatStream::finish() {
  if (finish_ns_ >= 0) record_.end_ns = finish_ns_;
  record_.output_tokens = std::max(record_.output_tokens, counted_);
  if (record_.error.empty() && !done_ && record_.finish_reason.empty())
    fail(record_, "incomplete", "the stream ended without finish_reason and [DONE]");
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

ChatRecord ask_stream(HttpClient& client, const std::string& body, const std::atomic<bool>& stop,
                      int32_t& retry_after_s) {
  ChatRecord record;
  ChatStream stream(record);
  retry_after_s = -1;
  record.sent_ns = now_ns();
  const Result<HttpReply> reply = client.post_stream(
      "/chat/completions", body, [&stream](std::string_view bytes) { return stream.feed(bytes, now_ns()); }, stop);
  record.end_ns = now_ns();
  if (!reply.ok()) {
    const std::string& what = reply.error().param;
    const std::string kind = what == "url" ? "unreachable" : what == "stopped" ? std::string(kInterrupted) : what;
    fail(record, kind, reply.error().message);
  } else if (reply->status != 200) {
    retry_after_s = reply->retry_after_s;
    fail(record, "http_" + std::to_string(reply->status), reply->body);
  }
  const int64_t end_ns = record.end_ns;
  stream.finish();
  if (!record.error.empty()) record.end_ns = end_ns;
  return record;
}

}  // namespace boreas
