// What Tokenizer::load and ::parse refuse, and that hostile files end in an error and not in a crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/prng.h"
#include "text/tokenizer.h"
#include "text/tokenizer_test_json.h"

namespace boreas {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

void expect_refused(const std::string& text, const std::string& part) {
  const auto tokenizer = Tokenizer::parse(text);
  ASSERT_FALSE(tokenizer.ok()) << part;
  EXPECT_THAT(tokenizer.error().message, HasSubstr(part));
}

// A file with one field changed.
template <class Change>
std::string changed(Change change) {
  TestTokenizerJson file;
  file.merges = {{"a", "b"}};
  change(file);
  return file.text();
}

TEST(TokenizerLoad, RefusesOtherModels) {
  using File = TestTokenizerJson;
  expect_refused(changed([](File& f) { f.model_type = "\"Unigram\""; }), "'Unigram'");
  expect_refused(changed([](File& f) { f.model_type = "null"; }), "model.type");
  expect_refused(changed([](File& f) { f.model_extra = "\"byte_fallback\":true,"; }), "model.byte_fallback");
  expect_refused(changed([](File& f) { f.model_extra = "\"dropout\":0.1,"; }), "model.dropout");
  expect_refused(changed([](File& f) { f.model_extra = "\"end_of_word_suffix\":\"</w>\","; }),
                 "model.end_of_word_suffix");
  expect_refused(changed([](File& f) { f.model_extra = "\"continuing_subword_prefix\":\"##\","; }),
                 "model.continuing_subword_prefix");
  expect_refused(changed([](File& f) { f.model_extra = "\"ignore_merges\":1,"; }), "model.ignore_merges");
  expect_refused(changed([](File& f) { f.normalizer = R"({"type":"NFKC"})"; }), "'NFKC'");
  expect_refused(changed([](File& f) { f.normalizer = R"({"type":"Sequence","normalizers":[{"type":"Lowercase"}]})"; }),
                 "normalizer.normalizers.0: normalizer 'Lowercase'");
  expect_refused(changed([](File& f) { f.normalizer = R"({"type":"Sequence"})"; }), "normalizer.normalizers");
  expect_refused(changed([](File& f) { f.normalizer = "7"; }), "normalizer");
  expect_refused(changed([](File& f) { f.decoder = R"({"type":"Metaspace"})"; }), "'Metaspace'");
  expect_refused(changed([](File& f) { f.decoder = "null"; }), "decoder");
  expect_refused(changed([](File& f) { f.pre_tokenizer = "null"; }), "pre_tokenizer");
  expect_refused(changed([](File& f) { f.pre_tokenizer = R"({"type":"Whitespace"})"; }), "'Whitespace'");
}

TEST(TokenizerLoad, AcceptsWhatChangesNothing) {
  const std::string text = changed([](TestTokenizerJson& f) {
    f.model_extra =
        "\"byte_fallback\":false,\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":\"\","
        "\"end_of_word_suffix\":\"\",\"fuse_unk\":false,\"ignore_merges\":false,";
  });
  EXPECT_TRUE(Tokenizer::parse(text).ok());
}

TEST(TokenizerLoad, RefusesBadVocabularies) {
  using File = TestTokenizerJson;
  expect_refused(changed([](File& f) { f.byte_left_out = 173; }), "byte 173");
  expect_refused(changed([](File& f) { f.vocab_extra = ",\"x y\":-1"; }), "-1");
  expect_refused(changed([](File& f) { f.vocab_extra = ",\"xy\":4194304"; }), "4194304");
  expect_refused(changed([](File& f) { f.vocab_extra = ",\"xy\":18446744073709551615"; }), "'xy'");
  expect_refused(changed([](File& f) { f.vocab_extra = ",\"xy\":1e30"; }), "'xy'");
  expect_refused(changed([](File& f) { f.vocab_extra = ",\"xy\":\"7\""; }), "'xy'");
  expect_refused(changed([](File& f) { f.vocab_extra = ",\"xy\":97"; }), "id 97 is already");
  expect_refused(changed([](File& f) { f.vocab_extra = ",\"\":300"; }), "is empty");
}

TEST(TokenizerLoad, RefusesBadMerges) {
  const std::string good = changed([](TestTokenizerJson&) {});
  const auto with_merges = [&good](const std::string& merges) {
    std::string text = good;
    text.replace(text.find(R"([["a","b"]])"), 11, merges);
    return text;
  };
  ASSERT_TRUE(Tokenizer::parse(with_merges("[]")).ok());
  expect_refused(with_merges("{}"), "model.merges");
  expect_refused(with_merges(R"(["ab"])"), "model.merges.0");
  expect_refused(with_merges(R"(["a b c"])"), "model.merges.0");
  expect_refused(with_merges(R"([["a"]])"), "model.merges.0");
  expect_refused(with_merges(R"([["a","b"],["a",1]])"), "model.merges.1");
  expect_refused(with_merges(R"([["a","b"],["zz","b"]])"), "'zz' is not in the vocabulary");
  expect_refused(with_merges(R"(["a c"])"), "'ac' is not in the vocabulary");
}

TEST(TokenizerLoad, RefusesBadAddedTokens) {
  const auto with = [](const std::string& tokens) {
    return changed([&tokens](TestTokenizerJson& f) { f.added_tokens = tokens; });
  };
  expect_refused(with("{}"), "added_tokens");
  expect_refused(with("[3]"), "added_tokens.0");
  expect_refused(with(R"([{"content":"x"}])"), "added_tokens.0.id");
  expect_refused(with(R"([{"id":"1","content":"x"}])"), "added_tokens.0.id");
  expect_refused(with(R"([{"id":300}])"), "added_tokens.0.content");
  expect_refused(with(R"([{"id":300,"content":""}])"), "empty");
  expect_refused(with(R"([{"id":-1,"content":"xx"}])"), "'xx'");
  expect_refused(with(R"([{"id":99999999999999,"content":"xx"}])"), "'xx'");
  expect_refused(with(R"([{"id":300,"content":"xx","special":"yes"}])"), "added_tokens.0.special");
  expect_refused(with(R"([{"id":300,"content":"xx"},{"id":301,"content":"xx"}])"), "given twice");
  expect_refused(with(R"([{"id":300,"content":"xx"},{"id":300,"content":"yy"}])"), "id 300 is already");
  expect_refused(with(R"([{"id":97,"content":"xx"}])"), "id 97 is already");
  expect_refused(with(R"([{"id":300,"content":"ab"}])"), "the vocabulary says 256");
  expect_refused(with(R"([{"id":300,"content":")" + std::string(2000, 'x') + "\"}]"), "longer than");
}

