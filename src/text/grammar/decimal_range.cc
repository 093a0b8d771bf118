#include "text/grammar/decimal_range.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <tuple>

namespace boreas::grammar {

namespace {

Decimal parse_decimal(std::string_view text) {
  Decimal out;
  if (!text.empty() && text.front() == '-') {
    out.negative = true;
    text.remove_prefix(1);
  }
  const size_t point = std::min(text.find('.'), text.size());
  out.whole = text.substr(0, point);
  if (point < text.size()) out.fraction = text.substr(point + 1);
  out.whole.erase(0, std::min(out.whole.find_first_not_of('0'), out.whole.size()));
  out.fraction.resize(out.fraction.find_last_not_of('0') + 1);
  if (out.zero()) out.negative = false;
  return out;
}

int compare_magnitudes(const Decimal& a, const Decimal& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -1 : 1;
  if (const int order = a.whole.compare(b.whole); order != 0) return order;
  return a.fraction.compare(b.fraction);
}

// Texts of numbers with one sign whose magnitude lies between two bounds.
class Magnitudes {
 public:
  Magnitudes(Nfa& nfa, int32_t accept, const DecimalBound& low, const std::optional<DecimalBound>& high, bool integer)
      : nfa_(nfa), accept_(accept), low_(low), high_(high), integer_(integer) {}

  // Behind the sign: by the count of digits in front of the point, 0 counting as none.
  void add(int32_t from) {
    const auto shortest = static_cast<int>(low_.value.whole.size());
    const int longest = high_ ? static_cast<int>(high_->value.whole.size()) : kNumberDigitsMax;
    for (int digits = shortest; digits <= std::min(longest, kNumberDigitsMax); ++digits) {
      digits_ = digits;
      states_.clear();
      const bool on_low = digits == shortest;
      const bool on_high = high_ && digits == longest;
      if (digits > 0) {
        nfa_.add_empty_edge(from, state_of(0, on_low, on_high));
      } else {
        nfa_.add_edge(from, '0', '0', state_of(0, on_low, on_high));
      }
    }
  }

 private:
  // After `at` digits; on_low: they are the first digits of the lower bound.
  int32_t state_of(int at, bool on_low, bool on_high) {
    const auto [entry, inserted] = states_.try_emplace(std::tuple(at, on_low, on_high), 0);
    if (!inserted) return entry->second;
    const int32_t state = entry->second = nfa_.add_state();
    if (at >= digits_ && may_end(at, on_low, on_high)) nfa_.add_empty_edge(state, accept_);
    if (integer_ && at >= digits_) return state;
    if (at == digits_ + kNumberDigitsMax || nfa_.budget().exhausted()) return state;
    int32_t behind = state;
    if (at == digits_) {
      behind = nfa_.add_state();
      nfa_.add_edge(state, '.', '.', behind);
    }
    const int low = std::max<int>(on_low ? digit(low_.value, at) : '0', at == 0 && digits_ > 0 ? '1' : '0');
    const int high = on_high ? digit(high_->value, at) : '9';
    for (int c = low; c <= high; ++c) {
      const bool low_next = on_low && c == digit(low_.value, at);
      const bool high_next = on_high && c == digit(high_->value, at);
      const int32_t next = state_of(at + 1, low_next, high_next);
      nfa_.add_edge(behind, static_cast<uint8_t>(c), static_cast<uint8_t>(c), next);
    }
    return state;
  }

  char digit(const Decimal& bound, int at) const {
    const auto index = static_cast<size_t>(at);
    if (at < digits_) return bound.whole[index];
    const size_t behind = index - static_cast<size_t>(digits_);
    return behind < bound.fraction.size() ? bound.fraction[behind] : '0';
  }

  // The digits so far are a number within the bounds; what a bound has more of is not zero.
  bool may_end(int at, bool on_low, bool on_high) const {
    const auto behind = static_cast<size_t>(at - digits_);
    if (on_low && (low_.value.fraction.size() > behind || low_.exclusive)) return false;
    return !(on_high && high_->value.fraction.size() <= behind && high_->exclusive);
  }

