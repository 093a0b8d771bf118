// Bpe against the definition: merge the leftmost pair of lowest rank until there is none.
#include "text/bpe.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>

#include "base/prng.h"

namespace boreas {
namespace {

struct Merge {
  uint32_t rank;
  TokenId result;
};
using Merges = std::map<std::pair<TokenId, TokenId>, Merge>;

std::array<TokenId, 256> identity() {
  std::array<TokenId, 256> tokens{};
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(i);
  return tokens;
}

std::vector<TokenId> by_definition(const Merges& merges, const std::string& text) {
  std::vector<TokenId> tokens;
  for (const char c : text) tokens.push_back(static_cast<uint8_t>(c));
  for (;;) {
    size_t best = tokens.size();
    Merge best_merge{std::numeric_limits<uint32_t>::max(), 0};
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      const auto found = merges.find({tokens[i], tokens[i + 1]});
      if (found == merges.end() || found->second.rank >= best_merge.rank) continue;
      best = i;
      best_merge = found->second;
    }
    if (best == tokens.size()) return tokens;
    tokens[best] = best_merge.result;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(Bpe, EqualsTheDefinition) {
  const uint64_t seed = 31;
  Prng prng(seed);
  for (int round = 0; round < 300; ++round) {
    const uint32_t letters = 1 + prng.below(4);
    Bpe bpe(identity());
    Merges merges;
    // A merge may use the result of any earlier one, at any rank: also at a lower one than the merge that makes it.
    std::vector<TokenId> tokens;
    for (uint32_t i = 0; i < letters; ++i) tokens.push_back(static_cast<TokenId>('a' + i));
    const uint32_t count = prng.below(40);
    for (uint32_t i = 0; i < count; ++i) {
      const TokenId left = tokens[prng.below(static_cast<uint32_t>(tokens.size()))];
      const TokenId right = tokens[prng.below(static_cast<uint32_t>(tokens.size()))];
      const auto result = static_cast<TokenId>(256 + i);
      const uint32_t rank = prng.below(2) == 0 ? 1000 + i : 1000 - i;
      if (!merges.try_emplace({left, right}, Merge{rank, result}).second) continue;
      bpe.add_merge(left, right, rank, result);
      tokens.push_back(result);
    }
    for (const uint32_t length_max : {8u, 66u, 300u}) {
      std::string text;
      for (uint32_t left = 1 + prng.below(length_max); left > 0; --left)
        text += static_cast<char>('a' + prng.below(letters));
      std::vector<TokenId> ids = {-7};
      bpe.encode(text, ids);
      std::vector<TokenId> wanted = by_definition(merges, text);
      wanted.insert(wanted.begin(), -7);
      ASSERT_EQ(ids, wanted) << "seed " << seed << ", round " << round << ", text " << text;
    }
  }
}

TEST(Bpe, APairGivenTwiceCountsWithItsLastRank) {
  Bpe bpe(identity());
  bpe.add_merge('a', 'b', 0, 256);
  bpe.add_merge('b', 'c', 1, 257);
  bpe.add_merge('a', 'b', 2, 256);
  std::vector<TokenId> ids;
  bpe.encode("abc", ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{'a', 257}));
}

// One piece of a megabyte; with a scan per merge this would be 10^12 steps.
TEST(Bpe, AMegabyteInOnePiece) {
  Bpe bpe(identity());
  TokenId token = 'a';
  for (uint32_t rank = 0; rank < 10; ++rank) {
    bpe.add_merge(token, token, rank, static_cast<TokenId>(256 + rank));
    token = static_cast<TokenId>(256 + rank);
  }
  std::vector<TokenId> ids;
  bpe.encode(std::string(size_t{1} << 20, 'a'), ids);
  EXPECT_EQ(ids, std::vector<TokenId>(1024, 265));
}

}  // namespace
}  // namespace boreas
