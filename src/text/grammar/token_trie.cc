#include "text/grammar/token_trie.h"

#include <algorithm>

#include "base/check.h"
#include "text/utf8_stream.h"

namespace boreas::grammar {

namespace {

// Tokens longer than this are never generated under a grammar: a walk keeps a state for each byte.
constexpr size_t kTokenBytesMax = 255;

void set_bit(std::vector<uint32_t>& bits, TokenId id) { bits[static_cast<size_t>(id) / 32] |= 1u << (id % 32); }

bool is_plain(const std::string& bytes) {
  const auto special = [](char c) { return static_cast<uint8_t>(c) < 0x20 || c == '"' || c == '\\'; };
  if (std::any_of(bytes.begin(), bytes.end(), special)) return false;
  Utf8Stream check;
  return check.push(bytes) == bytes;
}

uint32_t count_characters(const std::string& utf8) {
  return static_cast<uint32_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

}  // namespace

TokenTrie::TokenTrie(const Tokenizer& tokenizer, int32_t vocab_size) : vocab_size_(vocab_size) {
  std::vector<std::pair<std::string, TokenId>> tokens;
  for (TokenId id = 0; id < std::min(vocab_size, tokenizer.vocab_size()); ++id) {
    if (!tokenizer.is_added(id)) tokens.emplace_back(tokenizer.token_bytes(id), id);
  }
  build(std::move(tokens));
}

TokenTrie::TokenTrie(const std::vector<std::pair<TokenId, std::string>>& tokens, int32_t vocab_size)
    : vocab_size_(vocab_size) {
  std::vector<std::pair<std::string, TokenId>> turned;
  for (const auto& token : tokens) turned.emplace_back(token.second, token.first);
  build(std::move(turned));
}

void TokenTrie::build(std::vector<std::pair<std::string, TokenId>> tokens) {
  const auto unusable = [](const auto& token) { return token.first.empty() || token.first.size() > kTokenBytesMax; };
  tokens.erase(std::remove_if(tokens.begin(), tokens.end(), unusable), tokens.end());
  std::sort(tokens.begin(), tokens.end());
  bytes_.resize(static_cast<size_t>(vocab_size_));
  plain_bits_.assign(kCountedCharactersMax + 2, std::vector<uint32_t>(static_cast<size_t>(vocab_size_ + 31) / 32));
  std::vector<std::pair<std::string, TokenId>> plain, other;
  for (const auto& token : tokens) {
    CHECK(token.second >= 0 && token.second < vocab_size_);
    bytes_[static_cast<size_t>(token.second)] = token.first;
    bytes_max_ = std::max(bytes_max_, static_cast<uint32_t>(token.first.size()));
    const bool is_plain_text = is_plain(token.first);
    (is_plain_text ? plain : other).push_back(token);
    if (!is_plain_text) continue;
    const uint32_t characters = count_characters(token.first);
    plain_characters_max_ = std::max(plain_characters_max_, characters);
    for (size_t i = std::min(characters, kCountedCharactersMax + 1); i < plain_bits_.size(); ++i) {
      set_bit(plain_bits_[i], token.second);
    }
  }
  plain_ = tree_of(plain);
  other_ = tree_of(other);
}

TokenTrie::Tree TokenTrie::tree_of(const std::vector<std::pair<std::string, TokenId>>& sorted) {
  Tree tree;
  std::vector<size_t> path;  // entries along the token before
  std::string_view before;
  const auto close = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      tree.entries[path.back()].skip = static_cast<uint32_t>(tree.entries.size());
    }
  };
  for (const auto& [bytes, id] : sorted) {
    if (bytes == before) {
      tree.twins.emplace_back(tree.entries[path.back()].token, id);
      continue;
    }
    const auto differ = std::mismatch(before.begin(), before.end(), bytes.begin(), bytes.end());
    close(static_cast<size_t>(differ.second - bytes.begin()));
    for (size_t i = path.size(); i < bytes.size(); ++i) {
      Entry entry;
      entry.byte = static_cast<uint8_t>(bytes[i]);
      entry.depth = static_cast<uint8_t>(i);
      entry.token = i + 1 == bytes.size() ? id : -1;
      path.push_back(tree.entries.size());
      tree.entries.push_back(entry);
    }
    before = bytes;
  }
  close(0);
  return tree;
}

std::string_view TokenTrie::bytes_of(TokenId id) const {
  return id >= 0 && id < vocab_size_ ? std::string_view(bytes_[static_cast<size_t>(id)]) : std::string_view();
}

// One pass over a tree. States are remembered by the matcher, or where it has no room kept here for each depth.
class TokenTrie::Walk {
 public:
  Walk(Matcher& matcher, TokenMask& mask) : matcher_(matcher), mask_(mask) { states_[0] = matcher.state(); }

  void run(const Tree& tree) {
    const std::vector<Entry>& entries = tree.entries;
    for (size_t i = 0; i < entries.size();) {
      const Entry& entry = entries[i];
      const bool known = states_[entry.depth] >= 0;
      Matcher::StateId next = known ? matcher_.remembered(states_[entry.depth], entry.byte) : Matcher::kUnknown;
      if (next == Matcher::kUnknown) next = computed(entry);
      if (next == Matcher::kDead) {
        i = entry.skip;
        continue;
      }
      if (entry.token >= 0) set_bit(mask_.bits, entry.token);
      states_[entry.depth + size_t{1}] = next;
      ++i;
    }
    for (const auto& twin : tree.twins) {
      if (mask_.allows(twin.first)) set_bit(mask_.bits, twin.second);
    }
  }

 private:
  Matcher::StateId computed(const Entry& entry) {
    const Matcher::StateId from = states_[entry.depth];
    const Positions& positions = from >= 0 ? matcher_.positions(from) : kept_[entry.depth];
    steps_ += static_cast<int64_t>(positions.size()) + 1;
    if (steps_ > kStepsMax && entry.depth > 0) return Matcher::kDead;
    matcher_.step(positions, entry.byte, scratch_);
    const Matcher::StateId next = from >= 0 ? matcher_.remember(from, entry.byte, scratch_)
                                            : (scratch_.empty() ? Matcher::kDead : Matcher::kUnknown);
    if (next != Matcher::kUnknown) return next;
    kept_[entry.depth + size_t{1}] = scratch_;
    return kUnnamed;
  }
  static constexpr Matcher::StateId kUnnamed = -3;  // its positions are in kept_

  Matcher& matcher_;
  TokenMask& mask_;
  int64_t steps_ = 0;
  Matcher::StateId states_[kTokenBytesMax + 1] = {};  // after so many bytes
  Positions kept_[kTokenBytesMax + 1];
  Positions scratch_;
};

const std::vector<uint32_t>* TokenTrie::plain_allowed(const Matcher& matcher) const {
  const Matcher::OpenString string = matcher.open_string();
  if (string.characters >= plain_characters_max_ && string.characters > 0) return &plain_bits_.back();
  if (string.alone && string.characters > 0 && string.characters <= kCountedCharactersMax) {
    return &plain_bits_[string.characters];
  }
  return nullptr;
}

void TokenTrie::allowed(Matcher& matcher, TokenMask& mask) const {
  mask.bits.resize(plain_bits_.front().size());
  Walk walk(matcher, mask);
  if (const std::vector<uint32_t>* plain = plain_allowed(matcher)) {
    for (size_t i = 0; i < plain->size(); ++i) mask.bits[i] |= (*plain)[i];
  } else {
    walk.run(plain_);
  }
  walk.run(other_);
  matcher.tidy_up();
}

}  // namespace boreas::grammar
