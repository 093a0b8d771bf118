#include "text/jinja/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/characters.h"
#include "text/unicode.h"

namespace boreas::jinja {

namespace {

constexpr char kHex[] = "0123456789abcdef";

void append_hex(std::string& out, char32_t c, int digits) {
  for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4) out += kHex[(c >> shift) & 15];
}

// Python quotes with ' unless the text has ' and no ".
void append_quoted(std::string& out, std::string_view text) {
  const bool single = text.find('\'') == std::string_view::npos || text.find('"') != std::string_view::npos;
  const char quote = single ? '\'' : '"';
  out += quote;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_code_point(text, at);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c < 0x80 ? c >= 0x20 && c != 0x7F : is_python_printable(c)) {
      out.append(text.substr(begin, at - begin));
    } else if (c < 0x100) {
      out += "\\x";
      append_hex(out, c, 2);
    } else if (c < 0x10000) {
      out += "\\u";
      append_hex(out, c, 4);
    } else {
      out += "\\U";
      append_hex(out, c, 8);
    }
  }
  out += quote;
}

void append_items(Budget& budget, std::string& out, const Sequence& sequence, const char* open, const char* close) {
  out += open;
  for (size_t i = 0; i < sequence.items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(budget, out, sequence.items[i]);
  }
  if (sequence.type == SequenceType::kTuple && sequence.items.size() == 1) out += ',';
  out += close;
}

void append_sequence(Budget& budget, std::string& out, const Sequence& sequence) {
  switch (sequence.type) {
    case SequenceType::kList:
      return append_items(budget, out, sequence, "[", "]");
    case SequenceType::kTuple:
      return append_items(budget, out, sequence, "(", ")");
    case SequenceType::kItems:
      return append_items(budget, out, sequence, "dict_items([", "])");
    case SequenceType::kKeys:
      return append_items(budget, out, sequence, "dict_keys([", "])");
    case SequenceType::kValues:
      return append_items(budget, out, sequence, "dict_values([", "])");
    case SequenceType::kRange:
      out += "range(" + format_int(sequence.start) + ", " + format_int(sequence.stop);
      if (sequence.step != 1) out += ", " + format_int(sequence.step);
      out += ')';
      return;
    case SequenceType::kIterator:
      fail("a generator cannot be printed; add |list");
  }
}

class JsonWriter {
 public:
  JsonWriter(Budget& budget, const JsonFormat& format, std::string& out)
      : budget_(budget), format_(format), out_(out) {}

  void write(const Value& value, int level) {
    budget_.step();
    budget_.check_text(out_.size());
    switch (value.kind()) {
      case Kind::kNone:
        out_ += "null";
        return;
      case Kind::kBool:
        out_ += value.as_bool() ? "true" : "false";
        return;
      case Kind::kInt:
        out_ += format_int(value.as_int());
        return;
      case Kind::kFloat:
        out_ += json_float(value.as_float());
        return;
      case Kind::kText:
        write_text(value.as_text());
        return;
      case Kind::kDict:
        write_dict(value.dict(), level);
        return;
      case Kind::kSequence:
        if (value.is_sequence(SequenceType::kList) || value.is_sequence(SequenceType::kTuple))
          return write_list(value.sequence(), level);
        break;
      default:
        break;
    }
    fail("tojson: a value of type " + type_name(value) + " has no JSON form");
  }

 private:
  static std::string json_float(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return format_float(value);
  }

  void line_break(int level) {
    if (!format_.indent) return;
    out_ += '\n';
    for (int i = 0; i < level; ++i) out_ += *format_.indent;
    budget_.step_bytes(format_.indent->size() * static_cast<size_t>(level));
  }

  void write_list(const Sequence& list, int level) {
    if (list.items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_ += format_.item_separator;
      line_break(level + 1);
      write(list.items[i], level + 1);
    }
    line_break(level);
    out_ += ']';
  }

