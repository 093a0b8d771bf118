// Typed look-ups in configuration JSON (config_reader.h). Boost.JSON does the parsing; all bounds are here.
#include "model/config_reader.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <utility>

#include "model/quote.h"

namespace boreas {
namespace {

// The published config.json is under 4 KB; the largest file read this way is a weight index of about 2 MB.
constexpr size_t kJsonBytesMax = size_t{16} << 20;
constexpr size_t kJsonDepthMax = 32;
constexpr size_t kIdListMax = 64;

// Whole numbers without a fraction, others as C++ prints doubles.
std::string number_text(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return std::to_string(static_cast<int64_t>(value));
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

std::string range_text(const char* type, double min, double max) {
  return std::string(type) + " in " + number_text(min) + ".." + number_text(max);
}

}  // namespace

Result<boost::json::object> parse_json_object(std::string_view text, const std::string& file) {
  if (text.size() > kJsonBytesMax) {
    return Error{file + " has " + std::to_string(text.size()) + " bytes; expected at most " +
                 std::to_string(kJsonBytesMax)};
  }
  boost::json::parse_options options;
  options.max_depth = kJsonDepthMax;
  boost::json::error_code code;
  boost::json::value value = boost::json::parse({text.data(), text.size()}, code, {}, options);
  if (code) return Error{file + " is not valid JSON: " + code.message()};
  if (!value.is_object()) return Error{file + " holds " + describe_json(value) + "; expected a JSON object"};
  return std::move(value.get_object());
}

std::string describe_json(const boost::json::value& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_null()) return "null";
  if (value.is_string()) return quote({value.get_string().data(), value.get_string().size()});
  if (value.is_double()) return number_text(value.get_double());
  return boost::json::serialize(value);
}

const boost::json::value* ConfigReader::find(std::string_view key) const {
  const boost::json::value* value = object_.if_contains({key.data(), key.size()});
  return value == nullptr || value->is_null() ? nullptr : value;
}

void ConfigReader::fail(std::string_view key, const std::string& message) {
  if (error_) return;
  error_ = Error{file_ + ": " + std::string(key) + " " + message, std::string(key)};
}

void ConfigReader::refuse(std::string_view key, const std::string& found, const std::string& supported) {
  fail(key, "is " + found + ", which is not supported; supported: " + supported);
}

void ConfigReader::fail_type(std::string_view key, const std::string& expected) {
  const boost::json::value* value = find(key);
  if (value == nullptr) {
    fail(key, "is missing; expected " + expected + " (no default is assumed)");
  } else {
    fail(key, "is " + describe_json(*value) + "; expected " + expected);
  }
}

int32_t ConfigReader::to_integer(std::string_view key, const boost::json::value& value, int32_t min, int32_t max) {
  if (value.is_int64() && value.get_int64() >= min && value.get_int64() <= max) {
    return static_cast<int32_t>(value.get_int64());
  }
  fail(key, "is " + describe_json(value) + "; expected " + range_text("an integer", min, max));
  return min;
}

int32_t ConfigReader::integer(std::string_view key, int32_t min, int32_t max) {
  const boost::json::value* value = find(key);
  if (value != nullptr) return to_integer(key, *value, min, max);
  fail_type(key, range_text("an integer", min, max));
  return min;
}

double ConfigReader::number(std::string_view key, double min, double max) {
  const boost::json::value* value = find(key);
  if (value != nullptr && value->is_number()) {
    const double found = value->is_double()  ? value->get_double()
                         : value->is_int64() ? static_cast<double>(value->get_int64())
                                             : static_cast<double>(value->get_uint64());
    if (found >= min && found <= max) return found;
  }
  fail_type(key, range_text("a number", min, max));
  return min;
}

bool ConfigReader::boolean(std::string_view key) {
  const boost::json::value* value = find(key);
  if (value != nullptr && value->is_bool()) return value->get_bool();
  fail_type(key, "true or false");
  return false;
}

std::string ConfigReader::string(std::string_view key) {
  const boost::json::value* value = find(key);
  if (value != nullptr && value->is_string()) return {value->get_string().data(), value->get_string().size()};
  fail_type(key, "a string");
  return {};
}

std::vector<std::string> ConfigReader::strings(std::string_view key, size_t count) {
  const std::string expected = "a list of " + std::to_string(count) + " strings";
  std::vector<std::string> out;
  const boost::json::value* value = find(key);
  if (value == nullptr || !value->is_array()) {
    fail_type(key, expected);
    return std::vector<std::string>(count);
  }
  for (const boost::json::value& entry : value->get_array()) {
    if (!entry.is_string()) {
      fail(key, "holds " + describe_json(entry) + "; expected " + expected);
      return std::vector<std::string>(count);
    }
    out.emplace_back(entry.get_string().data(), entry.get_string().size());
  }
  if (out.size() != count) {
    fail(key, "has " + std::to_string(out.size()) + " entries; expected " + expected);
    out.resize(count);
  }
  return out;
}

int32_t ConfigReader::integer_or(std::string_view key, int32_t min, int32_t max, int32_t fallback) {
  return has(key) ? integer(key, min, max) : fallback;
}

double ConfigReader::number_or(std::string_view key, double min, double max, double fallback) {
  return has(key) ? number(key, min, max) : fallback;
}

bool ConfigReader::boolean_or(std::string_view key, bool fallback) { return has(key) ? boolean(key) : fallback; }

std::string ConfigReader::string_or(std::string_view key, std::string fallback) {
  return has(key) ? string(key) : std::move(fallback);
}

std::vector<int32_t> ConfigReader::ids_or_none(std::string_view key, int32_t end) {
  const boost::json::value* value = find(key);
  if (value == nullptr) return {};
  if (!value->is_array()) return {to_integer(key, *value, 0, end - 1)};
  if (value->get_array().size() > kIdListMax) {
    fail(key, "has " + std::to_string(value->get_array().size()) + " entries; expected at most " +
                  std::to_string(kIdListMax));
    return {};
  }
  std::vector<int32_t> ids;
  for (const boost::json::value& entry : value->get_array()) ids.push_back(to_integer(key, entry, 0, end - 1));
  return ids;
}

}  // namespace boreas
