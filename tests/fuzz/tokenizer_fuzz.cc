// libFuzzer: hostile tokenizer.json, and any bytes as text for a small tokenizer. The first byte picks which. Text that
// encodes must decode to itself (markers that take white space along are left out by turning them off), and Utf8Stream
// must give the same output cut in two as whole.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/check.h"
#include "text/tokenizer.h"
#include "text/tokenizer_test_json.h"
#include "text/unicode.h"
#include "text/utf8_stream.h"

namespace {

boreas::Tokenizer small_tokenizer() {
  boreas::TestTokenizerJson file;
  file.normalizer = R"({"type":"NFC"})";
  file.added_tokens = R"([{"id":300,"content":"<a>"},{"id":301,"content":"<a","lstrip":true},
{"id":302,"content":"b>","rstrip":true},{"id":303,"content":"word","single_word":true,"normalized":true}])";
  file.merges = {{"a", "b"}, {"1", "1"}, {"\u0120", "a"}, {"ab", "ab"}, {"\u00C3", "\u00A9"}};
  file.pre_tokenizer = R"JSON({"type":"Sequence","pretokenizers":[
{"type":"Split","pattern":{"Regex":"\\d{1,3}(?=(?:\\d{3})*\\b)"},"behavior":"Isolated","invert":false},
{"type":"ByteLevel","add_prefix_space":false,"use_regex":true}]})JSON";
  return boreas::Tokenizer::parse(file.text()).value();
}

void check_text(std::string_view text) {
  static const boreas::Tokenizer tokenizer = small_tokenizer();
  const bool valid = boreas::find_invalid_utf8(text) == std::string_view::npos;
  const auto ids = tokenizer.encode(text, {.add_bos = true, .parse_added_tokens = true});
  const auto plain = tokenizer.encode(text, {.add_bos = false, .parse_added_tokens = false});
  CHECK(ids.ok() == valid);
  CHECK(plain.ok() == valid);
  if (valid) CHECK(tokenizer.decode(*plain, false) == boreas::nfc(text));

  boreas::Utf8Stream whole;
  boreas::Utf8Stream halves;
  std::string wanted = whole.push(text);
  wanted += whole.finish();
  std::string out = halves.push(text.substr(0, text.size() / 2));
  out += halves.push(text.substr(text.size() / 2));
  out += halves.finish();
  CHECK(out == wanted);
  CHECK(boreas::find_invalid_utf8(out) == std::string_view::npos);
}

void check_file(std::string_view text) {
  const auto tokenizer = boreas::Tokenizer::parse(text);
  if (!tokenizer.ok()) {
    CHECK(!tokenizer.error().message.empty());
    return;
  }
  const auto ids = tokenizer->encode("ab <a> 123 e\u0301!\n", {});
  if (ids.ok()) tokenizer->decode(*ids, true);
}

// A valid file with the fuzzer's bytes as its pre-tokenizer's regex and added tokens: deep code that random bytes alone
// would never reach.
void check_fields(std::string_view text) {
  boreas::TestTokenizerJson file;
  const size_t cut = text.size() / 2;
  file.pre_tokenizer = R"({"type":"Sequence","pretokenizers":[)" + std::string(text.substr(0, cut)) +
                       R"(,{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})";
  file.added_tokens = "[" + std::string(text.substr(cut)) + "]";
  check_file(file.text());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      check_file(text);
      break;
    case 1:
      check_fields(text);
      break;
    default:
      check_text(text);
  }
  return 0;
}