  Nfa& nfa_;
  const int32_t accept_;
  const DecimalBound& low_;
  const std::optional<DecimalBound>& high_;
  const bool integer_;
  int digits_ = 0;
  std::map<std::tuple<int, bool, bool>, int32_t> states_;
};

void add_free_number(Nfa& nfa, int32_t start, int32_t accept, bool integer) {
  const int32_t sign = nfa.add_state();
  nfa.add_edge(start, '-', '-', sign);
  const int32_t zero = nfa.add_state();
  nfa.add_edge(start, '0', '0', zero);
  if (!integer) nfa.add_edge(sign, '0', '0', zero);
  const int32_t whole = nfa.add_state();  // the number may end, or go on with point or exponent
  nfa.add_empty_edge(zero, whole);
  int32_t digits = nfa.add_state();
  nfa.add_edge(start, '1', '9', digits);
  nfa.add_edge(sign, '1', '9', digits);
  const auto more_digits = [&](int count, int32_t target) {
    for (int i = 0; i < count; ++i) {
      nfa.add_empty_edge(digits, target);
      const int32_t next = nfa.add_state();
      nfa.add_edge(digits, '0', '9', next);
      digits = next;
    }
    nfa.add_empty_edge(digits, target);
  };
  more_digits(kNumberDigitsMax - 1, whole);
  nfa.add_empty_edge(whole, accept);
  if (integer) return;
  const int32_t point = nfa.add_state();
  const int32_t mantissa = nfa.add_state();
  nfa.add_edge(whole, '.', '.', point);
  digits = nfa.add_state();
  nfa.add_edge(point, '0', '9', digits);
  more_digits(kNumberDigitsMax - 1, mantissa);
  nfa.add_empty_edge(mantissa, accept);
  const int32_t exponent = nfa.add_state();
  for (const int32_t from : {whole, mantissa}) {
    nfa.add_edge(from, 'e', 'e', exponent);
    nfa.add_edge(from, 'E', 'E', exponent);
  }
  const int32_t signed_exponent = nfa.add_state();
  nfa.add_empty_edge(exponent, signed_exponent);
  nfa.add_edge(exponent, '+', '+', signed_exponent);
  nfa.add_edge(exponent, '-', '-', signed_exponent);
  digits = nfa.add_state();
  nfa.add_edge(signed_exponent, '0', '9', digits);
  more_digits(1, accept);
}

}  // namespace

Decimal decimal_of(double value) {
  char text[400];  // the largest double has 309 digits, the smallest 324 behind the point
  const auto end = std::to_chars(text, text + sizeof(text), value, std::chars_format::fixed);
  return parse_decimal({text, static_cast<size_t>(end.ptr - text)});
}

Decimal decimal_of(int64_t value) { return parse_decimal(std::to_string(value)); }

Decimal decimal_of(uint64_t value) { return parse_decimal(std::to_string(value)); }

bool less(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative;
  const int order = compare_magnitudes(a, b);
  return a.negative ? order > 0 : order < 0;
}

std::optional<Dfa> number_automaton(const DecimalRange& range, WorkBudget& budget) {
  Nfa nfa(budget);
  const int32_t start = nfa.add_state();
  const int32_t accept = nfa.add_state();
  if (!range.low && !range.high) {
    add_free_number(nfa, start, accept, range.integer);
    return determinise(nfa, start, accept);
  }
  const auto empty = [](const DecimalBound& low, const std::optional<DecimalBound>& high) {
    if (!high) return false;
    const int order = compare_magnitudes(low.value, high->value);
    return order > 0 || (order == 0 && (low.exclusive || high->exclusive));
  };
  const auto without_sign = [](DecimalBound bound) {
    bound.value.negative = false;
    return bound;
  };
  const DecimalBound zero;
  if (!range.high || !range.high->value.negative) {
    const DecimalBound low = range.low && !range.low->value.negative ? *range.low : zero;
    if (!empty(low, range.high)) Magnitudes(nfa, accept, low, range.high, range.integer).add(start);
  }
  if (!range.low || range.low->value.negative) {
    DecimalBound low{{}, true};  // there is no -0
    if (range.high && range.high->value.negative) low = without_sign(*range.high);
    std::optional<DecimalBound> high;
    if (range.low) high = without_sign(*range.low);
    const int32_t sign = nfa.add_state();
    nfa.add_edge(start, '-', '-', sign);
    if (!empty(low, high)) Magnitudes(nfa, accept, low, high, range.integer).add(sign);
  }
  return determinise(nfa, start, accept);
}

}  // namespace boreas::grammar
