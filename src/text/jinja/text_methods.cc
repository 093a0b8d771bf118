// Methods of str. Each behaves as Python's, on code points.
#include <algorithm>

#include "text/jinja/access.h"
#include "text/jinja/callable.h"
#include "text/jinja/characters.h"
#include "text/unicode.h"

namespace boreas::jinja {

namespace {

constexpr size_t kNone = std::string_view::npos;

Value text(Budget& budget, std::string_view piece) { return Value::text(budget, std::string(piece)); }

void no_arguments(const Arguments& arguments, std::string_view what) { Bound(arguments, what, {}); }

using Mapping = std::string (*)(std::string_view);
template <Mapping mapping>
Value mapped(Budget& budget, const Value& self, const Arguments& arguments) {
  no_arguments(arguments, "a str method");
  budget.step_bytes(self.as_text().size() * 8);
  return Value::text(budget, mapping(self.as_text()));
}

using Predicate = bool (*)(std::string_view);
template <Predicate predicate>
Value asked(Budget& budget, const Value& self, const Arguments& arguments) {
  no_arguments(arguments, "a str method");
  budget.step_bytes(self.as_text().size() * 8);
  return Value::boolean(predicate(self.as_text()));
}

template <bool left, bool right>
Value stripped(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, "strip", {"chars"});
  budget.step_bytes(self.as_text().size());
  std::optional<std::string_view> characters;
  if (bound.given(0)) characters = bound.text(0);
  return text(budget, strip(self.as_text(), characters, left, right));
}

// The part of `self` that optional start and end positions (arguments `index` and `index` + 1) select; false if start
// lies behind it.
bool window(Budget& budget, std::string_view& self, const Bound& bound, size_t index, size_t& begin) {
  begin = 0;
  if (!bound.given(index) && !bound.given(index + 1)) return true;
  budget.step_bytes(self.size());
  const auto count = static_cast<Int128>(count_code_points(self));
  const auto position = [&](size_t at, Int128 otherwise) {
    Int128 value = bound.given(at) ? bound.integer(at, 0) : otherwise;
    if (value < 0) value = std::max<Int128>(0, value + count);
    return value;
  };
  const Int128 start = position(index, 0), end = std::min(position(index + 1, count), count);
  if (start > count || start > end) return false;
  begin = offset_of(self, static_cast<size_t>(start));
  self = self.substr(0, offset_of(self, static_cast<size_t>(end)));
  return true;
}

template <bool at_start>
Value has_affix(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, at_start ? "startswith" : "endswith", {"affix", "start", "end"}, 1);
  std::string_view subject = self.as_text();
  size_t begin = 0;
  const bool inside = window(budget, subject, bound, 1, begin);
  const auto matches = [&](const Value& affix) {
    if (!affix.is_text()) fail("startswith and endswith need a str or a tuple of str, not " + type_name(affix));
    const std::string_view wanted = affix.as_text();
    budget.step_bytes(wanted.size());
    if (!inside || subject.size() - begin < wanted.size()) return false;
    return subject.substr(at_start ? begin : subject.size() - wanted.size(), wanted.size()) == wanted;
  };
  if (!bound[0]->is_sequence(SequenceType::kTuple)) return Value::boolean(matches(*bound[0]));
  for (const Value& affix : bound[0]->sequence().items) {
    if (matches(affix)) return Value::boolean(true);
  }
  return Value::boolean(false);
}

size_t find_last(Budget& budget, std::string_view subject, std::string_view wanted, size_t begin) {
  constexpr size_t kLong =
      256;  // rfind may take wanted.size() comparisons at each position: long needles pay that in advance
  if (wanted.size() > kLong) budget.step_bytes(subject.size() * wanted.size());
  const size_t at = subject.rfind(wanted);
  budget.step_bytes(subject.size() - (at == kNone ? 0 : at));
  return at == kNone || at < begin ? kNone : at;
}

enum class Search { kFind, kRfind, kIndex, kRindex };
template <Search search>
Value found(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, "find", {"sub", "start", "end"}, 1);
  std::string_view subject = self.as_text();
  size_t begin = 0;
  size_t at = kNone;
  const std::string_view wanted = bound.text(0);
  if (window(budget, subject, bound, 1, begin)) {
    constexpr bool kLast = search == Search::kRfind || search == Search::kRindex;
    at = kLast ? find_last(budget, subject, wanted, begin) : find_text(budget, subject, wanted, begin);
  }
  if (at != kNone) return Value::integer(static_cast<Int128>(count_code_points(subject.substr(0, at))));
  if (search == Search::kIndex || search == Search::kRindex) fail("substring not found");
  return Value::integer(-1);
}

