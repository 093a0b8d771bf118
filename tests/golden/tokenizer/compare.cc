// See compare.h.
#include "compare.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include <boost/json.hpp>
#include "oracle.h"
#include "pair_vocabulary.h"
#include "random_text.h"
#include "text/pretokenizer.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace boreas {
namespace {

namespace fs = std::filesystem;

// A folder with a made-up tokenizer.json, removed at the end.
class MadeUpTokenizer {
 public:
  explicit MadeUpTokenizer(const std::string& tokenizer_json) {
    path_ = (fs::temp_directory_path() / "boreas-made-up-XXXXXX").string();
    if (mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "cannot make " << path_;
    std::ofstream(fs::path(path_) / "tokenizer.json") << tokenizer_json;
  }
  ~MadeUpTokenizer() {
    std::error_code code;
    fs::remove_all(path_, code);
  }
  MadeUpTokenizer(const MadeUpTokenizer&) = delete;
  MadeUpTokenizer& operator=(const MadeUpTokenizer&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

const std::string& north_directory() {
  static const MadeUpTokenizer north(pair_vocabulary_json(1, true));
  return north.path();
}

std::string directory_of(TestVocabulary vocabulary) {
  switch (vocabulary) {
    case TestVocabulary::kCommandR:
      return oracle::command_r_directory();
    case TestVocabulary::kQwen3:
      return oracle::qwen3_directory();
    case TestVocabulary::kNorth:
      return north_directory();
  }
  return {};
}

const Tokenizer& tokenizer_of(TestVocabulary vocabulary) {
  static std::map<TestVocabulary, Tokenizer> loaded;
  const auto found = loaded.find(vocabulary);
  if (found != loaded.end()) return found->second;
  auto tokenizer = Tokenizer::load(directory_of(vocabulary));
  if (!tokenizer.ok()) ADD_FAILURE() << tokenizer.error().message;
  return loaded.emplace(vocabulary, std::move(tokenizer).value()).first->second;
}

std::vector<std::string> markers_of(TestVocabulary vocabulary) {
  if (vocabulary == TestVocabulary::kNorth) return pair_vocabulary_markers();
  const Tokenizer& tokenizer = tokenizer_of(vocabulary);
  std::vector<std::string> markers;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.is_added(id)) markers.emplace_back(tokenizer.token_bytes(id));
  }
  return markers;
}

void compare(TestVocabulary vocabulary, const std::vector<std::string>& texts, const std::string& origin) {
  const Tokenizer& tokenizer = tokenizer_of(vocabulary);
  const auto wanted = oracle::ids(directory_of(vocabulary), texts);
  ASSERT_EQ(wanted.size(), texts.size());
  constexpr int kShownMax = 5;
  int failures = 0;
  for (size_t i = 0; i < texts.size() && failures < kShownMax; ++i) {
    const auto ids = tokenizer.encode(texts[i], {});
    ASSERT_TRUE(ids.ok()) << ids.error().message << " in: " << texts[i];
    EXPECT_EQ(*ids, wanted[i]) << origin << ", text " << i << ": " << testing::PrintToString(texts[i]);
    if (*ids != wanted[i]) ++failures;
    // As text alone, without tokens that take white space along, the way back is exact.
    const auto plain = tokenizer.encode(texts[i], {.add_bos = false, .parse_added_tokens = false});
    ASSERT_TRUE(plain.ok());
    EXPECT_EQ(tokenizer.decode(*plain, false), nfc(texts[i])) << origin << ", text " << i;
  }
}

}  // namespace

std::vector<TestVocabulary> test_vocabularies() {
  return {TestVocabulary::kCommandR, TestVocabulary::kQwen3, TestVocabulary::kNorth};
}

std::string name_of(TestVocabulary vocabulary) {
  switch (vocabulary) {
    case TestVocabulary::kCommandR:
      return "CommandR";
    case TestVocabulary::kQwen3:
      return "Qwen3";
    case TestVocabulary::kNorth:
      return "North";
  }
  return {};
}

void PrintTo(TestVocabulary vocabulary, std::ostream* out) { *out << name_of(vocabulary); }

void expect_same_ids(TestVocabulary vocabulary, const std::vector<std::string>& texts) {
  compare(vocabulary, texts, "fixed texts");
}

void expect_same_on_random_text(TestVocabulary vocabulary, uint64_t seed, size_t count) {
  const auto markers = markers_of(vocabulary);
  Prng prng(seed);
  std::vector<std::string> texts;
  for (size_t i = 0; i < count; ++i) texts.push_back(random_text(prng, markers, 12));
  compare(vocabulary, texts, "seed " + std::to_string(seed));
}

void expect_same_pieces(const std::string& pre_tokenizer_json, uint64_t seed, size_t count) {
  const auto pre_tokenizer = PreTokenizer::from_json(boost::json::parse(pre_tokenizer_json));
  ASSERT_TRUE(pre_tokenizer.ok()) << pre_tokenizer.error().message;
  Prng prng(seed);
  std::vector<std::string> texts;
  for (size_t i = 0; i < count; ++i) texts.push_back(random_text(prng, {}, 12));
  const MadeUpTokenizer made_up(pair_vocabulary_json(1, false, pre_tokenizer_json));
  const auto wanted = oracle::piece_bytes(made_up.path(), texts);
  ASSERT_EQ(wanted.size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto pieces = pre_tokenizer->split(texts[i]);
    ASSERT_TRUE(pieces.ok()) << pieces.error().message;
    std::vector<int32_t> bytes;
    for (const std::string_view piece : *pieces) bytes.push_back(static_cast<int32_t>(piece.size()));
    ASSERT_EQ(bytes, wanted[i]) << pre_tokenizer_json << ", seed " << seed << ": " << testing::PrintToString(texts[i]);
  }
}

void expect_same_decoding(TestVocabulary vocabulary, uint64_t seed, size_t count) {
  const Tokenizer& tokenizer = tokenizer_of(vocabulary);
  Prng prng(seed);
  std::vector<std::vector<int32_t>> rows(count);
  for (auto& row : rows) {
    row.resize(1 + prng.below(20));
    for (auto& id : row) id = static_cast<int32_t>(prng.below(static_cast<uint32_t>(tokenizer.vocab_size())));
  }
  const auto wanted = oracle::decode(directory_of(vocabulary), rows);
  ASSERT_EQ(wanted.size(), rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(tokenizer.decode(rows[i], false), wanted[i].complete) << "seed " << seed << ", row " << i;
    ASSERT_EQ(tokenizer.decode(rows[i], true), wanted[i].plain) << "seed " << seed << ", row " << i;
  }
}

}  // namespace boreas
