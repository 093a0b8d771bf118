// The stages of the pre-tokenizer and how they are read from JSON: see pretokenizer.h.
#include "text/pretokenizer.h"

#include <boost/json.hpp>
#include <string>

#include "text/unicode.h"

namespace boreas {
namespace json = boost::json;

namespace {

constexpr size_t kStagesMax = 16;
constexpr int kNestingMax = 4;
constexpr size_t kGroupDigits = 3;

void append_part(std::string_view piece, size_t begin, size_t end, std::vector<std::string_view>& out) {
  if (end > begin) out.push_back(piece.substr(begin, end - begin));
}

}  // namespace

void split_digit_groups(std::string_view piece, std::vector<std::string_view>& out) {
  size_t done = 0;  // bytes of `piece` already in `out`
  std::vector<size_t> starts;
  for (size_t offset = 0; offset < piece.size();) {
    const size_t run_begin = offset;
    size_t end = offset;  // of the characters known to be digits
    starts.clear();
    char32_t code_point = next_code_point(piece, offset);
    while (is_decimal_digit(code_point)) {
      starts.push_back(end);
      end = offset;
      if (offset == piece.size()) break;
      code_point = next_code_point(piece, offset);
    }
    if (starts.empty()) continue;
    const bool at_boundary = end == piece.size() || !is_word(code_point);
    if (!at_boundary) continue;
    append_part(piece, done, run_begin, out);
    const size_t first_group = (starts.size() - 1) % kGroupDigits + 1;
    for (size_t first = 0, next = first_group; first < starts.size(); first = next, next += kGroupDigits) {
      append_part(piece, starts[first], next < starts.size() ? starts[next] : end, out);
    }
    done = end;
  }
  append_part(piece, done, piece.size(), out);
}

void split_digits(std::string_view piece, bool individual, std::vector<std::string_view>& out) {
  size_t done = 0;  // bytes of `piece` already in `out`
  bool in_numbers = false;
  for (size_t offset = 0; offset < piece.size();) {
    const size_t begin = offset;
    const bool number = is_number(next_code_point(piece, offset));
    if (number != in_numbers || (number && individual)) {
      append_part(piece, done, begin, out);
      done = begin;
      in_numbers = number;
    }
  }
  append_part(piece, done, piece.size(), out);
}

// Reads one pre-tokenizer object after the other into stages; errors name the place and the construct.
struct PreTokenizer::Loader {
  std::vector<Stage> stages;
  bool byte_level = false;  // seen: nothing may follow

  Status read(const json::value& value, const std::string& path, int depth) {
    const json::object* object = value.if_object();
    if (object == nullptr) return Error{path + ": an object is expected", path};
    if (byte_level) return Error{path + ": nothing may follow ByteLevel", path};
    ASSIGN_OR_RETURN(const std::string_view type, string_of(*object, "type", path));
    if (type == "Sequence") return read_sequence(*object, path, depth);
    if (stages.size() == kStagesMax) return Error{path + ": too many pre-tokenizers", path};
    if (type == "Split") return read_split(*object, path);
    if (type == "Digits") return read_digits(*object, path);
    if (type == "ByteLevel") return read_byte_level(*object, path);
    return Error{path + ": pre-tokenizer '" + std::string(type) + "' is not supported", path};
  }

  Status read_sequence(const json::object& object, const std::string& path, int depth) {
    const std::string list_path = path + ".pretokenizers";
    const json::value* list = object.if_contains("pretokenizers");
    if (list == nullptr || !list->is_array()) return Error{list_path + ": an array is expected", list_path};
    if (depth == kNestingMax) return Error{path + ": Sequences are nested too deep", path};
    size_t index = 0;
    for (const json::value& item : list->get_array()) {
      RETURN_IF_ERROR(read(item, list_path + "." + std::to_string(index++), depth + 1));
    }
    return Ok{};
  }

