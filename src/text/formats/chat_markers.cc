// Breaking the names of control tokens in text that comes from a request.
#include <algorithm>

#include "text/formats/chat_format_impl.h"

namespace boreas {

namespace {

constexpr size_t kShortest = 3;

bool can_break(const std::string& marker) {
  return marker.size() >= kShortest && marker.find_first_not_of(" \t\r\n") != std::string::npos;
}

size_t first_character_bytes(std::string_view text) {
  size_t bytes = 1;
  while (bytes < text.size() && (static_cast<uint8_t>(text[bytes]) & 0xC0) == 0x80) ++bytes;
  return bytes;
}

bool is_text_part(const boost::json::value& part) {
  if (!part.is_object()) return false;
  const boost::json::value* text = part.get_object().if_contains("text");
  return text != nullptr && text->is_string();
}

std::string_view view(const boost::json::string& text) { return {text.data(), text.size()}; }

}  // namespace

namespace chat {

MarkerBreaker::MarkerBreaker(const std::vector<std::string>& markers) {
  std::vector<std::string> sorted;
  std::copy_if(markers.begin(), markers.end(), std::back_inserter(sorted), can_break);
  std::sort(sorted.begin(), sorted.end());
  for (std::string& marker : sorted) {
    if (!markers_.empty() && marker.compare(0, markers_.back().size(), markers_.back()) == 0) continue;
    first_bytes_[static_cast<uint8_t>(marker[0])] = true;
    markers_.push_back(std::move(marker));
  }
}

bool MarkerBreaker::starts_with_marker(std::string_view text) const {
  // A marker that `text` begins with sorts at or before it, and with no marker being the beginning of another, directly
  // before.
  const auto behind = std::upper_bound(markers_.begin(), markers_.end(), text);
  return behind != markers_.begin() && text.substr(0, std::prev(behind)->size()) == *std::prev(behind);
}

// Positions behind the first character of every occurrence of a marker, ascending.
std::vector<size_t> MarkerBreaker::break_points(std::string_view text) const {
  std::vector<size_t> points;
  for (size_t at = 0; at < text.size(); ++at) {
    if (!first_bytes_[static_cast<uint8_t>(text[at])]) continue;
    const std::string_view rest = text.substr(at);
    if (starts_with_marker(rest)) points.push_back(at + first_character_bytes(rest));
  }
  return points;
}

// Breaks markers in the concatenation of `pieces`; each change is made in the piece where it falls.
void MarkerBreaker::break_pieces(std::vector<std::string>& pieces) const {
  // Inserting may complete another marker only if that one holds a backslash itself; then another round breaks it.
  constexpr int kRoundsMax = 8;
  for (int round = 0; round < kRoundsMax; ++round) {
    std::string joined;
    for (const std::string& piece : pieces) joined += piece;
    const std::vector<size_t> points = break_points(joined);
    if (points.empty()) return;
    size_t begin = 0, next = 0;
    for (std::string& piece : pieces) {
      const size_t end = begin + piece.size();
      std::string broken;
      size_t copied = 0;
      for (; next < points.size() && points[next] <= end; ++next) {
        const size_t local = points[next] - begin;
        broken.append(piece, copied, local - copied).append("\\");
        copied = local;
      }
      broken.append(piece, copied);
      piece = std::move(broken);
      begin = end;
    }
  }
}

std::string MarkerBreaker::broken(std::string_view text) const {
  std::vector<std::string> pieces = {std::string(text)};
  break_pieces(pieces);
  return pieces[0];
}

void MarkerBreaker::break_runs(boost::json::array& parts) const {
  for (size_t begin = 0; begin < parts.size();) {
    size_t end = begin;
    std::vector<std::string> pieces;
    for (; end < parts.size() && is_text_part(parts[end]); ++end)
      pieces.emplace_back(view(parts[end].at("text").as_string()));
    if (pieces.size() > 1) {
      break_pieces(pieces);
      for (size_t i = begin; i < end; ++i) parts[i].as_object()["text"] = pieces[i - begin];
    }
    begin = end + 1;
  }
}

void MarkerBreaker::break_all(boost::json::value& value) const {
  if (value.is_string()) {
    const std::string_view text = view(value.get_string());
    if (!break_points(text).empty()) value = broken(text);
  } else if (value.is_array()) {
    break_runs(value.get_array());
    for (boost::json::value& item : value.get_array()) break_all(item);
  } else if (value.is_object()) {
    bool keys_change = false;
    for (auto& entry : value.get_object()) {
      break_all(entry.value());
      keys_change = keys_change || !break_points({entry.key().data(), entry.key().size()}).empty();
    }
    if (!keys_change) return;
    boost::json::object renamed;
    for (auto& entry : value.get_object())
      renamed[broken({entry.key().data(), entry.key().size()})] = std::move(entry.value());
    value = std::move(renamed);
  }
}

}  // namespace chat

std::string escape_markers(std::string_view text, const std::vector<std::string>& markers) {
  return chat::MarkerBreaker(markers).broken(text);
}

}  // namespace boreas
