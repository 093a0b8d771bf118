// Filters over sequences: length, ends, order, sums.
#include <algorithm>

#include "text/jinja/access.h"
#include "text/jinja/callable.h"
#include "text/jinja/characters.h"
#include "text/jinja/operators.h"
#include "text/unicode.h"

namespace boreas::jinja {

namespace {

Value count(Budget& budget, const Value& input, const Arguments& arguments) {
  Bound(arguments, "length", {});
  return Value::integer(static_cast<Int128>(length(budget, input)));
}

Value list(Budget& budget, const Value& input, const Arguments& arguments) {
  Bound(arguments, "list", {});
  return make_list(budget, iterate(budget, input));
}

Value first(Budget& budget, const Value& input, const Arguments& arguments) {
  Bound(arguments, "first", {});
  const std::vector<Value> items = iterate(budget, input);
  return items.empty() ? Value::undefined("first item") : items.front();
}

void reject_iterator(const Value& input, const char* what) {
  if (input.is_sequence(SequenceType::kIterator)) fail(std::string(what) + " does not work on a generator; add |list");
}

Value last(Budget& budget, const Value& input, const Arguments& arguments) {
  Bound(arguments, "last", {});
  reject_iterator(input, "last");
  const std::vector<Value> items = iterate(budget, input);
  return items.empty() ? Value::undefined("last item") : items.back();
}

Value reverse(Budget& budget, const Value& input, const Arguments& arguments) {
  Bound(arguments, "reverse", {});
  if (input.is_text()) return get_slice(budget, input, Value::none(), Value::none(), Value::integer(-1));
  std::vector<Value> items = iterate(budget, input);
  std::reverse(items.begin(), items.end());
  return make_list(budget, std::move(items),
                   input.is_sequence(SequenceType::kIterator) ? SequenceType::kList : SequenceType::kIterator);
}

Value items(Budget& budget, const Value& input, const Arguments& arguments) {
  Bound(arguments, "items", {});
  if (!input.is(Kind::kDict) && !input.is_undefined()) fail("items needs a mapping, not " + type_name(input));
  std::vector<Value> pairs;
  if (input.is(Kind::kDict)) {
    for (const Dict::Entry& entry : input.dict().entries) pairs.push_back(make_pair(budget, entry.key, entry.value));
  }
  return make_list(budget, std::move(pairs), SequenceType::kIterator);
}

Value folded(Budget& budget, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is_text()) return value;
  budget.step_bytes(value.as_text().size() * 8);
  return Value::text(budget, lower(value.as_text()));
}

// What sort(attribute="a,b.c") compares: one value per comma, the item itself without an attribute.
std::vector<Value> sort_keys(Budget& budget, const Value& item, const Value* attribute, bool case_sensitive) {
  std::vector<Value> keys;
  if (attribute == nullptr || attribute->is_none()) {
    keys.push_back(folded(budget, item, case_sensitive));
  } else if (!attribute->is_text()) {
    keys.push_back(folded(budget, get_path(budget, item, *attribute), case_sensitive));
  } else {
    std::string_view rest = attribute->as_text();
    while (true) {
      const size_t comma = rest.find(',');
      keys.push_back(folded(budget, get_path(budget, item, Value::borrowed(rest.substr(0, comma))), case_sensitive));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  return keys;
}

bool keys_less(Budget& budget, const std::vector<Value>& a, const std::vector<Value>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!equals(budget, a[i], b[i])) return less(budget, a[i], b[i]);
  }
  return false;
}

struct Sortable {
  std::vector<Value> keys;
  Value item;
};

std::vector<Value> sorted(Budget& budget, std::vector<Sortable> entries, bool reversed, bool keys_are_lists) {
  const auto before = [&](const Sortable& a, const Sortable& b) {
    return keys_are_lists ? keys_less(budget, a.keys, b.keys) : less(budget, a.keys[0], b.keys[0]);
  };
  std::stable_sort(entries.begin(), entries.end(),
                   [&](const Sortable& a, const Sortable& b) { return reversed ? before(b, a) : before(a, b); });
  std::vector<Value> result;
  for (Sortable& entry : entries) result.push_back(std::move(entry.item));
  return result;
}

void check_attribute(const Value* attribute, const char* what) {
  if (attribute != nullptr && !attribute->is_none() && !attribute->is_text() && !attribute->is_index()) {
    fail(std::string(what) + ": the attribute must be a name or a position");
  }
}

Value sort(Budget& budget, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, "sort", {"reverse", "case_sensitive", "attribute"});
  check_attribute(bound[2], "sort");
  std::vector<Sortable> entries;
  for (Value& item : iterate(budget, input)) {
    std::vector<Value> keys = sort_keys(budget, item, bound[2], bound.flag(1, false));
    entries.push_back({std::move(keys), std::move(item)});
  }
  return make_list(budget, sorted(budget, std::move(entries), bound.flag(0, false), true));
}

