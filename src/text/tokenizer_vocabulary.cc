// Vocabulary and GPT-2's byte alphabet: see tokenizer_vocabulary.h.
#include "text/tokenizer_vocabulary.h"

#include <utility>

#include "text/unicode.h"

namespace boreas {
namespace {

constexpr bool is_printable(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// Character -> byte: printable Latin-1 is itself, the 68 other bytes follow in order from U+0100.
constexpr size_t kAlphabetEnd = 256 + 68;
constexpr std::array<int16_t, kAlphabetEnd> kByteOfCharacter = [] {
  std::array<int16_t, kAlphabetEnd> table{};
  for (auto& byte : table) byte = -1;
  size_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const size_t character = is_printable(byte) ? static_cast<size_t>(byte) : next++;
    table[character] = static_cast<int16_t>(byte);
  }
  return table;
}();

std::string quoted(std::string_view content) {
  constexpr size_t kShownMax = 64;
  std::string shown(content.substr(0, kShownMax));
  if (content.size() > kShownMax) shown += "...";
  return "'" + shown + "'";
}

std::optional<TokenId> find_in(const boost::unordered_flat_map<std::string, TokenId>& map, const std::string& key) {
  const auto found = map.find(key);
  if (found == map.end()) return std::nullopt;
  return found->second;
}

}  // namespace

std::optional<std::string> bytes_of_content(std::string_view content) {
  std::string bytes;
  for (size_t offset = 0; offset < content.size();) {
    const char32_t character = next_code_point(content, offset);
    if (character >= kAlphabetEnd || kByteOfCharacter[character] < 0) return std::nullopt;
    bytes += static_cast<char>(kByteOfCharacter[character]);
  }
  return bytes;
}

Status Vocabulary::define(TokenId id, std::string bytes, std::string_view content) {
  const auto index = static_cast<size_t>(id);
  if (index >= entries_.size()) entries_.resize(index + 1);
  if (entries_[index].defined) {
    return Error{"token " + quoted(content) + ": id " + std::to_string(id) + " is already that of another token"};
  }
  entries_[index].bytes = std::move(bytes);
  entries_[index].defined = true;
  return Ok{};
}

Status Vocabulary::insert(std::string_view content, int64_t id) {
  if (id < 0 || id >= kTokenIdLimit) {
    return Error{"token " + quoted(content) + ": id " + std::to_string(id) + " is not in 0.." +
                 std::to_string(kTokenIdLimit - 1)};
  }
  if (content.empty()) return Error{"token with id " + std::to_string(id) + " is empty"};
  const auto token = static_cast<TokenId>(id);
  auto bytes = bytes_of_content(content);
  if (bytes) {
    by_bytes_.emplace(*bytes, token);
    return define(token, std::move(*bytes), content);
  }
  by_text_.emplace(content, token);
  return define(token, std::string(content), content);
}

Status Vocabulary::insert_added(AddedToken token) {
  if (token.id < 0 || token.id >= kTokenIdLimit) {
    return Error{"added token " + boreas::quoted(token.content) + ": id " + std::to_string(token.id) +
                 " is not in 0.." + std::to_string(kTokenIdLimit - 1)};
  }
  if (token.content.empty()) return Error{"added token with id " + std::to_string(token.id) + " is empty"};
  if (by_added_.contains(token.content))
    return Error{"added token " + boreas::quoted(token.content) + " is given twice"};
  const auto known = find_content(token.content);
  if (known && *known != token.id) {
    return Error{"added token " + boreas::quoted(token.content) + " has id " + std::to_string(token.id) +
                 " but the vocabulary says " + std::to_string(*known)};
  }
  if (!known) RETURN_IF_ERROR(define(token.id, token.content, token.content));
  Entry& entry = entries_[static_cast<size_t>(token.id)];
  entry.bytes = token.content;
  entry.added = static_cast<int32_t>(added_.size());
  by_added_.emplace(token.content, token.id);
  added_.push_back(std::move(token));
  return Ok{};
}

std::optional<TokenId> Vocabulary::find_content(std::string_view content) const {
  const std::string text(content);
  if (const auto added = find_in(by_added_, text)) return added;
  if (find_invalid_utf8(content) != std::string_view::npos) return std::nullopt;
  if (const auto bytes = bytes_of_content(content)) return find_in(by_bytes_, *bytes);
  return find_in(by_text_, text);
}

std::optional<TokenId> Vocabulary::find_bytes(std::string_view bytes) const {
  return find_in(by_bytes_, std::string(bytes));
}

std::string_view Vocabulary::bytes_of(TokenId id) const {
  if (id < 0 || id >= size()) return {};
  return entries_[static_cast<size_t>(id)].bytes;
}

const AddedToken* Vocabulary::added_token(TokenId id) const {
  if (id < 0 || id >= size()) return nullptr;
  const int32_t added = entries_[static_cast<size_t>(id)].added;
  return added < 0 ? nullptr : &added_[static_cast<size_t>(added)];
}

}  // namespace boreas
