// Filters that make text: case, space, replacement, indentation, JSON.
#include "text/jinja/access.h"
#include "text/jinja/callable.h"
#include "text/jinja/characters.h"
#include "text/jinja/format.h"
#include "text/unicode.h"

namespace boreas::jinja {

namespace {

using Mapping = std::string (*)(std::string_view);
template <Mapping mapping>
Value mapped(Budget& budget, const Value& input, const Arguments& arguments) {
  Bound(arguments, "this filter", {});
  const Value text = str_value(budget, input);
  budget.step_bytes(text.as_text().size() * 8);
  return Value::text(budget, mapping(text.as_text()));
}

// Jinja's title: words begin behind white space, '-' and opening brackets, not at every letter as in str.title.
std::string title_words(std::string_view text) {
  std::string out;
  size_t word = 0;
  const auto flush = [&](size_t end) {
    if (end == word) return;
    const std::string_view piece = text.substr(word, end - word);
    const size_t first = offset_of(piece, 1);
    out += upper(piece.substr(0, first)) + lower(piece.substr(first));
  };
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_code_point(text, at);
    if (c != '-' && c != '(' && c != '{' && c != '[' && c != '<' && !is_python_space(c)) continue;
    flush(begin);
    out += text.substr(begin, at - begin);
    word = at;
  }
  flush(text.size());
  return out;
}

Value string(Budget& budget, const Value& input, const Arguments& arguments) {
  Bound(arguments, "string", {});
  return str_value(budget, input);
}

// Output is never escaped here (no autoescape), so marking text as safe changes nothing.
Value safe(Budget& budget, const Value& input, const Arguments& arguments) {
  Bound(arguments, "safe", {});
  return str_value(budget, input);
}

Value trim(Budget& budget, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, "trim", {"chars"});
  const Value text = str_value(budget, input);
  std::optional<std::string_view> characters;
  if (bound.given(0)) characters = bound.text(0);
  budget.step_bytes(text.as_text().size());
  return Value::text(budget, std::string(strip(text.as_text(), characters, true, true)));
}

Value replace(Budget& budget, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, "replace", {"old", "new", "count"}, 2);
  const Value text = str_value(budget, input), from = str_value(budget, *bound[0]), to = str_value(budget, *bound[1]);
  const Int128 limit = bound.given(2) ? bound.integer(2, -1) : -1;
  return Value::text(budget, replace_text(budget, text.as_text(), from.as_text(), to.as_text(), limit));
}

Value indent(Budget& budget, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, "indent", {"width", "first", "blank"});
  if (!input.is_text()) fail("indent needs a str, not " + type_name(input));
  const std::string margin = bound[0] != nullptr && bound[0]->is_text() ? std::string(bound[0]->as_text())
                                                                        : repeat_text(budget, " ", bound.integer(0, 4));
  const std::string text = std::string(input.as_text()) + "\n";
  budget.step_bytes(text.size() * 8);
  std::string out = bound.flag(1, false) ? margin : std::string();
  bool first = true;
  for (const std::string_view line : split_lines(text, false)) {
    if (!first) {
      out += '\n';
      if (!line.empty() || bound.flag(2, false)) out += margin;
    }
    budget.step_bytes(margin.size() + line.size());
    budget.check_text(out.size());
    first = false;
    out += line;
  }
  return Value::text(budget, std::move(out));
}

Value join(Budget& budget, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, "join", {"d", "attribute"});
  const std::string separator = bound[0] != nullptr ? to_str(budget, *bound[0]) : std::string();
  std::string out;
  bool first = true;
  for (const Value& item : iterate(budget, input)) {
    if (!first) out += separator;
    first = false;
    append_str(budget, out, bound.given(1) ? get_path(budget, item, *bound[1]) : item);
    budget.step_bytes(separator.size());
    budget.check_text(out.size());
  }
  return Value::text(budget, std::move(out));
}

// json.dumps(value, ensure_ascii, indent, separators, sort_keys), non-ASCII kept unless asked otherwise, no HTML
// escapes.
Value tojson(Budget& budget, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonFormat format;
  format.ensure_ascii = bound.flag(0, false);
  format.sort_keys = bound.flag(3, false);
  if (bound.given(1)) {
    constexpr Int128 kIndentMax = 1000;
    if (!bound[1]->is_text() && bound.integer(1, 0) > kIndentMax) fail("tojson: the indent is too large");
    format.indent =
        bound[1]->is_text() ? std::string(bound[1]->as_text()) : repeat_text(budget, " ", bound.integer(1, 0));
    format.item_separator = ",";
  }
  if (bound.given(2)) {
    const std::vector<Value> separators = iterate(budget, *bound[2]);
    if (separators.size() != 2 || !separators[0].is_text() || !separators[1].is_text())
      fail("tojson: separators must be two str");
    format.item_separator = separators[0].as_text();
    format.key_separator = separators[1].as_text();
  }
  return Value::text(budget, to_json(budget, input, format));
}

constexpr FilterEntry kTextFilters[] = {
    {"upper", mapped<upper>},
    {"lower", mapped<lower>},
    {"capitalize", mapped<capitalize>},
    {"title", mapped<title_words>},
    {"string", string},
    {"safe", safe},
    {"trim", trim},
    {"replace", replace},
    {"indent", indent},
    {"join", join},
    {"tojson", tojson},
};

}  // namespace

FilterTable text_filters() { return {kTextFilters, std::size(kTextFilters)}; }

}  // namespace boreas::jinja
