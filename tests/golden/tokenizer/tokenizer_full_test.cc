// 200,000 random strings a vocabulary against Hugging Face's own library (label full).
#include <gtest/gtest.h>

#include "compare.h"
#include "oracle.h"

namespace boreas {
namespace {

class TokenizerGoldenFull : public testing::TestWithParam<TestVocabulary> {};

TEST_P(TokenizerGoldenFull, RandomText) {
  const std::string reason = oracle::unavailable_reason();
  if (!reason.empty()) GTEST_SKIP() << reason;
  for (uint64_t part = 0; part < 10; ++part) expect_same_on_random_text(GetParam(), 7000 + part, 20000);
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, TokenizerGoldenFull, testing::ValuesIn(test_vocabularies()),
                         [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace boreas
