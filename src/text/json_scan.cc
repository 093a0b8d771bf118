// See json_scan.h.
#include "text/json_scan.h"

#include <string>

namespace boreas {

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr uint32_t kReplacement = 0xFFFD;

}  // namespace

size_t JsonValueScanner::feed(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (done_ || !step(text[i])) {
      done_ = true;
      return i;
    }
  }
  return text.size();
}

bool JsonValueScanner::step(char c) {
  if (lex_ == Lex::kWord) {
    if (!is_json_delimiter(c)) {
      word_byte(c);
      return true;
    }
    end_word();
    if (done_) return false;
  }
  if (lex_ == Lex::kBetween) return between(c);
  in_string(c);
  return true;
}

bool JsonValueScanner::between(char c) {
  if (is_json_space(c)) return true;
  switch (c) {
    case '{':
      open(true, Expect::kKeyOrEnd);
      return true;
    case '[':
      open(false, Expect::kValueOrEnd);
      return true;
    case '}':
      return close_object();
    case ']':
      if (kind_ == Kind::kNone) return false;
      close_array();
      return true;
    case ':':
      if (expect_ != Expect::kColon) valid_ = false;
      expect_ = Expect::kValue;
      return true;
    case ',':
      if (kind_ == Kind::kNone) return false;
      if (expect_ != Expect::kCommaOrEnd) valid_ = false;
      expect_ = top_is_object() ? Expect::kKey : Expect::kValue;
      return true;
    case '"':
      key_ = expect_ == Expect::kKey || expect_ == Expect::kKeyOrEnd;
      if (!key_) begin_value(Kind::kString);
      lex_ = Lex::kString;
      return true;
    default:
      begin_value(Kind::kScalar);
      begin_word(c);
      return true;
  }
}

void JsonValueScanner::in_string(char c) {
  switch (lex_) {
    case Lex::kEscape:
      lex_ = c == 'u' ? Lex::kHex : Lex::kString;
      hex_left_ = 4;
      if (std::string_view("\"\\/bfnrtu").find(c) == std::string_view::npos) valid_ = false;
      return;
    case Lex::kHex:
      if (hex_digit(c) >= 0) {
        if (--hex_left_ == 0) lex_ = Lex::kString;
        return;
      }
      valid_ = false;
      lex_ = Lex::kString;
      break;  // c is an ordinary byte of the string
    default:
      break;
  }
  if (c == '\\') {
    lex_ = Lex::kEscape;
  } else if (c == '"') {
    lex_ = Lex::kBetween;
    if (key_) {
      expect_ = Expect::kColon;
    } else {
      end_value();
    }
  } else if (static_cast<unsigned char>(c) < 0x20) {
    valid_ = false;
  }
}

void JsonValueScanner::begin_value(Kind kind) {
  if (kind_ == Kind::kNone) kind_ = kind;
  if (expect_ != Expect::kValue && expect_ != Expect::kValueOrEnd) valid_ = false;
}

void JsonValueScanner::end_value() {
  expect_ = Expect::kCommaOrEnd;
  if (depth_ == 0 && overflow_ == 0) done_ = true;
}

void JsonValueScanner::open(bool object, Expect inside) {
  begin_value(object ? Kind::kObject : Kind::kArray);
  if (depth_ == kMaxDepth) {
    ++overflow_;
    valid_ = false;
    return;
  }
  is_object_[static_cast<size_t>(depth_++)] = object;
  open_objects_ += object ? 1 : 0;
  expect_ = inside;
}

void JsonValueScanner::pop() {
  --depth_;
  open_objects_ -= is_object_[static_cast<size_t>(depth_)] ? 1 : 0;
}

bool JsonValueScanner::close_object() {
  if (overflow_ > 0) {
    --overflow_;
    return true;
  }
  if (open_objects_ == 0) {
    valid_ = false;
    return false;
  }
  if (!top_is_object() || (expect_ != Expect::kKeyOrEnd && expect_ != Expect::kCommaOrEnd)) valid_ = false;
  while (!top_is_object()) pop();
  pop();
  end_value();
  return true;
}

void JsonValueScanner::close_array() {
  if (overflow_ > 0) {
    --overflow_;
    return;
  }
  if (open_objects_ == depth_) {  // no open '['
    valid_ = false;
    return;
  }
  if (top_is_object() || (expect_ != Expect::kValueOrEnd && expect_ != Expect::kCommaOrEnd)) valid_ = false;
  while (top_is_object()) pop();
  pop();
  end_value();
}

