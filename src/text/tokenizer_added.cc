// The trie over added tokens and the rules for white space and words around them: see tokenizer_added.h.
#include "text/tokenizer_added.h"

#include <algorithm>

#include "base/check.h"
#include "text/unicode.h"

namespace boreas {
namespace {

bool touches_word(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && is_plain_word(code_point_before(text, begin))) return true;
  return end < text.size() && is_plain_word(next_code_point(text, end));
}

size_t skip_space_back(std::string_view text, size_t floor, size_t end) {
  while (end > floor) {
    size_t begin = end - 1;
    while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
    size_t offset = begin;
    if (!is_white_space(next_code_point(text, offset))) break;
    end = std::max(begin, floor);
  }
  return end;
}

size_t skip_space(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    size_t offset = begin;
    if (!is_white_space(next_code_point(text, offset))) break;
    begin = offset;
  }
  return begin;
}

}  // namespace

void AddedTokenMatcher::insert(std::string_view pattern, const AddedToken* token) {
  CHECK(!pattern.empty());
  begins_[static_cast<uint8_t>(pattern.front())] = true;
  uint64_t node = 0;
  for (const char c : pattern) {
    const auto [edge, inserted] =
        edges_.try_emplace(node * 256 + static_cast<uint8_t>(c), static_cast<uint32_t>(ends_.size()));
    node = edge->second;
    if (inserted) ends_.push_back(nullptr);
  }
  if (ends_[node] == nullptr) ends_[node] = token;
}

AddedTokenMatcher::Match AddedTokenMatcher::longest_at(std::string_view text, size_t begin) const {
  Match match{begin, begin, nullptr};
  uint64_t node = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    const auto edge = edges_.find(node * 256 + static_cast<uint8_t>(text[i]));
    if (edge == edges_.end()) break;
    node = edge->second;
    if (ends_[node] != nullptr) match = {begin, i + 1, ends_[node]};
  }
  return match;
}

std::vector<AddedTokenMatcher::Segment> AddedTokenMatcher::segments(std::string_view text) const {
  std::vector<Segment> out;
  size_t done = 0;  // bytes of `text` already in `out`
  for (size_t offset = 0; offset < text.size();) {
    if (!begins_[static_cast<uint8_t>(text[offset])]) {
      ++offset;
      continue;
    }
    Match match = longest_at(text, offset);
    if (match.token == nullptr) {
      ++offset;
      continue;
    }
    offset = match.end;  // also when the match is rejected: no shorter token is tried, as in Hugging Face's library
    if (match.token->single_word && touches_word(text, match.begin, match.end)) continue;
    if (match.token->lstrip) match.begin = skip_space_back(text, done, match.begin);
    if (match.token->rstrip) match.end = skip_space(text, match.end);
    if (match.begin > done) out.push_back({text.substr(done, match.begin - done), nullptr});
    out.push_back({text.substr(match.begin, match.end - match.begin), match.token});
    done = match.end;
    offset = done;
  }
  if (done < text.size()) out.push_back({text.substr(done), nullptr});
  return out;
}

}  // namespace boreas