  void write_dict(const Dict& dict, int level) {
    if (dict.entries.empty()) {
      out_ += "{}";
      return;
    }
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries) entries.push_back(&entry);
    if (format_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [this](const Dict::Entry* a, const Dict::Entry* b) { return less(budget_, a->key, b->key); });
    }
    out_ += '{';
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_ += format_.item_separator;
      line_break(level + 1);
      write_key(entries[i]->key);
      out_ += format_.key_separator;
      write(entries[i]->value, level + 1);
    }
    line_break(level);
    out_ += '}';
  }

  void write_key(const Value& key) {
    switch (key.kind()) {
      case Kind::kText:
        return write_text(key.as_text());
      case Kind::kNone:
        return write_text("null");
      case Kind::kBool:
        return write_text(key.as_bool() ? "true" : "false");
      case Kind::kInt:
        return write_text(format_int(key.as_int()));
      case Kind::kFloat:
        return write_text(json_float(key.as_float()));
      default:
        fail("tojson: keys must be str, int, float, bool or None, not " + type_name(key));
    }
  }

  void write_text(std::string_view text) {
    budget_.step_bytes(text.size());
    out_ += '"';
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      const char32_t c = next_code_point(text, at);
      switch (c) {
        case '"':
          out_ += "\\\"";
          break;
        case '\\':
          out_ += "\\\\";
          break;
        case '\n':
          out_ += "\\n";
          break;
        case '\r':
          out_ += "\\r";
          break;
        case '\t':
          out_ += "\\t";
          break;
        case '\b':
          out_ += "\\b";
          break;
        case '\f':
          out_ += "\\f";
          break;
        default:
          if (c >= 0x20 && (c < 0x7F || !format_.ensure_ascii)) {
            out_.append(text.substr(begin, at - begin));
          } else {
            write_escaped(c);
          }
      }
    }
    out_ += '"';
  }

  void write_escaped(char32_t c) {
    if (c >= 0x10000) {  // a surrogate pair
      write_escaped(0xD800 + ((c - 0x10000) >> 10));
      write_escaped(0xDC00 + ((c - 0x10000) & 0x3FF));
      return;
    }
    out_ += "\\u";
    append_hex(out_, c, 4);
  }

  Budget& budget_;
  const JsonFormat& format_;
  std::string& out_;
};

}  // namespace

std::string format_int(Int128 value) {
  char digits[24];
  const bool negative = value < 0;
  const auto magnitude = static_cast<uint64_t>(negative ? -value : value);
  const auto end = std::to_chars(digits, digits + sizeof digits, magnitude).ptr;
  return (negative ? "-" : "") + std::string(digits, end);
}

std::string format_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  const std::string_view shortest(
      buffer, static_cast<size_t>(
                  std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr - buffer));
  const size_t e = shortest.find('e');
  const std::string sign = shortest[0] == '-' ? "-" : "";
  std::string digits;
  for (const char c : shortest.substr(sign.size(), e - sign.size())) {
    if (c != '.') digits += c;
  }
  int exponent = 0;
  const size_t exponent_at = e + (shortest[e + 1] == '+' ? 2 : 1);
  std::from_chars(shortest.data() + exponent_at, shortest.data() + shortest.size(), exponent);
  if (exponent < -4 || exponent >= 16) {
    std::string out = sign + digits.substr(0, 1) + (digits.size() > 1 ? "." + digits.substr(1) : "");
    const std::string power = std::to_string(exponent < 0 ? -exponent : exponent);
    return out + (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") + power;
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

void append_repr(Budget& budget, std::string& out, const Value& value) {
  budget.step();
  budget.check_text(out.size());
  switch (value.kind()) {
    case Kind::kUndefined:
      out += "Undefined";
      return;
    case Kind::kText:
      budget.step_bytes(value.as_text().size());
      append_quoted(out, value.as_text());
      return;
    case Kind::kSequence:
      append_sequence(budget, out, value.sequence());
      return;
    case Kind::kDict: {
      out += '{';
      const auto& entries = value.dict().entries;
      for (size_t i = 0; i < entries.size(); ++i) {
        if (i > 0) out += ", ";
        append_repr(budget, out, entries[i].key);
        out += ": ";
        append_repr(budget, out, entries[i].value);
      }
      out += '}';
      return;
    }
    default:
      append_str(budget, out, value);
  }
}

void append_str(Budget& budget, std::string& out, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return;
    case Kind::kNone:
      out += "None";
      return;
    case Kind::kBool:
      out += value.as_bool() ? "True" : "False";
      return;
    case Kind::kInt:
      out += format_int(value.as_int());
      return;
    case Kind::kFloat:
      out += format_float(value.as_float());
      return;
    case Kind::kText:
      budget.step_bytes(value.as_text().size());
      out += value.as_text();
      return;
    case Kind::kSequence:
    case Kind::kDict:
      append_repr(budget, out, value);
      return;
    default:
      fail("a value of type " + type_name(value) + " cannot be printed");
  }
}

std::string to_str(Budget& budget, const Value& value) {
  std::string out;
  append_str(budget, out, value);
  return out;
}

Value str_value(Budget& budget, const Value& value) {
  return value.is_text() ? value : Value::text(budget, to_str(budget, value));
}

std::string to_json(Budget& budget, const Value& value, const JsonFormat& format) {
  std::string out;
  JsonWriter(budget, format, out).write(value, 0);
  return out;
}

}  // namespace boreas::jinja
