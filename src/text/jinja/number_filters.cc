// Filters that make numbers, and default().
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "text/jinja/callable.h"
#include "text/jinja/characters.h"
#include "text/jinja/operators.h"

namespace boreas::jinja {

namespace {

// Digits with single underscores between them, as Python's int() and float() read them; empty if malformed.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const bool between = i > 0 && i + 1 < text.size() && std::isalnum(static_cast<unsigned char>(text[i - 1])) != 0 &&
                         std::isalnum(static_cast<unsigned char>(text[i + 1])) != 0;
    if (!between) return std::nullopt;
  }
  return out;
}

// int(text, base); none where Python raises ValueError.
std::optional<Value> parse_int(std::string_view text, Int128 base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  std::string_view rest = strip(text, std::nullopt, true, true);
  const bool negative = !rest.empty() && rest[0] == '-';
  if (negative || (!rest.empty() && rest[0] == '+')) rest.remove_prefix(1);
  int radix = static_cast<int>(base);
  if (rest.size() > 2 && rest[0] == '0') {
    const int marked = (rest[1] | 0x20) == 'x' ? 16 : (rest[1] | 0x20) == 'o' ? 8 : (rest[1] | 0x20) == 'b' ? 2 : 0;
    if (marked != 0 && (radix == 0 || radix == marked)) {
      radix = marked;
      rest.remove_prefix(2);
      if (!rest.empty() && rest[0] == '_') rest.remove_prefix(1);
    }
  }
  const auto digits = without_underscores(rest);
  if (!digits || digits->empty()) return std::nullopt;
  uint64_t magnitude = 0;
  const auto read =
      std::from_chars(digits->data(), digits->data() + digits->size(), magnitude, radix == 0 ? 10 : radix);
  if (read.ptr != digits->data() + digits->size()) return std::nullopt;
  if (read.ec == std::errc::result_out_of_range) fail("integer out of range: whole numbers are limited to 64 bits");
  if (read.ec != std::errc()) return std::nullopt;
  return Value::integer(negative ? -static_cast<Int128>(magnitude) : static_cast<Int128>(magnitude));
}

// float(text)
std::optional<double> parse_float(std::string_view text) {
  const auto plain = without_underscores(strip(text, std::nullopt, true, true));
  if (!plain || plain->empty()) return std::nullopt;
  std::string_view rest = *plain;
  const bool negative = rest[0] == '-';
  if (negative || rest[0] == '+') rest.remove_prefix(1);
  if (rest.empty() || rest[0] == '-' || rest[0] == '+') return std::nullopt;
  double value = 0;
  const auto read = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (read.ptr != rest.data() + rest.size() || rest.back() == ')')
    return std::nullopt;  // from_chars also takes nan(...)
  if (read.ec == std::errc::result_out_of_range)
    value = std::strtod(std::string(rest).c_str(), nullptr);  // inf or 0, as Python
  else if (read.ec != std::errc()) return std::nullopt;
  return negative ? -value : value;
}

// int(float): none for NaN, raises for infinity and beyond 64 bits.
std::optional<Value> truncate(double value) {
  if (std::isnan(value)) return std::nullopt;
  const double whole = std::trunc(value);
  if (std::fabs(whole) >= 0x1p64) fail("integer out of range: whole numbers are limited to 64 bits");
  return Value::integer(static_cast<Int128>(whole));
}

void reject_undefined(const Value& input) {
  if (input.is_undefined()) fail("'" + std::string(input.as_text()) + "' is undefined");
}

Value to_int(Budget& budget, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, "int", {"default", "base"});
  reject_undefined(input);
  std::optional<Value> result;
  if (input.is_text()) {
    budget.step_bytes(input.as_text().size());
    result = parse_int(input.as_text(), bound.integer(1, 10));
    if (!result) {
      const auto real = parse_float(input.as_text());
      if (real) result = truncate(*real);
    }
  } else if (input.is(Kind::kFloat)) {
    result = truncate(input.as_float());
  } else if (input.is_index()) {
    result = Value::integer(input.as_int());
  }
  if (result) return *result;
  return bound[0] != nullptr ? *bound[0] : Value::integer(0);
}

Value to_float(Budget& budget, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, "float", {"default"});
  reject_undefined(input);
  if (input.is_number()) return Value::real(input.as_float());
  if (input.is_text()) {
    budget.step_bytes(input.as_text().size());
    if (const auto value = parse_float(input.as_text())) return Value::real(*value);
  }
  return bound[0] != nullptr ? *bound[0] : Value::real(0);
}

Value absolute(Budget&, const Value& input, const Arguments& arguments) {
  Bound(arguments, "abs", {});
  if (input.is(Kind::kFloat)) return Value::real(std::fabs(input.as_float()));
  if (!input.is_index()) fail("abs needs a number, not " + type_name(input));
  return Value::integer(input.as_int() < 0 ? -input.as_int() : input.as_int());
}

// round(int, digits) with digits < 0: half to even.
Value round_int(Int128 value, Int128 digits) {
  Int128 unit = 1;
  for (Int128 i = digits; i < 0 && unit <= kIntMax; ++i) unit *= 10;
  const Int128 magnitude = value < 0 ? -value : value;
  Int128 quotient = magnitude / unit;
  const Int128 rest = magnitude % unit;
  if (rest * 2 > unit || (rest * 2 == unit && quotient % 2 == 1)) ++quotient;
  return Value::integer((value < 0 ? -quotient : quotient) * unit);
}

// round(float, digits): the decimal expansion is exact, so printf rounds it as Python does (half to even).
double round_float(double value, Int128 digits) {
  if (!std::isfinite(value) || digits > 308) return value;
  if (digits < -308) return std::copysign(0.0, value);
  if (digits < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(value / unit) * unit;
  }
  char buffer[700];  // 309 digits before the point, 308 behind it
  std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(digits), value);
  return std::strtod(buffer, nullptr);
}

Value rounded(Budget&, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, "round", {"precision", "method"});
  if (!input.is_number()) fail("round needs a number, not " + type_name(input));
  const Int128 digits = bound.integer(0, 0);
  const std::string_view method = bound[1] != nullptr ? bound.text(1) : "common";
  if (method == "common") {
    if (input.is(Kind::kFloat)) return Value::real(round_float(input.as_float(), digits));
    return digits >= 0 ? Value::integer(input.as_int()) : round_int(input.as_int(), digits);
  }
  if (method != "ceil" && method != "floor") fail("round: the method must be common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(digits));
  const double scaled = input.as_float() * unit;
  if (!std::isfinite(scaled)) fail("round: the number is not finite");
  const double whole = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  return Value::real((whole + 0.0) / unit);  // Python's is a whole number here, which has no negative zero
}

Value fallback(Budget&, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, "default", {"default_value", "boolean"});
  if (!input.is_undefined() && !(bound.flag(1, false) && !truth(input))) return input;
  return bound[0] != nullptr ? *bound[0] : Value::borrowed("");
}

constexpr FilterEntry kNumberFilters[] = {
    {"int", to_int}, {"float", to_float}, {"abs", absolute}, {"round", rounded}, {"default", fallback}, {"d", fallback},
};

}  // namespace

FilterTable number_filters() { return {kNumberFilters, std::size(kNumberFilters)}; }

}  // namespace boreas::jinja
