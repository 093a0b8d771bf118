// Filters that apply another filter or a test to every item: map, select, reject, selectattr, rejectattr. Their results
// are one-shot iterators, as in Jinja; the work is done at once.
#include "text/jinja/access.h"
#include "text/jinja/callable.h"

namespace boreas::jinja {

namespace {

Value map_attribute(Budget& budget, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, "map", {"attribute", "default"}, 1);
  if (!bound[0]->is_text() && !bound[0]->is_index()) fail("map: the attribute must be a name or a position");
  std::vector<Value> results;
  for (const Value& item : iterate(budget, input)) {
    results.push_back(get_path(budget, item, *bound[0], bound.given(1) ? bound[1] : nullptr));
  }
  return make_list(budget, std::move(results), SequenceType::kIterator);
}

bool names_attribute(const Arguments& arguments) {
  if (!arguments.positional.empty()) return false;
  for (const auto& named : arguments.named) {
    if (named.first == "attribute") return true;
  }
  return false;
}

Value map(Budget& budget, const Value& input, const Arguments& arguments) {
  if (!truth(input)) return make_list(budget, {}, SequenceType::kIterator);
  if (names_attribute(arguments)) return map_attribute(budget, input, arguments);
  if (arguments.positional.empty() || !arguments.positional[0].is_text())
    fail("map needs the name of a filter, or attribute=...");
  const FilterEntry* filter = find_filter(arguments.positional[0].as_text());
  if (filter == nullptr) fail("map: there is no filter '" + std::string(arguments.positional[0].as_text()) + "'");
  const Arguments rest = arguments.rest(1);
  std::vector<Value> results;
  for (const Value& item : iterate(budget, input)) results.push_back(filter->run(budget, item, rest));
  return make_list(budget, std::move(results), SequenceType::kIterator);
}

template <bool keep, bool by_attribute>
Value select(Budget& budget, const Value& input, const Arguments& arguments) {
  constexpr size_t kOffset = by_attribute ? 1 : 0;
  if (!truth(input)) return make_list(budget, {}, SequenceType::kIterator);
  const auto& given = arguments.positional;
  if (by_attribute && (given.empty() || (!given[0].is_text() && !given[0].is_index())))
    fail("selectattr and rejectattr need the name of an attribute");
  const TestEntry* test = nullptr;
  if (given.size() > kOffset) {
    test = given[kOffset].is_text() ? find_test(given[kOffset].as_text()) : nullptr;
    if (test == nullptr) fail("select: there is no such test");
  }
  const Arguments rest = arguments.rest(kOffset + 1);
  std::vector<Value> kept;
  for (Value& item : iterate(budget, input)) {
    const Value subject = by_attribute ? get_path(budget, item, given[0]) : item;
    budget.step();
    if ((test == nullptr ? truth(subject) : test->run(budget, subject, rest)) == keep) kept.push_back(std::move(item));
  }
  return make_list(budget, std::move(kept), SequenceType::kIterator);
}

constexpr FilterEntry kSelectingFilters[] = {
    {"map", map},
    {"select", select<true, false>},
    {"reject", select<false, false>},
    {"selectattr", select<true, true>},
    {"rejectattr", select<false, true>},
};

}  // namespace

FilterTable selecting_filters() { return {kSelectingFilters, std::size(kSelectingFilters)}; }

}  // namespace boreas::jinja
