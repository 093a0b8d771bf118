// Reads a request's JSON with bounds on depth and size, and its fields one by one with errors that name the dotted
// path. Used by openai/.
//
// null is the same as absent everywhere. The first problem wins and is kept; later reads return nothing, so a caller
// reads all its fields and asks once.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "server/api_error.h"

namespace boreas {

constexpr int kJsonDepthMax = 128;
// A value takes 24 to 100 bytes of memory but maybe two of text, so the limit on bytes alone is none on memory.
constexpr size_t kJsonValuesMax = size_t{1} << 21;

// A request body, which must be one JSON object. A UTF-8 byte order mark is skipped.
std::variant<boost::json::object, ApiError> parse_request_json(std::string_view body);

class FieldReader {
 public:
  // prefix: the path of `object` with its dot ("messages.3."); empty for the request itself.
  explicit FieldReader(const boost::json::object& object, std::string prefix = {})
      : object_(object), prefix_(std::move(prefix)) {}

  // The value, nullptr if absent or null. Never an error.
  const boost::json::value* find(std::string_view key) const;
  std::string path(std::string_view key) const { return prefix_ + std::string(key); }

  std::optional<bool> boolean(std::string_view key);
  // Whole numbers, also written as 5.0; both bounds included.
  std::optional<int64_t> integer(std::string_view key, int64_t low, int64_t high);
  struct Range {
    double low = 0;
    double high = 0;
    bool low_open = false;  // low itself is out of range
  };
  std::optional<double> number(std::string_view key, Range range);
  std::optional<std::string_view> string(std::string_view key, size_t bytes_max);
  const boost::json::array* array(std::string_view key, size_t items_max);
  const boost::json::object* object(std::string_view key);
  // An array of whole numbers in [low, high].
  std::optional<std::vector<int32_t>> integers(std::string_view key, size_t items_max, int32_t low, int32_t high);

  void fail(ApiError error) {
    if (!error_) error_ = std::move(error);
  }
  const std::optional<ApiError>& error() const { return error_; }

 private:
  const boost::json::object& object_;
  std::string prefix_;
  std::optional<ApiError> error_;
};

// A whole number in [low, high] (bools and strings are none); nullopt if it is something else.
std::optional<int64_t> whole_number(const boost::json::value& value, int64_t low, int64_t high);
// "an object", "a string", ... for messages.
std::string_view json_kind(const boost::json::value& value);

}  // namespace boreas
