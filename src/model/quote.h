// quote(): outside text (tensor names, JSON strings, file names) made safe to print in an error message. Used all over
// model/.
#pragma once

#include <string>
#include <string_view>

namespace boreas {

// 'text' in single quotes, control characters as \xNN, cut after 200 bytes.
inline std::string quote(std::string_view text) {
  constexpr size_t kBytesMax = 200;
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "'";
  for (const char c : text.substr(0, kBytesMax)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      out += c;
    } else {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out + (text.size() > kBytesMax ? "...'" : "'");
}

}  // namespace boreas