Value counted(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, "count", {"sub", "start", "end"}, 1);
  std::string_view subject = self.as_text();
  size_t begin = 0;
  const std::string_view wanted = bound.text(0);
  if (!window(budget, subject, bound, 1, begin)) return Value::integer(0);
  if (wanted.empty()) return Value::integer(static_cast<Int128>(count_code_points(subject.substr(begin))) + 1);
  Int128 count = 0;
  for (size_t at = find_text(budget, subject, wanted, begin); at != kNone;
       at = find_text(budget, subject, wanted, at + wanted.size()))
    ++count;
  return Value::integer(count);
}

Value replaced(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, "replace", {"old", "new", "count"}, 2);
  return Value::text(budget, replace_text(budget, self.as_text(), bound.text(0), bound.text(1), bound.integer(2, -1)));
}

// Pieces between runs of white space; at most `limit` splits (-1 = all), from the left or the right. The piece that is
// left over keeps the space at its far end.
std::vector<std::string_view> split_space(std::string_view subject, Int128 limit, bool from_right) {
  std::vector<std::string_view> pieces;
  std::string_view rest = strip(subject, std::nullopt, !from_right, from_right);
  while (!rest.empty()) {
    if (limit >= 0 && static_cast<Int128>(pieces.size()) == limit) {
      pieces.push_back(rest);
      break;
    }
    if (from_right) {
      size_t begin = rest.size();
      while (begin > 0 && !is_python_space(code_point_before(rest, begin))) {
        do --begin;
        while (begin > 0 && (static_cast<uint8_t>(rest[begin]) & 0xC0) == 0x80);
      }
      pieces.push_back(rest.substr(begin));
      rest = strip(rest.substr(0, begin), std::nullopt, false, true);
    } else {
      size_t end = 0;
      for (size_t at = 0; at < rest.size(); end = at) {
        if (is_python_space(next_code_point(rest, at))) break;
      }
      pieces.push_back(rest.substr(0, end));
      rest = strip(rest.substr(end), std::nullopt, true, false);
    }
  }
  return pieces;
}

std::vector<std::string_view> split_at(Budget& budget, std::string_view subject, std::string_view separator,
                                       Int128 limit, bool from_right) {
  std::vector<std::string_view> pieces;
  if (separator.empty()) fail("empty separator");
  while (limit < 0 || static_cast<Int128>(pieces.size()) < limit) {
    const size_t at = from_right ? find_last(budget, subject, separator, 0) : find_text(budget, subject, separator, 0);
    if (at == kNone) break;
    pieces.push_back(from_right ? subject.substr(at + separator.size()) : subject.substr(0, at));
    subject = from_right ? subject.substr(0, at) : subject.substr(at + separator.size());
  }
  pieces.push_back(subject);
  return pieces;
}

template <bool from_right>
Value split(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, "split", {"sep", "maxsplit"});
  const Int128 limit = bound.integer(1, -1);
  budget.step_bytes(self.as_text().size());
  std::vector<std::string_view> pieces = bound.given(0)
                                             ? split_at(budget, self.as_text(), bound.text(0), limit, from_right)
                                             : split_space(self.as_text(), limit, from_right);
  if (from_right) std::reverse(pieces.begin(), pieces.end());
  std::vector<Value> items;
  for (const std::string_view piece : pieces) items.push_back(text(budget, piece));
  return make_list(budget, std::move(items));
}

Value lines(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, "splitlines", {"keepends"});
  budget.step_bytes(self.as_text().size() * 8);
  std::vector<Value> items;
  for (const std::string_view line : split_lines(self.as_text(), bound.flag(0, false)))
    items.push_back(text(budget, line));
  return make_list(budget, std::move(items));
}

template <bool from_right>
Value partition(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, "partition", {"sep"}, 1);
  const std::string_view subject = self.as_text(), separator = bound.text(0);
  if (separator.empty()) fail("empty separator");
  const size_t at = from_right ? find_last(budget, subject, separator, 0) : find_text(budget, subject, separator, 0);
  std::vector<Value> parts;
  if (at == kNone) {
    parts = {text(budget, ""), text(budget, ""), text(budget, "")};
    parts[from_right ? 2 : 0] = self;
  } else {
    parts = {text(budget, subject.substr(0, at)), *bound[0], text(budget, subject.substr(at + separator.size()))};
  }
  return make_list(budget, std::move(parts), SequenceType::kTuple);
}

Value joined(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, "join", {"iterable"}, 1);
  std::string out;
  bool first = true;
  for (const Value& item : iterate(budget, *bound[0])) {
    if (!item.is_text()) fail("join needs str items, not " + type_name(item));
    if (!first) out += self.as_text();
    first = false;
    budget.step_bytes(self.as_text().size() + item.as_text().size());
    out += item.as_text();
    budget.check_text(out.size());
  }
  return Value::text(budget, std::move(out));
}

