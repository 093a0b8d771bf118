// Methods of list and tuple, dict, and the loop variable. Those that would change the object are known but forbidden,
// as in the reference's sandbox.
#include "text/jinja/access.h"
#include "text/jinja/callable.h"

namespace boreas::jinja {

namespace {

Value sequence_count(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, "count", {"value"}, 1);
  Int128 count = 0;
  for (const Value& item : self.sequence().items) count += equals(budget, item, *bound[0]) ? 1 : 0;
  return Value::integer(count);
}

Value sequence_index(Budget& budget, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, "index", {"value"}, 1);
  const auto& items = self.sequence().items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (equals(budget, items[i], *bound[0])) return Value::integer(static_cast<Int128>(i));
  }
  fail("the value is not in the list");
}

Value shallow_copy(Budget& budget, const Value& self, const Arguments& arguments) {
  Bound(arguments, "copy", {});
  if (self.is(Kind::kDict)) return self;  // dicts cannot change here, so a copy is the dict itself
  return make_list(budget, self.sequence().items, self.sequence().type);
}

Value dict_get(Budget&, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, "get", {"key", "default"}, 1);
  if (const Value* found = self.dict().find(*bound[0])) return *found;
  return bound[1] != nullptr ? *bound[1] : Value::none();
}

template <SequenceType type>
Value dict_view(Budget& budget, const Value& self, const Arguments& arguments) {
  Bound(arguments, "a dict view", {});
  auto* view = new Sequence(budget, type);
  Value value = Value::of(view);
  for (const Dict::Entry& entry : self.dict().entries) {
    budget.step();
    view->add(type == SequenceType::kKeys     ? entry.key
              : type == SequenceType::kValues ? entry.value
                                              : make_pair(budget, entry.key, entry.value));
  }
  return value;
}

Value loop_cycle(Budget&, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) fail("loop.cycle() needs values to cycle through");
  return arguments.positional[self.loop().index0 % arguments.positional.size()];
}

Value loop_changed(Budget& budget, const Value& self, const Arguments& arguments) {
  if (!arguments.named.empty()) fail("loop.changed() takes no named arguments");
  LoopState& loop = self.loop();
  bool same = loop.changed_called && loop.changed.size() == arguments.positional.size();
  for (size_t i = 0; same && i < loop.changed.size(); ++i)
    same = equals(budget, loop.changed[i], arguments.positional[i]);
  if (!same) loop.changed.assign(arguments.positional.begin(), arguments.positional.end());
  loop.changed_called = true;
  return Value::boolean(!same);
}

constexpr MethodEntry kSequenceMethods[] = {
    {"count", sequence_count}, {"index", sequence_index}, {"copy", shallow_copy}, {"append", nullptr},
    {"clear", nullptr},        {"extend", nullptr},       {"insert", nullptr},    {"pop", nullptr},
    {"remove", nullptr},       {"reverse", nullptr},      {"sort", nullptr},
};

constexpr MethodEntry kRangeMethods[] = {{"count", sequence_count}, {"index", sequence_index}};

constexpr MethodEntry kDictMethods[] = {
    {"get", dict_get},
    {"items", dict_view<SequenceType::kItems>},
    {"keys", dict_view<SequenceType::kKeys>},
    {"values", dict_view<SequenceType::kValues>},
    {"copy", shallow_copy},
    {"clear", nullptr},
    {"pop", nullptr},
    {"popitem", nullptr},
    {"setdefault", nullptr},
    {"update", nullptr},
};

constexpr MethodEntry kLoopMethods[] = {{"cycle", loop_cycle}, {"changed", loop_changed}};

}  // namespace

MethodTable sequence_methods() { return {kSequenceMethods, std::size(kSequenceMethods)}; }
MethodTable range_methods() { return {kRangeMethods, std::size(kRangeMethods)}; }
MethodTable dict_methods() { return {kDictMethods, std::size(kDictMethods)}; }
MethodTable loop_methods() { return {kLoopMethods, std::size(kLoopMethods)}; }

}  // namespace boreas::jinja