TEST(TokenizerLoad, NeededTokens) {
  const std::string text = changed([](TestTokenizerJson& f) {
    f.added_tokens = R"([{"id":300,"content":"<|END_TEXT|>"}])";
    f.vocab_extra = ",\"<|OTHER|>\":301";
  });
  const std::string_view present[] = {"<|END_TEXT|>", "ab", "a"};
  EXPECT_TRUE(Tokenizer::parse(text, present).ok());
  const std::string_view missing[] = {"<|END_TEXT|>", "<|START_ACTION|>"};
  const auto refused = Tokenizer::parse(text, missing);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("'<|START_ACTION|>' is missing"));
  const std::string_view many_tokens[] = {"<|OTHER|>"};
  const auto not_one = Tokenizer::parse(text, many_tokens);
  ASSERT_FALSE(not_one.ok());
  EXPECT_THAT(not_one.error().message, HasSubstr("encodes to 9 tokens"));
}

TEST(TokenizerLoad, HostileJson) {
  expect_refused("", "not valid JSON");
  expect_refused("[]", "object is expected");
  expect_refused("{}", "model");
  expect_refused(R"({"model":[]})", "model");
  expect_refused(R"({"model":{"type":"BPE","vocab":[],"merges":[]}})", "model.vocab");
  expect_refused(R"({"model":{"type":"BPE","vocab":{}}})", "byte 0");
  expect_refused(std::string(100000, '['), "not valid JSON");
  expect_refused("{\"model\":\"\xFF\"}", "not valid JSON");
  const std::string good = changed([](TestTokenizerJson&) {});
  for (size_t bytes = 0; bytes < good.size(); bytes += 7) EXPECT_FALSE(Tokenizer::parse(good.substr(0, bytes)).ok());
}

