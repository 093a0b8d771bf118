// See compare.h.
#include "compare.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "oracle.h"
#include "pair_vocabulary.h"
#include "random_text.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace boreas {
namespace {

namespace fs = std::filesystem;

// The folder of the made-up tokenizer.json, written once a process and removed at its end.
const std::string& north_directory() {
  struct Folder {
    std::string path;
    ~Folder() {
      std::error_code code;
      fs::remove_all(path, code);
    }
  };
  static const Folder folder = [] {
    std::string path = (fs::temp_directory_path() / "boreas-north-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) ADD_FAILURE() << "cannot make " << path;
    std::ofstream(fs::path(path) / "tokenizer.json") << pair_vocabulary_json(1, true);
    return Folder{path};
  }();
  return folder.path;
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
