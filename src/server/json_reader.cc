#include "server/json_reader.h"

#include <cmath>
#include <limits>
#include <sstream>

#include "text/text.h"

namespace boreas {

namespace json = boost::json;

namespace {

// An upper bound of the values (and keys) in a JSON text, in one pass and without recursion.
size_t count_values(std::string_view text) {
  size_t count = 1;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') in_string = !in_string;
    if (c == '\\' && in_string) ++i;
    if (!in_string && (c == ',' || c == '[' || c == '{' || c == ':')) ++count;
  }
  return count;
}

std::string format_number(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

}  // namespace

std::variant<json::object, ApiError> parse_request_json(std::string_view body) {
  if (body.substr(0, 3) == "\xef\xbb\xbf") body.remove_prefix(3);
  if (count_values(body) > kJsonValuesMax) {
    return refused(413, "The request's JSON holds more than " + std::to_string(kJsonValuesMax) + " values.");
  }
  Result<json::value> value = parse_json_exact(body, kJsonDepthMax);
  if (!value.ok()) return invalid_value("", "The body is not valid JSON: " + value.error().message + ".");
  if (!value->is_object()) return invalid_value("", "The body must be a JSON object.");
  return std::move(value->get_object());
}

std::string_view json_kind(const json::value& value) {
  switch (value.kind()) {
    case json::kind::object:
      return "an object";
    case json::kind::array:
      return "an array";
    case json::kind::string:
      return "a string";
    case json::kind::bool_:
      return "a boolean";
    case json::kind::null:
      return "null";
    case json::kind::int64:
    case json::kind::uint64:
    case json::kind::double_:
      return "a number";
  }
  return "something else";
}

std::optional<int64_t> whole_number(const json::value& value, int64_t low, int64_t high) {
  std::optional<int64_t> found;
  if (const int64_t* integer = value.if_int64()) found = *integer;
  if (const double* real = value.if_double()) {
    // Below 2^53 every whole double is one integer.
    if (std::abs(*real) < 0x1p53 && *real == std::floor(*real)) found = static_cast<int64_t>(*real);
  }
  if (!found || *found < low || *found > high) return std::nullopt;
  return found;
}

const json::value* FieldReader::find(std::string_view key) const {
  const json::value* value = object_.if_contains(json::string_view(key.data(), key.size()));
  return value && !value->is_null() ? value : nullptr;
}

std::optional<bool> FieldReader::boolean(std::string_view key) {
  const json::value* value = find(key);
  if (!value) return std::nullopt;
  if (const bool* boolean = value->if_bool()) return *boolean;
  fail(invalid_value(path(key), "'" + path(key) + "' must be a boolean, not " + std::string(json_kind(*value)) + "."));
  return std::nullopt;
}

std::optional<int64_t> FieldReader::integer(std::string_view key, int64_t low, int64_t high) {
  const json::value* value = find(key);
  if (!value) return std::nullopt;
  if (const std::optional<int64_t> found = whole_number(*value, low, high)) return found;
  std::string message = "'" + path(key) + "' must be an integer";
  if (low != std::numeric_limits<int64_t>::min() && high != std::numeric_limits<int64_t>::max()) {
    message += " from " + std::to_string(low) + " to " + std::to_string(high);
  } else if (low != std::numeric_limits<int64_t>::min()) {
    message += " of at least " + std::to_string(low);
  }
  if (!value->is_number()) message += ", not " + std::string(json_kind(*value));
  fail(invalid_value(path(key), message + "."));
  return std::nullopt;
}

std::optional<double> FieldReader::number(std::string_view key, Range range) {
  const json::value* value = find(key);
  if (!value) return std::nullopt;
  double found = std::numeric_limits<double>::quiet_NaN();
  if (value->is_number()) found = value->to_number<double>();
  const bool above = range.low_open ? found > range.low : found >= range.low;
  if (std::isfinite(found) && above && found <= range.high) return found;
  std::string message = "'" + path(key) + "' must be a number ";
  message += (range.low_open ? "above " : "from ") + format_number(range.low);
  if (std::isfinite(range.high)) message += (range.low_open ? " and at most " : " to ") + format_number(range.high);
  if (!value->is_number()) message += ", not " + std::string(json_kind(*value));
  fail(invalid_value(path(key), message + "."));
  return std::nullopt;
}

std::optional<std::string_view> FieldReader::string(std::string_view key, size_t bytes_max) {
  const json::value* value = find(key);
  if (!value) return std::nullopt;
  const json::string* text = value->if_string();
  if (!text) {
    fail(invalid_value(path(key), "'" + path(key) + "' must be a string, not " + std::string(json_kind(*value)) + "."));
    return std::nullopt;
  }
  if (text->size() > bytes_max) {
    fail(invalid_value(path(key), "'" + path(key) + "' is longer than " + std::to_string(bytes_max) + " bytes."));
    return std::nullopt;
  }
  return std::string_view(text->data(), text->size());
}

const json::array* FieldReader::array(std::string_view key, size_t items_max) {
  const json::value* value = find(key);
  if (!value) return nullptr;
  const json::array* items = value->if_array();
  if (!items) {
    fail(invalid_value(path(key), "'" + path(key) + "' must be an array, not " + std::string(json_kind(*value)) + "."));
    return nullptr;
  }
  if (items->size() > items_max) {
    fail(invalid_value(path(key), "'" + path(key) + "' has " + std::to_string(items->size()) + " entries, at most " +
                                      std::to_string(items_max) + " are allowed."));
    return nullptr;
  }
  return items;
}

const json::object* FieldReader::object(std::string_view key) {
  const json::value* value = find(key);
  if (!value) return nullptr;
  if (const json::object* found = value->if_object()) return found;
  fail(invalid_value(path(key), "'" + path(key) + "' must be an object, not " + std::string(json_kind(*value)) + "."));
  return nullptr;
}

std::optional<std::vector<int32_t>> FieldReader::integers(std::string_view key, size_t items_max, int32_t low,
                                                          int32_t high) {
  const json::array* items = array(key, items_max);
  if (!items) return std::nullopt;
  std::vector<int32_t> found;
  found.reserve(items->size());
  for (size_t i = 0; i < items->size(); ++i) {
    const std::optional<int64_t> number = whole_number((*items)[i], low, high);
    if (!number) {
      const std::string at = path(key) + "." + std::to_string(i);
      fail(invalid_value(
          at, "'" + at + "' must be an integer from " + std::to_string(low) + " to " + std::to_string(high) + "."));
      return std::nullopt;
    }
    found.push_back(static_cast<int32_t>(*number));
  }
  return found;
}

}  // namespace boreas