TEST(TokenizerLoad, SpoiltBytesNeverCrash) {
  const std::string good = changed([](TestTokenizerJson& f) {
    f.added_tokens = R"([{"id":300,"content":"<a>","lstrip":true,"normalized":true}])";
    f.normalizer = R"({"type":"NFC"})";
    f.pre_tokenizer =
        R"JSON({"type":"Sequence","pretokenizers":[
{"type":"Split","pattern":{"Regex":"\\p{N}{1,3}|[^\\s\\w]+(?!\\S)"},"behavior":"Isolated","invert":false},
{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})JSON";
  });
  ASSERT_TRUE(Tokenizer::parse(good).ok());
  const uint64_t seed = 61;
  Prng prng(seed);
  constexpr std::string_view kLikely = "\"\\{}[]:,0123456789ab<>+-*?()|n .";
  for (int round = 0; round < 4000; ++round) {
    std::string text = good;
    for (uint32_t left = 1 + prng.below(3); left > 0; --left) {
      // The interesting fields are at both ends; the vocabulary lies between.
      const auto near_start = prng.below(400);
      const auto at = prng.below(3) == 0 ? prng.below(static_cast<uint32_t>(text.size())) : near_start;
      text[at] = prng.below(8) == 0 ? static_cast<char>(prng.below(256))
                                    : kLikely[prng.below(static_cast<uint32_t>(kLikely.size()))];
    }
    const auto tokenizer = Tokenizer::parse(text);
    if (tokenizer.ok()) {
      const auto ids = tokenizer->encode("ab <a> 12 e\u0301!! \n", {});
      if (ids.ok()) tokenizer->decode(*ids, true);
    }
  }
}

class TokenizerFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = (fs::temp_directory_path() / "boreas-tokenizer-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    write("tokenizer.json", changed([](TestTokenizerJson& f) {
            f.added_tokens =
                R"([{"id":300,"content":"<BOS_TOKEN>"},{"id":301,"content":"<s>"},{"id":302,"content":"</s>"}])";
          }));
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(fs::path(folder_) / name) << text;
  }

  std::string folder_;
};

TEST_F(TokenizerFiles, NamesInTheConfig) {
  EXPECT_EQ(Tokenizer::load(folder_)->bos_token_id(), 300);
  EXPECT_EQ(Tokenizer::load(folder_)->eos_token_id(), std::nullopt);
  write("tokenizer_config.json", R"({"bos_token":"<s>","eos_token":{"content":"</s>","special":true}})");
  EXPECT_EQ(Tokenizer::load(folder_)->bos_token_id(), 301);
  EXPECT_EQ(Tokenizer::load(folder_)->eos_token_id(), 302);
  write("tokenizer_config.json", R"({"bos_token":null})");
  EXPECT_EQ(Tokenizer::load(folder_)->bos_token_id(), std::nullopt);
}

TEST_F(TokenizerFiles, BadFilesAreNamed) {
  write("tokenizer_config.json", R"({"bos_token":"<none>"})");
  EXPECT_THAT(Tokenizer::load(folder_).error().message, HasSubstr("tokenizer_config.json: bos_token: token '<none>'"));
  write("tokenizer_config.json", R"({"eos_token":5})");
  EXPECT_THAT(Tokenizer::load(folder_).error().message, HasSubstr("eos_token"));
  write("tokenizer_config.json", "{");
  EXPECT_THAT(Tokenizer::load(folder_).error().message, HasSubstr("tokenizer_config.json: not valid JSON"));
  write("tokenizer.json", "{");
  EXPECT_THAT(Tokenizer::load(folder_).error().message, HasSubstr("tokenizer.json: not valid JSON"));
  fs::remove(fs::path(folder_) / "tokenizer.json");
  EXPECT_THAT(Tokenizer::load(folder_).error().message, HasSubstr("tokenizer.json: "));
  fs::create_directory(fs::path(folder_) / "tokenizer.json");
  EXPECT_FALSE(Tokenizer::load(folder_).ok());
}

TEST_F(TokenizerFiles, NeededTokenIsNamedWithTheFile) {
  const std::string_view needed[] = {"<|END_OF_TURN_TOKEN|>"};
  const auto tokenizer = Tokenizer::load(folder_, needed);
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_THAT(tokenizer.error().message, HasSubstr("tokenizer.json: token '<|END_OF_TURN_TOKEN|>' is missing"));
}

}  // namespace
}  // namespace boreas