template <bool prefix>
Value removed(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, prefix ? "removeprefix" : "removesuffix", {"affix"}, 1);
  const std::string_view subject = self.as_text(), affix = bound.text(0);
  if (subject.size() < affix.size()) return self;
  if (subject.substr(prefix ? 0 : subject.size() - affix.size(), affix.size()) != affix) return self;
  return text(budget, prefix ? subject.substr(affix.size()) : subject.substr(0, subject.size() - affix.size()));
}

enum class Align { kLeft, kRight, kCenter };
template <Align align>
Value padded(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, "ljust, rjust or center", {"width", "fillchar"}, 1);
  const std::string_view fill = bound[1] != nullptr ? bound.text(1) : " ";
  if (count_code_points(fill) != 1) fail("the fill character must be exactly one character long");
  const auto have = static_cast<Int128>(count_code_points(self.as_text()));
  const Int128 width = bound.integer(0, 0), missing = width - have;
  if (missing <= 0) return self;
  // Python puts the odd space of center() on the left if the width is odd.
  const Int128 left = align == Align::kLeft    ? 0
                      : align == Align::kRight ? missing
                                               : missing / 2 + (missing & width & 1);
  std::string out = repeat_text(budget, fill, left);
  out += self.as_text();
  out += repeat_text(budget, fill, missing - left);
  return Value::text(budget, std::move(out));
}

Value zero_filled(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, "zfill", {"width"}, 1);
  const std::string_view subject = self.as_text();
  const bool sign = !subject.empty() && (subject[0] == '+' || subject[0] == '-');
  const Int128 missing = bound.integer(0, 0) - static_cast<Int128>(count_code_points(subject));
  if (missing <= 0) return self;
  std::string out(subject.substr(0, sign ? 1 : 0));
  out += repeat_text(budget, "0", missing);
  out += subject.substr(sign ? 1 : 0);
  return Value::text(budget, std::move(out));
}

constexpr MethodEntry kTextMethods[] = {
    {"strip", stripped<true, true>},
    {"lstrip", stripped<true, false>},
    {"rstrip", stripped<false, true>},
    {"startswith", has_affix<true>},
    {"endswith", has_affix<false>},
    {"split", split<false>},
    {"rsplit", split<true>},
    {"splitlines", lines},
    {"replace", replaced},
    {"join", joined},
    {"upper", mapped<upper>},
    {"lower", mapped<lower>},
    {"title", mapped<title>},
    {"capitalize", mapped<capitalize>},
    {"swapcase", mapped<swap_case>},
    {"find", found<Search::kFind>},
    {"rfind", found<Search::kRfind>},
    {"index", found<Search::kIndex>},
    {"rindex", found<Search::kRindex>},
    {"count", counted},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"removeprefix", removed<true>},
    {"removesuffix", removed<false>},
    {"isdigit", asked<is_digit>},
    {"isalpha", asked<is_alpha>},
    {"isalnum", asked<is_alnum>},
    {"isspace", asked<is_space>},
    {"isupper", asked<is_upper>},
    {"islower", asked<is_lower>},
    {"ljust", padded<Align::kLeft>},
    {"rjust", padded<Align::kRight>},
    {"center", padded<Align::kCenter>},
    {"zfill", zero_filled},
};

}  // namespace

MethodTable text_methods() { return {kTextMethods, std::size(kTextMethods)}; }

std::string replace_text(Budget& budget, std::string_view subject, std::string_view from, std::string_view to,
                         Int128 limit) {
  std::string out;
  size_t at = 0;
  for (Int128 done = 0; limit < 0 || done < limit; ++done) {
    if (from.empty()) {  // between all characters, and at both ends
      budget.step_bytes(to.size());
      out += to;
      if (at >= subject.size()) break;
      const size_t begin = at;
      next_code_point(subject, at);
      out += subject.substr(begin, at - begin);
    } else {
      const size_t next = find_text(budget, subject, from, at);
      if (next == kNone) break;
      out.append(subject.substr(at, next - at)).append(to);
      budget.step_bytes(to.size());
      at = next + from.size();
    }
    budget.check_text(out.size());
  }
  budget.step_bytes(subject.size());
  return out.append(subject.substr(at));
}

std::string repeat_text(Budget& budget, std::string_view unit, Int128 count) {
  std::string out;
  if (count <= 0 || unit.empty()) return out;
  if (count > static_cast<Int128>(UINT32_MAX)) fail("a str repeated that often is too long");
  const size_t bytes = unit.size() * static_cast<size_t>(count);
  budget.check_text(bytes);
  budget.step_bytes(bytes);
  out.reserve(bytes);
  for (Int128 i = 0; i < count; ++i) out += unit;
  return out;
}

}  // namespace boreas::jinja
