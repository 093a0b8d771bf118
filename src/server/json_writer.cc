#include "server/json_writer.h"

#include <charconv>

namespace boreas {

void append_json_escaped(std::string& out, std::string_view text) {
  size_t begin = 0;  // of the run that needs no escaping
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text, begin, i - begin);
    begin = i + 1;
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default: {
        constexpr char kHex[] = "0123456789abcdef";
        out += "\\u00";
        out += kHex[c >> 4];
        out += kHex[c & 15];
      }
    }
  }
  out.append(text, begin, text.size() - begin);
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  out_ += bracket;
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  out_ += bracket;
  comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  string(name);
  out_ += ':';
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::string(std::string_view text) {
  separate();
  out_ += '"';
  append_json_escaped(out_, text);
  out_ += '"';
  comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::integer(int64_t value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value);
  return raw(std::string_view(digits, static_cast<size_t>(end.ptr - digits)));
}

JsonWriter& JsonWriter::number(float value) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value);
  return raw(std::string_view(digits, static_cast<size_t>(end.ptr - digits)));
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  out_ += json;
  comma_ = true;
  return *this;
}

}  // namespace boreas
