// A made-up tokenizer.json whose ids show where pieces end: every pair of bytes is a token and a merge, in an order
// drawn from a seed, so that neighbours within a piece nearly always merge and neighbours across a cut never do. It has
// the pre-tokenizer that North is expected to have (digit groups, then the word pattern, then ByteLevel), NFC, and
// added tokens with every flag. Test code only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace boreas {

// `merges_as_pairs`: ["a", "b"] instead of "a b". `pre_tokenizer`: JSON; empty means North's.
std::string pair_vocabulary_json(uint64_t seed, bool merges_as_pairs, std::string_view pre_tokenizer = {});

// Contents of its added tokens.
std::vector<std::string> pair_vocabulary_markers();

}  // namespace boreas