Value dictsort(Budget& budget, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, "dictsort", {"case_sensitive", "by", "reverse"});
  if (!input.is(Kind::kDict)) fail("dictsort needs a mapping, not " + type_name(input));
  const std::string_view by = bound[1] != nullptr ? bound.text(1) : "key";
  if (by != "key" && by != "value") fail("dictsort sorts by 'key' or by 'value'");
  std::vector<Sortable> entries;
  for (const Dict::Entry& entry : input.dict().entries) {
    Value key = folded(budget, by == "key" ? entry.key : entry.value, bound.flag(0, false));
    entries.push_back({{std::move(key)}, make_pair(budget, entry.key, entry.value)});
  }
  return make_list(budget, sorted(budget, std::move(entries), bound.flag(2, false), false));
}

Value unique(Budget& budget, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, "unique", {"case_sensitive", "attribute"});
  check_attribute(bound[1], "unique");
  auto* seen = new Dict(budget);
  const Value owner = Value::of(seen);
  std::vector<Value> kept;
  for (Value& item : iterate(budget, input)) {
    const Value key = folded(budget, bound.given(1) ? get_path(budget, item, *bound[1]) : item, bound.flag(0, false));
    if (seen->find(key) != nullptr) continue;
    seen->set(key, Value::none());
    kept.push_back(std::move(item));
  }
  return make_list(budget, std::move(kept), SequenceType::kIterator);
}

template <bool want_max>
Value extreme(Budget& budget, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, want_max ? "max" : "min", {"case_sensitive", "attribute"});
  check_attribute(bound[1], "min and max");
  Value best = Value::undefined("aggregated item"), best_key;
  bool any = false;
  for (Value& item : iterate(budget, input)) {
    Value key = folded(budget, bound.given(1) ? get_path(budget, item, *bound[1]) : item, bound.flag(0, false));
    if (any && !(want_max ? less(budget, best_key, key) : less(budget, key, best_key))) continue;
    any = true;
    best = std::move(item);
    best_key = std::move(key);
  }
  return best;
}

Value sum(Budget& budget, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, "sum", {"attribute", "start"});
  check_attribute(bound[0], "sum");
  Value total = bound[1] != nullptr ? *bound[1] : Value::integer(0);
  if (total.is_text()) fail("sum does not add text; use join");
  for (const Value& item : iterate(budget, input)) {
    total = calculate(budget, Operator::kAdd, total, bound.given(0) ? get_path(budget, item, *bound[0]) : item);
  }
  return total;
}

constexpr FilterEntry kSequenceFilters[] = {
    {"length", count},       {"count", count},       {"list", list}, {"first", first},       {"last", last},
    {"reverse", reverse},    {"items", items},       {"sort", sort}, {"dictsort", dictsort}, {"unique", unique},
    {"min", extreme<false>}, {"max", extreme<true>}, {"sum", sum},
};

}  // namespace

FilterTable sequence_filters() { return {kSequenceFilters, std::size(kSequenceFilters)}; }

}  // namespace boreas::jinja
