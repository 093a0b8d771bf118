// See pair_vocabulary.h.
#include "pair_vocabulary.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/prng.h"
#include "random_text.h"

namespace boreas {
namespace {

constexpr uint32_t kBytes = 256;

// Byte -> its character in GPT-2's alphabet, escaped for JSON.
std::array<std::string, kBytes> alphabet() {
  std::array<std::string, kBytes> characters;
  char32_t next = 256;
  for (uint32_t byte = 0; byte < kBytes; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    if (byte == '"' || byte == '\\') characters[byte] = "\\";
    append_utf8(printable ? byte : next++, characters[byte]);
  }
  return characters;
}

struct Marker {
  std::string content;
  std::string flags;
};

std::vector<Marker> markers() {
  const std::string off = R"("single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":)";
  const auto only = [](const std::string& flag) {
    std::string flags;
    for (const std::string name : {"single_word", "lstrip", "rstrip", "normalized"}) {
      flags += "\"" + name + "\":" + (flag.find(name) != std::string::npos ? "true," : "false,");
    }
    return flags + "\"special\":false";
  };
  return {
      {"<BOS_TOKEN>", off + "true"},      {"<|END_OF_TURN_TOKEN|>", off + "true"},
      {"<|START_TEXT|>", off + "false"},  {"<|START_TEXT|>>", off + "false"},
      {"<|START", off + "false"},         {"<left>", only("lstrip")},
      {"<right>", only("rstrip")},        {"<both>", only("lstrip rstrip")},
      {"word", only("single_word")},      {"norm\u0065\u0301", only("normalized")},
      {"<n>", only("normalized lstrip")},
  };
}

}  // namespace

std::vector<std::string> pair_vocabulary_markers() {
  std::vector<std::string> contents;
  for (const Marker& marker : markers()) contents.push_back(marker.content);
  return contents;
}

std::string pair_vocabulary_json(uint64_t seed, bool merges_as_pairs, std::string_view pre_tokenizer) {
  const std::string north =
      R"JSON({"type":"Sequence","pretokenizers":[
{"type":"Split","pattern":{"Regex":"\\d{1,3}(?=(?:\\d{3})*\\b)"},"behavior":"Isolated","invert":false},
{"type":"Split","pattern":{"Regex":"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*)JSON"
      R"JSON([\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?)JSON"
      R"JSON([\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)JSON"
      R"JSON(|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)JSON"
      R"JSON("},"behavior":"Isolated","invert":false},
{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]})JSON";
  const auto characters = alphabet();
  std::vector<uint32_t> pairs(kBytes * kBytes);
  std::iota(pairs.begin(), pairs.end(), 0u);
  Prng prng(seed);
  for (size_t i = pairs.size() - 1; i > 0; --i) std::swap(pairs[i], pairs[prng.below(static_cast<uint32_t>(i + 1))]);

  std::string vocab;
  for (uint32_t byte = 0; byte < kBytes; ++byte) {
    vocab += (byte == 0 ? "\"" : ",\"") + characters[byte] + "\":" + std::to_string(byte);
  }
  std::string merges;
  uint32_t next_id = kBytes;
  for (const uint32_t pair : pairs) {
    const std::string& left = characters[pair / kBytes];
    const std::string& right = characters[pair % kBytes];
    vocab += ",\"" + left + right + "\":" + std::to_string(next_id++);
    if (!merges.empty()) merges += ",";
    merges += merges_as_pairs ? "[\"" + left + "\",\"" + right + "\"]" : "\"" + left + " " + right + "\"";
  }
  std::string added;
  for (const Marker& marker : markers()) {
    if (!added.empty()) added += ",";
    added += "{\"id\":" + std::to_string(next_id++) + ",\"content\":\"" + marker.content + "\"," + marker.flags + "}";
  }
  return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)" + added +
         R"(],"normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"}]},"pre_tokenizer":)" +
         (pre_tokenizer.empty() ? north : std::string(pre_tokenizer)) +
         R"(,"post_processor":null,"decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,)"
         R"("use_regex":true},"model":{"type":"BPE","dropout":null,"unk_token":null,)"
         R"("continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,)"
         R"("byte_fallback":false,"vocab":{)" +
         vocab + "},\"merges\":[" + merges + "]}}";
}

}  // namespace boreas