void JsonValueScanner::begin_word(char c) {
  lex_ = Lex::kWord;
  literal_ = nullptr;
  switch (c) {
    case 't':
      literal_ = "rue";
      break;
    case 'f':
      literal_ = "alse";
      break;
    case 'n':
      literal_ = "ull";
      break;
    case '-':
      word_ = Word::kMinus;
      return;
    case '0':
      word_ = Word::kZero;
      return;
    default:
      word_ = is_digit(c) ? Word::kInteger : Word::kWrong;
      return;
  }
  word_ = Word::kLiteral;
}

void JsonValueScanner::word_byte(char c) {
  const bool digit = is_digit(c);
  const bool exponent = c == 'e' || c == 'E';
  switch (word_) {
    case Word::kLiteral:
      if (*literal_ == c) {
        ++literal_;
      } else {
        word_ = Word::kWrong;
      }
      return;
    case Word::kMinus:
      word_ = c == '0' ? Word::kZero : digit ? Word::kInteger : Word::kWrong;
      return;
    case Word::kZero:
      word_ = c == '.' ? Word::kPoint : exponent ? Word::kExponent : Word::kWrong;
      return;
    case Word::kInteger:
      word_ = digit ? Word::kInteger : c == '.' ? Word::kPoint : exponent ? Word::kExponent : Word::kWrong;
      return;
    case Word::kPoint:
      word_ = digit ? Word::kFraction : Word::kWrong;
      return;
    case Word::kFraction:
      word_ = digit ? Word::kFraction : exponent ? Word::kExponent : Word::kWrong;
      return;
    case Word::kExponent:
      word_ = digit ? Word::kPower : c == '+' || c == '-' ? Word::kSign : Word::kWrong;
      return;
    case Word::kSign:
    case Word::kPower:
      word_ = digit ? Word::kPower : Word::kWrong;
      return;
    case Word::kWrong:
      return;
  }
}

void JsonValueScanner::end_word() {
  const bool whole = word_ == Word::kLiteral ? *literal_ == '\0'
                                             : word_ == Word::kZero || word_ == Word::kInteger ||
                                                   word_ == Word::kFraction || word_ == Word::kPower;
  if (!whole) valid_ = false;
  lex_ = Lex::kBetween;
  end_value();
}

size_t JsonStringDecoder::feed(std::string_view text, std::string& out) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (done_) return i;
    const char c = text[i];
    if (escape_bytes_ > 0 && in_escape(c, out)) continue;
    if (c == '\\') {
      escape_[0] = c;
      escape_bytes_ = 1;
      continue;
    }
    flush_high(out);
    if (c == '"') {
      done_ = true;
    } else {
      out.push_back(c);
    }
  }
  return text.size();
}

bool JsonStringDecoder::in_escape(char c, std::string& out) {
  if (escape_bytes_ > 1) {  // \u and up to three digits
    if (hex_digit(c) < 0) {
      flush_high(out);
      out.append(escape_, escape_bytes_);
      escape_bytes_ = 0;
      return false;
    }
    escape_[escape_bytes_++] = c;
    if (escape_bytes_ < 6) return true;
    uint32_t code = 0;
    for (int i = 2; i < 6; ++i) code = code << 4 | static_cast<uint32_t>(hex_digit(escape_[i]));
    escape_bytes_ = 0;
    unit(code, out);
    return true;
  }
  if (c == 'u') {
    escape_[escape_bytes_++] = c;
    return true;
  }
  escape_bytes_ = 0;
  flush_high(out);
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const size_t known = kLetters.find(c);
  if (known != std::string_view::npos) {
    out.push_back(kMeanings[known]);
  } else {
    out.push_back('\\');
    out.push_back(c);
  }
  return true;
}

void JsonStringDecoder::flush_high(std::string& out) {
  if (high_ != 0) append_utf8(kReplacement, out);
  high_ = 0;
}

void JsonStringDecoder::unit(uint32_t code, std::string& out) {
  const bool low = code >= 0xDC00 && code <= 0xDFFF;
  if (low && high_ != 0) {
    append_utf8(0x10000 + ((high_ - 0xD800) << 10) + (code - 0xDC00), out);
    high_ = 0;
    return;
  }
  flush_high(out);
  if (code >= 0xD800 && code <= 0xDBFF) {
    high_ = code;
  } else {
    append_utf8(low ? kReplacement : code, out);
  }
}

void append_utf8(uint32_t code, std::string& out) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xC0 | code >> 6));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | code >> 12));
    out.push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else {
    out.push_back(static_cast<char>(0xF0 | code >> 18));
    out.push_back(static_cast<char>(0x80 | (code >> 12 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  }
}

}  // namespace boreas
