// Writes JSON straight into a string, for answers that are built thousands of times a second. Used by openai/ and
// routes.cc. Commas come by themselves; the caller balances begin and end. Strings must be valid UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace boreas {

void append_json_escaped(std::string& out, std::string_view text);

class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);
  JsonWriter& string(std::string_view text);
  JsonWriter& integer(int64_t value);
  JsonWriter& number(float value);  // shortest text that reads back as the same float; not for NaN or infinity
  JsonWriter& boolean(bool value) { return raw(value ? "true" : "false"); }
  JsonWriter& null() { return raw("null"); }
  JsonWriter& raw(std::string_view json);  // one value that is JSON already

  JsonWriter& field(std::string_view name, std::string_view text) { return key(name).string(text); }
  JsonWriter& field(std::string_view name, const char* text) { return key(name).string(text); }
  JsonWriter& field(std::string_view name, int64_t value) { return key(name).integer(value); }
  JsonWriter& field_null(std::string_view name) { return key(name).null(); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate() {
    if (comma_) out_ += ',';
  }

  std::string& out_;
  bool comma_ = false;  // a value precedes at this level
};

}  // namespace boreas
