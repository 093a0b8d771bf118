// A small tokenizer.json for unit tests, field by field, so that a test can spoil one of them. Test code only.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace boreas {

// Every byte has the id of its value; merges make new ids from 256 on, then come the added tokens.
struct TestTokenizerJson {
  std::vector<std::pair<std::string, std::string>> merges;  // in GPT-2's alphabet
  std::string added_tokens = "[]";
  std::string normalizer = "null";
  std::string pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})";
  std::string decoder = R"({"type":"ByteLevel"})";
  std::string model_type = "\"BPE\"";
  std::string model_extra;  // as in `"ignore_merges":true,`
  std::string vocab_extra;  // as in `,"x":1`
  bool merges_as_pairs = true;
  int byte_left_out = -1;

  // The character of a byte in GPT-2's alphabet, not escaped.
  static std::string symbol(int byte) {
    int next = 256;
    for (int other = 0; other < byte; ++other) next += printable(other) ? 0 : 1;
    const int character = printable(byte) ? byte : next;
    if (character < 0x80) return std::string(1, static_cast<char>(character));
    return {static_cast<char>(0xC0 | character >> 6), static_cast<char>(0x80 | (character & 0x3F))};
  }

  std::string text() const {
    std::string vocab;
    for (int byte = 0; byte < 256; ++byte) {
      if (byte == byte_left_out) continue;
      vocab += (vocab.empty() ? "\"" : ",\"") + escaped(symbol(byte)) + "\":" + std::to_string(byte);
    }
    std::string list;
    int id = 256;
    for (const auto& merge : merges) {
      const std::string left = escaped(merge.first);
      const std::string right = escaped(merge.second);
      vocab += ",\"" + left + right + "\":" + std::to_string(id++);
      if (!list.empty()) list += ",";
      list += merges_as_pairs ? "[\"" + left + "\",\"" + right + "\"]" : "\"" + left + " " + right + "\"";
    }
    return "{\"added_tokens\":" + added_tokens + ",\"normalizer\":" + normalizer +
           ",\"pre_tokenizer\":" + pre_tokenizer + ",\"decoder\":" + decoder + ",\"model\":{\"type\":" + model_type +
           "," + model_extra + "\"vocab\":{" + vocab + vocab_extra + "},\"merges\":[" + list + "]}}";
  }

 private:
  static bool printable(int byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
  }
  static std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    return out;
  }
};

}  // namespace boreas
