// OutputConstraint: the TokenConstraint behind structured_output.h, one a choice. It knows where the output is in the
// format of a chat; inside a block a Matcher knows the rest.
//
//   thinking --END_THINKING--> before a block --START_TEXT, START_ACTION--> inside --END_TEXT, END_ACTION--> behind
//
// With free_text nothing is bound but the inside of action blocks:  free --START_ACTION--> inside --END_ACTION--> free
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "text/grammar/matcher.h"
#include "text/grammar/structured_output.h"
#include "text/grammar/vocabulary.h"

namespace boreas {

namespace {

using grammar::MaskPointer;
using grammar::Matcher;
using grammar::Vocabulary;

bool contains(const std::vector<TokenId>& ids, TokenId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// What the choices of one request share; immutable.
struct Shared {
  OutputRules rules;
  std::shared_ptr<Vocabulary> vocabulary;
  MaskPointer thinking, before_block, behind;
};

std::vector<TokenId> marker_ids(const OutputMarkers& markers) {
  return {markers.start_thinking, markers.start_text,     markers.end_text,     markers.start_action,
          markers.end_action,     markers.start_response, markers.end_response, markers.end_of_turn,
          markers.start_of_turn,  markers.chatbot,        markers.bos};
}

// A mask of all tokens or of none, with exceptions.
MaskPointer mask_of(int32_t vocab_size, bool others, const std::vector<TokenId>& exceptions) {
  auto mask = std::make_shared<TokenMask>();
  mask->bits.assign(static_cast<size_t>(vocab_size + 31) / 32, others ? UINT32_MAX : 0);
  for (const TokenId id : exceptions) {
    if (id < 0 || id >= vocab_size) continue;
    uint32_t& word = mask->bits[static_cast<size_t>(id) / 32];
    const uint32_t bit = 1u << (id % 32);
    word = others ? word & ~bit : word | bit;
  }
  return mask;
}

class OutputConstraint final : public TokenConstraint {
 public:
  explicit OutputConstraint(std::shared_ptr<const Shared> shared) : shared_(std::move(shared)) {
    const OutputRules& rules = shared_->rules;
    phase_ = rules.free_text ? Phase::kFree : Phase::kThinking;
    if (rules.begin == OutputRules::Begin::kBeforeBlock && !rules.free_text) phase_ = Phase::kBeforeBlock;
    const bool inside = rules.begin == OutputRules::Begin::kInText || rules.begin == OutputRules::Begin::kRaw;
    if (!inside || rules.free_text) return;
    const bool raw = rules.begin == OutputRules::Begin::kRaw;
    enter(rules.text, raw ? rules.end_ids : std::vector<TokenId>{rules.markers.end_text});
    CHECK(matcher_->accept(rules.text_so_far));
  }

  std::shared_ptr<const TokenMask> mask() override {
    MaskPointer mask = mask_of_phase();
    const OutputRules& rules = shared_->rules;
    return mask == nullptr || tokens_ >= rules.min_tokens ? mask : without(mask, rules.suppressed_ids);
  }

  bool accept(TokenId token) override {
    ++tokens_;
    const OutputMarkers& markers = shared_->rules.markers;
    switch (phase_) {
      case Phase::kFree:
        if (token == markers.start_action) open_block(token);
        return true;
      case Phase::kThinking:
        if (token == markers.end_thinking) phase_ = Phase::kBeforeBlock;
        return shared_->thinking->allows(token);
      case Phase::kBeforeBlock:
        if (!shared_->before_block->allows(token)) return false;
        open_block(token);
        return true;
      case Phase::kInside:
        return accept_inside(token);
      case Phase::kBehind:
        return shared_->behind->allows(token);
    }
    return false;
  }

 private:
  enum class Phase : uint8_t { kFree, kThinking, kBeforeBlock, kInside, kBehind };

  MaskPointer mask_of_phase() {
    switch (phase_) {
      case Phase::kFree:
        return nullptr;
      case Phase::kThinking:
        return shared_->thinking;
      case Phase::kBeforeBlock:
        return shared_->before_block;
      case Phase::kInside:
        return mask_inside();
      case Phase::kBehind:
        return shared_->behind;
    }
    return nullptr;
  }

  void open_block(TokenId opener) {
    const OutputRules& rules = shared_->rules;
    const bool action = opener == rules.markers.start_action;
    enter(action ? rules.action : rules.text, {action ? rules.markers.end_action : rules.markers.end_text});
  }

  void enter(const GrammarPointer& compiled, std::vector<TokenId> ends) {
    phase_ = Phase::kInside;
    serial_ = compiled->serial;
    ends_ = std::move(ends);
    matcher_.emplace(compiled->grammar);
  }

  bool accept_inside(TokenId token) {
    if (contains(ends_, token)) {
      if (!matcher_->complete()) return false;
      phase_ = shared_->rules.free_text ? Phase::kFree : Phase::kBehind;
      return true;
    }
    const std::string_view bytes = shared_->vocabulary->trie.bytes_of(token);
    return !bytes.empty() && matcher_->accept(bytes);
  }

  MaskPointer mask_inside() {
    const grammar::TokenTrie& trie = shared_->vocabulary->trie;
    std::vector<uint32_t> key = matcher_->key(trie.bytes_max());
    const bool has_key = !key.empty();
    if (has_key) {
      key.push_back(serial_);
      for (const TokenId id : ends_) key.push_back(static_cast<uint32_t>(id));
      if (MaskPointer known = shared_->vocabulary->masks.find(key)) return known;
    }
    auto mask = std::make_shared<TokenMask>();
    trie.allowed(*matcher_, *mask);
    if (matcher_->complete()) {
      for (const TokenId id : ends_) mask->bits[static_cast<size_t>(id) / 32] |= 1u << (id % 32);
    }
    if (has_key) shared_->vocabulary->masks.add(std::move(key), mask);
    return mask;
  }

  static MaskPointer without(const MaskPointer& mask, const std::vector<TokenId>& ids) {
    auto fewer = std::make_shared<TokenMask>(*mask);
    for (const TokenId id : ids) {
      const auto word = static_cast<size_t>(id) / 32;
      if (id >= 0 && word < fewer->bits.size()) fewer->bits[word] &= ~(1u << (id % 32));
    }
    const bool any = std::any_of(fewer->bits.begin(), fewer->bits.end(), [](uint32_t word) { return word != 0; });
    return any ? fewer : mask;
  }

  const std::shared_ptr<const Shared> shared_;
  Phase phase_ = Phase::kThinking;
  int64_t tokens_ = 0;
  std::optional<Matcher> matcher_;
  uint32_t serial_ = 0;        // of the matcher's grammar
  std::vector<TokenId> ends_;  // tokens that end the inside
};

}  // namespace

Result<ConstraintMaker> constraint_maker(OutputRules rules) {
  CHECK(rules.text != nullptr || rules.action != nullptr);
  auto shared = std::make_shared<Shared>();
  shared->vocabulary = (rules.text != nullptr ? rules.text : rules.action)->vocabulary;
  const int32_t vocab_size = shared->vocabulary->trie.vocab_size();
  const auto unusable = [vocab_size](TokenId id) { return id < 0 || id >= vocab_size; };
  rules.end_ids.erase(std::remove_if(rules.end_ids.begin(), rules.end_ids.end(), unusable), rules.end_ids.end());
  if (rules.begin == OutputRules::Begin::kRaw && rules.end_ids.empty()) {
    return Error{"the model has no token that ends its output"};
  }
  if (rules.begin == OutputRules::Begin::kInText && !rules.free_text) {
    if (rules.text == nullptr) return Error{"a continued answer cannot begin with a call"};
    Matcher matcher(rules.text->grammar);
    if (!matcher.accept(rules.text_so_far)) return Error{"the text to continue does not begin as it must"};
  }
  std::vector<TokenId> not_in_thinking = marker_ids(rules.markers);
  not_in_thinking.insert(not_in_thinking.end(), rules.end_ids.begin(), rules.end_ids.end());
  shared->thinking = mask_of(vocab_size, true, not_in_thinking);
  std::vector<TokenId> openers;
  if (rules.text != nullptr) openers.push_back(rules.markers.start_text);
  if (rules.action != nullptr) openers.push_back(rules.markers.start_action);
  shared->before_block = mask_of(vocab_size, false, openers);
  std::vector<TokenId> ends = rules.end_ids;
  ends.push_back(rules.markers.end_of_turn);
  shared->behind = mask_of(vocab_size, false, ends);
  shared->rules = std::move(rules);
  return ConstraintMaker([shared] { return std::make_unique<OutputConstraint>(shared); });
}

}  // namespace boreas