  Status read_split(const json::object& object, const std::string& path) {
    ASSIGN_OR_RETURN(const std::string_view behavior, string_of(object, "behavior", path));
    if (behavior != "Isolated") {
      return Error{path + ": Split behavior '" + std::string(behavior) + "' is not supported", path};
    }
    ASSIGN_OR_RETURN(const bool invert, bool_of(object, "invert", path));
    if (invert) return Error{path + ": Split with invert is not supported", path};
    const json::value* pattern = object.if_contains("pattern");
    const json::object* form = pattern == nullptr ? nullptr : pattern->if_object();
    if (form == nullptr) return Error{path + ".pattern: an object is expected", path};
    if (!form->contains("Regex")) return Error{path + ".pattern: only Regex patterns are supported", path};
    ASSIGN_OR_RETURN(const std::string_view regex, string_of(*form, "Regex", path + ".pattern"));
    if (regex == kDigitGroupPattern) {
      stages.emplace_back(DigitGroups{});
      return Ok{};
    }
    auto compiled = SplitRegex::compile(regex);
    if (!compiled.ok()) return Error{path + ".pattern: " + compiled.error().message, path};
    stages.emplace_back(std::move(compiled).value());
    return Ok{};
  }

  Status read_digits(const json::object& object, const std::string& path) {
    ASSIGN_OR_RETURN(const bool individual, bool_of(object, "individual_digits", path));
    stages.emplace_back(Digits{individual});
    return Ok{};
  }

  Status read_byte_level(const json::object& object, const std::string& path) {
    ASSIGN_OR_RETURN(const bool prefix, bool_of(object, "add_prefix_space", path));
    if (prefix) return Error{path + ": ByteLevel with add_prefix_space is not supported", path};
    bool use_regex = true;  // files older than the key mean true
    if (object.contains("use_regex")) {
      ASSIGN_OR_RETURN(use_regex, bool_of(object, "use_regex", path));
    }
    byte_level = true;
    if (!use_regex) return Ok{};
    auto compiled = SplitRegex::compile(kGpt2Pattern);
    CHECK(compiled.ok());
    stages.emplace_back(std::move(compiled).value());
    return Ok{};
  }

  static Result<std::string_view> string_of(const json::object& object, std::string_view key, const std::string& path) {
    const json::value* value = object.if_contains(key);
    const std::string where = path + "." + std::string(key);
    if (value == nullptr || !value->is_string()) return Error{where + ": a string is expected", where};
    return std::string_view(value->get_string());
  }

  static Result<bool> bool_of(const json::object& object, std::string_view key, const std::string& path) {
    const json::value* value = object.if_contains(key);
    const std::string where = path + "." + std::string(key);
    if (value == nullptr || !value->is_bool()) return Error{where + ": true or false is expected", where};
    return value->get_bool();
  }
};

Result<PreTokenizer> PreTokenizer::from_json(const json::value& value) {
  Loader loader;
  RETURN_IF_ERROR(loader.read(value, "pre_tokenizer", 0));
  if (!loader.byte_level) return Error{"pre_tokenizer: ByteLevel is missing", "pre_tokenizer"};
  PreTokenizer result;
  result.stages_ = std::move(loader.stages);
  return result;
}

Result<std::vector<std::string_view>> PreTokenizer::split(std::string_view text) const {
  RegexScratch scratch;
  std::vector<std::string_view> pieces;
  if (!text.empty()) pieces.push_back(text);
  std::vector<std::string_view> parts;
  for (const Stage& stage : stages_) {
    parts.clear();
    for (const std::string_view piece : pieces) {
      if (const auto* regex = std::get_if<SplitRegex>(&stage)) {
        RETURN_IF_ERROR(regex->split(piece, scratch, parts));
      } else if (const auto* digits = std::get_if<Digits>(&stage)) {
        split_digits(piece, digits->individual, parts);
      } else {
        split_digit_groups(piece, parts);
      }
    }
    pieces.swap(parts);
  }
  return pieces;
}

}  // namespace boreas
