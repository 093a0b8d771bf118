#include "eval_set.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <utility>

namespace boreas {

namespace json = boost::json;

namespace {

constexpr uintmax_t kFileBytesMax = uintmax_t{1} << 28;
constexpr size_t kNameBytesMax = 256;

Result<std::string> name_at(const json::object& line, const char* key) {
  const json::value* value = line.if_contains(key);
  if (!value || !value->is_string() || value->get_string().empty() || value->get_string().size() > kNameBytesMax) {
    return Error{std::string("'") + key + "' must be a string of 1 to " + std::to_string(kNameBytesMax) + " bytes",
                 key};
  }
  return std::string(value->get_string());
}

Result<EvalItem> read_item(const std::string& text) {
  std::optional<json::value> parsed = parse_json(text);
  json::object* line = parsed ? parsed->if_object() : nullptr;
  if (!line) return Error{"the line must be a JSON object"};
  EvalItem item;
  ASSIGN_OR_RETURN(item.id, name_at(*line, "id"));
  ASSIGN_OR_RETURN(item.kind, name_at(*line, "kind"));
  ASSIGN_OR_RETURN(item.part, name_at(*line, "part"));
  json::value* request = line->if_contains("request");
  if (!request || !request->is_object()) return Error{"'request' must be an object", "request"};
  const json::value* messages = request->get_object().if_contains("messages");
  if (!messages || !messages->is_array() || messages->get_array().empty()) {
    return Error{"'request.messages' must be a list with at least one message", "request.messages"};
  }
  item.request = std::move(request->get_object());
  const json::value* check = line->if_contains("check");
  if (!check) return Error{"'check' is missing", "check"};
  ASSIGN_OR_RETURN(item.check, read_check(*check));
  return item;
}

void keep_per_kind(EvalSet& set, int32_t per_kind) {
  std::map<std::string, int32_t> seen;
  const auto surplus = [&](const EvalItem& item) { return ++seen[item.kind] > per_kind; };
  // Not remove_if: it may call the predicate in any order.
  std::vector<EvalItem> kept;
  for (EvalItem& item : set.items) {
    if (!surplus(item)) kept.push_back(std::move(item));
  }
  set.items = std::move(kept);
}

}  // namespace

Result<EvalSet> read_eval_set(const std::string& file) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(file, error);
  if (error) return Error{"cannot read the prompts in " + file + ": " + error.message(), "set"};
  if (bytes > kFileBytesMax) {
    return Error{
        file + " has " + std::to_string(bytes) + " bytes, at most " + std::to_string(kFileBytesMax) + " are read",
        "set"};
  }
  EvalSet set;
  set.name = std::filesystem::path(file).filename().string();
  std::ifstream stream(file, std::ios::binary);
  int64_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (trim(line).empty()) continue;
    Result<EvalItem> item = read_item(line);
    if (!item.ok()) {
      return Error{file + ", line " + std::to_string(number) + ": " + item.error().message, item.error().param};
    }
    set.items.push_back(std::move(*item));
  }
  if (stream.bad() || set.items.empty()) return Error{file + " holds no prompts", "set"};
  return set;
}

Status check_ids(const std::vector<EvalSet>& sets) {
  std::set<std::string_view> seen;
  for (const EvalSet& set : sets) {
    for (const EvalItem& item : set.items) {
      if (!seen.insert(item.id).second) return Error{set.name + ": two prompts have the id '" + item.id + "'", "id"};
    }
  }
  return Ok{};
}

void keep_subset(std::vector<EvalSet>& sets, const Subset& subset) {
  if (subset.per_kind > 0) {
    for (EvalSet& set : sets) keep_per_kind(set, subset.per_kind);
  }
  size_t total = count_items(sets);
  if (subset.first > 0) total = std::min(total, static_cast<size_t>(subset.first));
  const size_t wanted = subset.spread > 0 ? std::min(total, static_cast<size_t>(subset.spread)) : total;
  size_t index = 0, taken = 0;  // over all sets
  for (EvalSet& set : sets) {
    std::vector<EvalItem> kept;
    for (EvalItem& item : set.items) {
      // Of `total` places number i is taken if the share of taken ones falls behind there.
      const bool due = index < total && (index + 1) * wanted / total > taken;
      if (due) kept.push_back(std::move(item));
      taken += due ? 1 : 0;
      ++index;
    }
    set.items = std::move(kept);
  }
  sets.erase(std::remove_if(sets.begin(), sets.end(), [](const EvalSet& set) { return set.items.empty(); }),
             sets.end());
}

size_t count_items(const std::vector<EvalSet>& sets) {
  size_t count = 0;
  for (const EvalSet& set : sets) count += set.items.size();
  return count;
}

}  // namespace boreas
