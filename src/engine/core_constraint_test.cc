// EngineCore with a TokenConstraint: each mask is asked for when all tokens before it are known, whatever is in flight,
// and survives preemption.
#include <algorithm>

#include "engine/core_testing.h"
#include "exec/fake/fake_executor.h"

namespace boreas {
namespace {

// The next token is `step` more than the last, modulo 64; behind `length` tokens only kStop is allowed.
class CountingConstraint final : public TokenConstraint {
 public:
  static constexpr TokenId kStop = 63;
  struct Calls {
    int masks = 0, accepted = 0, wrong = 0;
  };
  CountingConstraint(TokenId step, int length, Calls& calls) : step_(step), length_(length), calls_(calls) {}

  std::shared_ptr<const TokenMask> mask() override {
    // Called again only after accept(), or for a row that was planned anew.
    ++calls_.masks;
    auto mask = std::make_shared<TokenMask>();
    mask->bits = {0, 0};
    const TokenId next = accepted_ < length_ ? expected() : kStop;
    mask->bits[static_cast<size_t>(next) / 32] |= 1u << (next % 32);
    return mask;
  }
  bool accept(TokenId token) override {
    ++calls_.accepted;
    calls_.wrong += token != expected();
    last_ = token;
    ++accepted_;
    return true;
  }
  static std::vector<TokenId> text(TokenId step, int length) {
    std::vector<TokenId> out;
    for (int i = 1; i <= length; ++i) out.push_back(i * step % kStop);
    return out;
  }

 private:
  TokenId expected() const { return (last_ + step_) % kStop; }
  const TokenId step_;
  const int length_;
  Calls& calls_;
  TokenId last_ = 0;
  int accepted_ = 0;
};

class CoreConstraintTest : public CoreFixture<FakeExecutor, FakeOptions> {
 protected:
  Request bound(int32_t prompt, TokenId step, int length) {
    Request result = request(prompt, 400);
    result.stop_ids = {CountingConstraint::kStop};
    result.make_constraint = [this, step, length] {
      return std::make_unique<CountingConstraint>(step, length, calls_);
    };
    return result;
  }
  std::vector<TokenId> wanted(TokenId step, int length) {
    std::vector<TokenId> text = CountingConstraint::text(step, length);
    text.push_back(CountingConstraint::kStop);
    return text;
  }
  CountingConstraint::Calls calls_;
};

TEST_F(CoreConstraintTest, EveryMaskKnowsTheTokensBeforeIt) {
  for (const int32_t in_flight : {1, 2, 3}) {
    start_over();
    calls_ = {};
    fake.steps_in_flight_max = in_flight;
    add(bound(30, 5, 40));
    add(request(20, 60));
    add(bound(70, 7, 25));
    add(request(90, 30));
    finish_all();
    EXPECT_EQ(logs[1].tokens(), wanted(5, 40)) << in_flight;
    EXPECT_EQ(logs[3].tokens(), wanted(7, 25)) << in_flight;
    EXPECT_EQ(logs[1].finish(), FinishReason::kStop);
    EXPECT_EQ(logs[2].tokens().size(), 60u);
    EXPECT_EQ(calls_.masks, 40 + 25 + 2);
    EXPECT_EQ(calls_.accepted, 40 + 25);  // the engine ends at a stop token without asking
    EXPECT_EQ(calls_.wrong, 0);
  }
}

TEST_F(CoreConstraintTest, UnboundRowsAreNotHeldUp) {
  fake.steps_in_flight_max = 2;
  add(bound(30, 5, 40));
  add(request(20, 80));
  finish_all();
  // The free sequence gets a token a step, the bound one every other step.
  EXPECT_LE(core().stats().steps, 1 + 80 + 2);
}

TEST_F(CoreConstraintTest, PreemptionGoesOnWhereItWas) {
  for (const int64_t swap_bytes : {int64_t{0}, int64_t{1} << 30}) {
    for (const bool one_arithmetic : {true, false}) {
      for (const int32_t in_flight : {1, 2}) {
        start_over();
        calls_ = {};
        options.swap_bytes_max = swap_bytes;
        options.prefix_cache = false;
        fake.one_arithmetic = one_arithmetic;
        fake.steps_in_flight_max = in_flight;
        fake.pages_full = 8;
        for (int32_t i = 0; i < 3; ++i) add(bound(60 + i, 3 + i, 200));
        finish_all();
        EXPECT_GT(core().stats().preemptions, 0);
        EXPECT_EQ(core().stats().recomputations > 0, swap_bytes == 0);
        for (int32_t i = 0; i < 3; ++i) EXPECT_EQ(logs[static_cast<uint64_t>(i) + 1].tokens(), wanted(3 + i, 200)) << i;
        EXPECT_EQ(calls_.accepted, 600);  // tokens that are computed again are not accepted again
        EXPECT_EQ(calls_.wrong, 0);
      }
    }
  }
}

TEST_F(CoreConstraintTest, EachChoiceHasItsOwn) {
  Request several = bound(130, 5, 20);
  several.choices = 3;
  add(std::move(several));
  finish_all();
  for (int32_t choice = 0; choice < 3; ++choice) EXPECT_EQ(logs[1].tokens(choice), wanted(5, 20));
}

class BrokenConstraint final : public TokenConstraint {
 public:
  BrokenConstraint(int tokens, bool empty_mask) : tokens_(tokens), empty_mask_(empty_mask) {}
  std::shared_ptr<const TokenMask> mask() override {
    if (tokens_ > 0 || !empty_mask_) return nullptr;
    auto mask = std::make_shared<TokenMask>();
    mask->bits = {0, 0};
    return mask;
  }
  bool accept(TokenId) override { return tokens_-- > 0; }

 private:
  int tokens_;
  const bool empty_mask_;
};

// Neither hangs, and neither harms others.
TEST_F(CoreConstraintTest, NothingAllowedAndNothingAcceptedAreErrorsOfOneRequest) {
  for (const bool empty_mask : {true, false}) {
    for (const bool full_logits : {true, false}) {
      start_over();
      fake.full_logits = full_logits;
      fake.steps_in_flight_max = 2;
      add(request(20, 50));
      Request broken = request(30, 50);
      broken.make_constraint = [empty_mask] { return std::make_unique<BrokenConstraint>(4, empty_mask); };
      add(std::move(broken));
      finish_all();
      EXPECT_EQ(logs[1].finish(), FinishReason::kLength);
      EXPECT_EQ(logs[2].finish(), FinishReason::kError);
      EXPECT_EQ(logs[2].tokens().size(), 4u);
      const std::string wanted = empty_mask ? "no token is allowed" : "that the constraint forbids";
      EXPECT_NE(logs[2].events.back().error.find(wanted), std::string::npos) << logs[2].events.back().error;
    }
  }
}

}  // namespace
}  // namespace boreas
