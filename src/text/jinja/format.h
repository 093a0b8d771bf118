// How values become text: Python's str() and repr(), and json.dumps as Hugging Face's `tojson` calls it. Everything
// that has no stable text in Python (generators, functions, namespaces print an address) raises.
#pragma once

#include <optional>
#include <string>

#include "text/jinja/value.h"

namespace boreas::jinja {

std::string format_float(double value);  // repr(float): shortest digits, 'e' form outside [1e-4, 1e16)
std::string format_int(Int128 value);

void append_str(Budget& budget, std::string& out, const Value& value);
std::string to_str(Budget& budget, const Value& value);
// str() as a Value: text comes back as it is, without a copy.
Value str_value(Budget& budget, const Value& value);
void append_repr(Budget& budget, std::string& out, const Value& value);

struct JsonFormat {
  std::optional<std::string> indent;  // the text of one level; none = one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ensure_ascii = false;
  bool sort_keys = false;
};
std::string to_json(Budget& budget, const Value& value, const JsonFormat& format);

}  // namespace boreas::jinja
