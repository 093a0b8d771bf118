// Tool calls in a conversation: arguments as objects, ids unique over the whole conversation.
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "text/formats/chat_format_impl.h"
#include "text/jinja/format.h"

namespace boreas::chat {

namespace {

// Deeper arguments are kept as raw text.
constexpr int kArgumentsDepthMax = 100;

struct Call {
  std::string original, unique, name;
  size_t message;
  bool answered = false;
};

std::string text_of(const boost::json::object& object, std::string_view key) {
  const boost::json::value* value = object.if_contains(key);
  if (value == nullptr || value->is_null()) return {};
  return value->is_string() ? std::string(value->get_string()) : to_text(*value);  // some clients send numbers
}

class CallIds {
 public:
  explicit CallIds(boost::json::array& messages) : messages_(messages) {}

  void run() {
    collect();
    for (size_t i = 0; i < messages_.size(); ++i) {
      boost::json::object& message = messages_[i].as_object();
      if (boost::json::value* calls = message.if_contains("tool_calls"); calls != nullptr && calls->is_array()) {
        for (boost::json::value& call : calls->get_array()) name_call(call.as_object(), i);
      }
      const boost::json::value* role = message.if_contains("role");
      if (role != nullptr && role->is_string() && role->get_string() == "tool") name_result(message);
    }
  }

 private:
  // Every id that occurs: a generated one must not be one that a result names.
  void collect() {
    for (const boost::json::value& value : messages_) {
      const boost::json::object& message = value.as_object();
      taken_.insert(text_of(message, "tool_call_id"));
      const boost::json::value* calls = message.if_contains("tool_calls");
      if (calls == nullptr || !calls->is_array()) continue;
      for (const boost::json::value& call : calls->get_array()) taken_.insert(text_of(call.as_object(), "id"));
    }
  }

  std::string unused(const std::string& base) {
    size_t& number = suffixes_[base];
    std::string candidate;
    do candidate = base + "_" + std::to_string(++number);
    while (!taken_.insert(candidate).second);
    return candidate;
  }

  void name_call(boost::json::object& call, size_t message) {
    const std::string original = text_of(call, "id");
    const bool reusable = !original.empty() && used_.insert(original).second;
    std::string unique = reusable ? original : unused(original.empty() ? "call" : original);
    call["id"] = unique;
    by_original_[original].push_back(calls_.size());
    calls_.push_back({original, std::move(unique), text_of(call.at("function").as_object(), "name"), message, false});
  }

  // The first unanswered call of the most recent message that has one among `candidates` (ascending indices into
  // calls_).
  Call* most_recent_unanswered(const std::vector<size_t>& candidates, const std::string& name) {
    Call* found = nullptr;
    for (size_t i = candidates.size(); i > 0; --i) {
      Call& call = calls_[candidates[i - 1]];
      if (found != nullptr && call.message != found->message) break;
      if (!call.answered && (name.empty() || call.name == name)) found = &call;
    }
    return found;
  }

  void name_result(boost::json::object& message) {
    const std::string id = text_of(message, "tool_call_id");
    Call* call = nullptr;
    if (const auto it = by_original_.find(id); !id.empty() && it != by_original_.end()) {
      call = most_recent_unanswered(it->second, {});
      if (call == nullptr) call = &calls_[it->second.back()];  // a second result of the same call
    } else if (id.empty()) {
      std::vector<size_t> all(calls_.size());
      for (size_t i = 0; i < all.size(); ++i) all[i] = i;
      call = most_recent_unanswered(all, text_of(message, "name"));
      if (call == nullptr) call = most_recent_unanswered(all, {});
    }
    message["tool_call_id"] = call != nullptr ? call->unique : id;
    if (call != nullptr) call->answered = true;
  }

  boost::json::array& messages_;
  std::vector<Call> calls_;
  std::unordered_map<std::string, std::vector<size_t>> by_original_;
  std::unordered_map<std::string, size_t> suffixes_;
  std::unordered_set<std::string> used_, taken_;
};

void append_json(std::string& out, const boost::json::value& value) {
  switch (value.kind()) {
    case boost::json::kind::array: {
      out += '[';
      bool first = true;
      for (const boost::json::value& item : value.get_array()) {
        if (!std::exchange(first, false)) out += ", ";
        append_json(out, item);
      }
      out += ']';
      return;
    }
    case boost::json::kind::object: {
      out += '{';
      bool first = true;
      for (const auto& entry : value.get_object()) {
        if (!std::exchange(first, false)) out += ", ";
        out += boost::json::serialize(boost::json::string(entry.key())) + ": ";
        append_json(out, entry.value());
      }
      out += '}';
      return;
    }
    case boost::json::kind::double_:
      out += jinja::format_float(value.get_double());
      return;
    default:
      out += boost::json::serialize(value);
  }
}

}  // namespace

std::string to_text(const boost::json::value& value) {
  std::string out;
  append_json(out, value);
  return out;
}

boost::json::object arguments_object(const boost::json::value* arguments) {
  if (arguments == nullptr || arguments->is_null()) return {};
  if (arguments->is_object()) return arguments->get_object();
  const std::string text = arguments->is_string() ? std::string(arguments->get_string()) : to_text(*arguments);
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return {};
  auto parsed = parse_json_exact(text, kArgumentsDepthMax);
  if (parsed.ok() && parsed->is_object()) return std::move(*parsed).as_object();
  return {{"_raw", text}};
}

void unify_call_ids(boost::json::array& messages) { CallIds(messages).run(); }

}  // namespace boreas::chat
