// parse_json_exact: Boost.JSON's parser with a handler of our own, because its conversion of decimals (1.81) is not
// always correctly rounded.
#include <boost/json/basic_parser_impl.hpp>
#include <charconv>
#include <cstdlib>

#include "text/formats/chat_format.h"

namespace boreas {

namespace {

class ExactHandler {
 public:
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
  using error_code = boost::system::error_code;
  using string_view = boost::json::string_view;

  ExactHandler() { stack_.reset(); }
  boost::json::value release() { return stack_.release(); }

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_array_begin(error_code&) { return true; }
  bool on_array_end(std::size_t count, error_code&) {
    stack_.push_array(count);
    return true;
  }
  bool on_object_begin(error_code&) { return true; }
  bool on_object_end(std::size_t count, error_code&) {
    stack_.push_object(count);
    return true;
  }
  bool on_string_part(string_view text, std::size_t, error_code&) {
    stack_.push_chars(text);
    return true;
  }
  bool on_string(string_view text, std::size_t, error_code&) {
    stack_.push_string(text);
    return true;
  }
  bool on_key_part(string_view text, std::size_t, error_code&) {
    stack_.push_chars(text);
    return true;
  }
  bool on_key(string_view text, std::size_t, error_code&) {
    stack_.push_key(text);
    return true;
  }
  bool on_number_part(string_view text, error_code&) {
    number_.append(text.data(), text.size());
    return true;
  }
  bool on_int64(int64_t value, string_view, error_code&) {
    number_.clear();
    stack_.push_int64(value);
    return true;
  }
  bool on_uint64(uint64_t value, string_view, error_code&) {
    number_.clear();
    stack_.push_uint64(value);
    return true;
  }
  bool on_double(double approximate, string_view text, error_code&) {
    number_.append(text.data(), text.size());
    double exact = approximate;
    const auto read = std::from_chars(number_.data(), number_.data() + number_.size(), exact);
    if (read.ec == std::errc::result_out_of_range) exact = std::strtod(number_.c_str(), nullptr);  // infinity or zero
    number_.clear();
    stack_.push_double(exact);
    return true;
  }
  bool on_bool(bool value, error_code&) {
    stack_.push_bool(value);
    return true;
  }
  bool on_null(error_code&) {
    stack_.push_null();
    return true;
  }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }

 private:
  boost::json::value_stack stack_;
  std::string number_;
};

}  // namespace

Result<boost::json::value> parse_json_exact(std::string_view text, int depth_max) {
  boost::json::parse_options options;
  options.max_depth = static_cast<std::size_t>(depth_max);
  boost::json::basic_parser<ExactHandler> parser(options);
  boost::system::error_code error;
  const std::size_t read = parser.write_some(false, text.data(), text.size(), error);
  if (!error && read < text.size()) {
    const std::size_t rest = text.find_first_not_of(" \t\r\n", read);
    if (rest != std::string_view::npos)
      return Error{"invalid JSON at byte " + std::to_string(rest) + ": text behind the value", ""};
  }
  if (error) return Error{"invalid JSON at byte " + std::to_string(read) + ": " + error.message(), ""};
  return parser.handler().release();
}

}  // namespace boreas
