// ConfigReader: typed, bounded look-ups in one JSON object of a checkpoint's configuration. It keeps the first problem
// it meets and goes on with harmless values, so a family file reads like a table of keys; the caller asks for error()
// once at the end. Called by families/*.cc and model_config.cc.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace boreas {

// Parses a JSON text that must be an object; `file` names it in errors. At most 16 MiB and 32 levels deep.
Result<boost::json::object> parse_json_object(std::string_view text, const std::string& file);

class ConfigReader {
 public:
  // Looks into `object`, which must outlive the reader; `file` names it in errors ("config.json").
  ConfigReader(const boost::json::object& object, std::string file) : object_(object), file_(std::move(file)) {}

  // The value of a key, or nullptr if it is absent or null.
  const boost::json::value* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }

  // Required values in [min, max]; absent, of another type or out of range is a failure that names the key.
  int32_t integer(std::string_view key, int32_t min, int32_t max);
  double number(std::string_view key, double min, double max);
  bool boolean(std::string_view key);
  std::string string(std::string_view key);
  // A required list of strings, of exactly `count` entries.
  std::vector<std::string> strings(std::string_view key, size_t count);

  // Optional values: `fallback` if absent.
  int32_t integer_or(std::string_view key, int32_t min, int32_t max, int32_t fallback);
  double number_or(std::string_view key, double min, double max, double fallback);
  bool boolean_or(std::string_view key, bool fallback);
  std::string string_or(std::string_view key, std::string fallback);
  // Optional: one id in [0, end) or a list of at most 64 of them.
  std::vector<int32_t> ids_or_none(std::string_view key, int32_t end);

  // Records a failure about `key`, unless there is an earlier one.
  void fail(std::string_view key, const std::string& message);
  // The key has a value that the engine does not implement.
  void refuse(std::string_view key, const std::string& found, const std::string& supported);
  const std::optional<Error>& error() const { return error_; }

 private:
  void fail_type(std::string_view key, const std::string& expected);
  int32_t to_integer(std::string_view key, const boost::json::value& value, int32_t min, int32_t max);

  const boost::json::object& object_;
  std::string file_;
  std::optional<Error> error_;
};

// A JSON value as short text for an error message.
std::string describe_json(const boost::json::value& value);

}  // namespace boreas
