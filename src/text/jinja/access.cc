#include "text/jinja/access.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "text/jinja/characters.h"
#include "text/jinja/format.h"
#include "text/unicode.h"

namespace boreas::jinja {

namespace {

// The sandbox of the reference caps range() here.
constexpr Int128 kRangeItemsMax = 100'000;

Value method_value(Budget& budget, const Value& object, const MethodEntry& entry) {
  if (entry.run == nullptr) fail("the template may not use '" + std::string(entry.name) + "': it would change a value");
  return Value::of(new Method(budget, object, entry));
}

Value loop_attribute(const LoopState& loop, std::string_view name) {
  const auto& items = loop.items;
  const auto count = static_cast<Int128>(items.size());
  const auto index = static_cast<Int128>(loop.index0);
  if (name == "index") return Value::integer(index + 1);
  if (name == "index0") return Value::integer(index);
  if (name == "first") return Value::boolean(index == 0);
  if (name == "last") return Value::boolean(index + 1 == count);
  if (name == "length") return Value::integer(count);
  if (name == "revindex") return Value::integer(count - index);
  if (name == "revindex0") return Value::integer(count - index - 1);
  if (name == "depth")
    return Value::integer(1);  // recursive loops, which would count further, are refused by the parser
  if (name == "depth0") return Value::integer(0);
  if (name == "previtem")
    return loop.index0 > 0 ? items[loop.index0 - 1] : Value::undefined("there is no previous item");
  if (name == "nextitem") return index + 1 < count ? items[loop.index0 + 1] : Value::undefined("there is no next item");
  return Value::undefined(name);
}

[[noreturn]] void undefined_used(const Value& value, std::string_view wanted) {
  const std::string name(value.as_text());
  fail("'" + (name.empty() ? "value" : name) + "' is undefined, so it has no " + std::string(wanted));
}

// Where Python's slice starts, how many items it takes, and its step.
struct SliceRange {
  Int128 start, count, step;
};

Int128 slice_bound(const Value& part, Int128 otherwise, Int128 length, bool backward) {
  if (part.is_none()) return otherwise;
  if (!part.is_index()) fail("slice positions must be whole numbers, not " + type_name(part));
  Int128 at = part.as_int();
  if (at < 0) at += length;
  return std::clamp<Int128>(at, backward ? -1 : 0, backward ? length - 1 : length);
}

SliceRange slice_range(const Value& start, const Value& stop, const Value& step, Int128 length) {
  Int128 stride = 1;
  if (!step.is_none()) {
    if (!step.is_index()) fail("slice steps must be whole numbers, not " + type_name(step));
    stride = step.as_int();
    if (stride == 0) fail("a slice step must not be zero");
  }
  const bool backward = stride < 0;
  const Int128 from = slice_bound(start, backward ? length - 1 : 0, length, backward);
  const Int128 to = slice_bound(stop, backward ? -1 : length, length, backward);
  const Int128 span = backward ? from - to : to - from;
  const Int128 magnitude = backward ? -stride : stride;
  return {from, span <= 0 ? 0 : (span + magnitude - 1) / magnitude, stride};
}

Value slice_text(Budget& budget, std::string_view text, const SliceRange& range) {
  if (range.count == 0) return Value::borrowed("");
  budget.step_bytes(text.size());
  if (range.step == 1) {
    const size_t begin = offset_of(text, static_cast<size_t>(range.start));
    const std::string_view tail = text.substr(begin);
    return Value::text(budget, std::string(tail.substr(0, offset_of(tail, static_cast<size_t>(range.count)))));
  }
  std::vector<std::string_view> characters;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    next_code_point(text, at);
    characters.push_back(text.substr(begin, at - begin));
  }
  budget.step(characters.size());
  std::string out;
  for (Int128 i = 0; i < range.count; ++i) out += characters[static_cast<size_t>(range.start + i * range.step)];
  return Value::text(budget, std::move(out));
}

Value item_of_text(Budget& budget, std::string_view text, const Value& key) {
  budget.step_bytes(text.size());
  Int128 index = key.as_int();
  const auto count = static_cast<Int128>(count_code_points(text));
  if (index < 0) index += count;
  if (index < 0 || index >= count) return Value::undefined("text item");
  const std::string_view tail = text.substr(offset_of(text, static_cast<size_t>(index)));
  return Value::text(budget, std::string(tail.substr(0, offset_of(tail, 1))));
}

Value item_of_sequence(const Sequence& sequence, const Value& key) {
  const bool indexable = sequence.type == SequenceType::kList || sequence.type == SequenceType::kTuple ||
                         sequence.type == SequenceType::kRange;
  if (!indexable) return Value::undefined("item");
  Int128 index = key.as_int();
  const auto count = static_cast<Int128>(sequence.items.size());
  if (index < 0) index += count;
  return index < 0 || index >= count ? Value::undefined("list item") : sequence.items[static_cast<size_t>(index)];
}

}  // namespace

Value get_attribute(Budget& budget, const Value& object, std::string_view name) {
  budget.step();
  switch (object.kind()) {
    case Kind::kUndefined:
      undefined_used(object, "attribute '" + std::string(name) + "'");
    case Kind::kDict:
      if (const MethodEntry* method = find_method(object, name)) return method_value(budget, object, *method);
      if (const Value* found = object.dict().find(name)) return *found;
      return Value::undefined(name);
    case Kind::kNamespace:
      for (const auto& attribute : object.space().attributes) {
        if (attribute.first == name) return attribute.second;
      }
      return Value::undefined(name);
    case Kind::kLoop:
      if (const MethodEntry* method = find_method(object, name)) return method_value(budget, object, *method);
      return loop_attribute(object.loop(), name);
    default:
      if (const MethodEntry* method = find_method(object, name)) return method_value(budget, object, *method);
      return Value::undefined(name);
  }
}

Value get_item(Budget& budget, const Value& object, const Value& key) {
  budget.step();
  if (object.is_undefined()) undefined_used(object, "items");
  if (object.is(Kind::kDict)) {
    if (hashable(key)) {
      if (const Value* found = object.dict().find(key)) return *found;
    }
  } else if (key.is_index()) {
    if (object.is_text()) return item_of_text(budget, object.as_text(), key);
    if (object.is(Kind::kSequence)) return item_of_sequence(object.sequence(), key);
  } else if (object.is(Kind::kNamespace) || object.is(Kind::kLoop)) {
    const Value found = key.is_text() ? get_attribute(budget, object, key.as_text()) : Value();
    return found.is_undefined() ? Value::undefined("item") : found;
  }
  if (!key.is_text()) return Value::undefined("item");
  if (const MethodEntry* method = find_method(object, key.as_text())) return method_value(budget, object, *method);
  return Value::undefined("item");
}

Value get_slice(Budget& budget, const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is_undefined()) undefined_used(object, "slices");
  if (object.is_text()) {
    budget.step_bytes(object.as_text().size());
    return slice_text(budget, object.as_text(),
                      slice_range(start, stop, step, static_cast<Int128>(count_code_points(object.as_text()))));
  }
  if (!object.is(Kind::kSequence)) fail("a value of type " + type_name(object) + " cannot be sliced");
  const Sequence& from = object.sequence();
  if (from.type != SequenceType::kList && from.type != SequenceType::kTuple && from.type != SequenceType::kRange) {
    fail("a value of type " + type_name(object) + " cannot be sliced");
  }
  const SliceRange range = slice_range(start, stop, step, static_cast<Int128>(from.items.size()));
  auto* result = new Sequence(budget, from.type);
  Value value = Value::of(result);
  for (Int128 i = 0; i < range.count; ++i) {
    budget.step();
    result->add(from.items[static_cast<size_t>(range.start + i * range.step)]);
  }
  if (from.type == SequenceType::kRange) {
    result->start = from.start + range.start * from.step;
    result->step = from.step * range.step;
    result->stop = from.start + (range.start + range.count * range.step) * from.step;
  }
  return value;
}

std::vector<Value> iterate(Budget& budget, const Value& value) {
  std::vector<Value> items;
  switch (value.kind()) {
    case Kind::kUndefined:
      return items;
    case Kind::kSequence: {
      Sequence& sequence = value.sequence();
      if (sequence.spent) return items;
      sequence.spent = sequence.type == SequenceType::kIterator;
      budget.step(sequence.items.size());
      return sequence.items;
    }
    case Kind::kDict:
      budget.step(value.dict().entries.size());
      for (const Dict::Entry& entry : value.dict().entries) items.push_back(entry.key);
      return items;
    case Kind::kText: {
      const std::string_view text = value.as_text();
      for (size_t at = 0; at < text.size();) {
        const size_t begin = at;
        next_code_point(text, at);
        budget.step();
        items.push_back(Value::text(budget, std::string(text.substr(begin, at - begin))));
      }
      return items;
    }
    default:
      fail("a value of type " + type_name(value) + " is not iterable");
  }
}

size_t length(Budget& budget, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kText:
      budget.step_bytes(value.as_text().size());
      return count_code_points(value.as_text());
    case Kind::kDict:
      return value.dict().entries.size();
    case Kind::kLoop:
      return value.loop().items.size();
    case Kind::kSequence:
      if (value.sequence().type != SequenceType::kIterator) return value.sequence().items.size();
      break;
    default:
      break;
  }
  fail("a value of type " + type_name(value) + " has no length");
}

bool contains(Budget& budget, const Value& container, const Value& item) {
  if (container.is_text()) {
    if (!item.is_text()) fail("'in' a str needs a str on the left, not " + type_name(item));
    return find_text(budget, container.as_text(), item.as_text(), 0) != std::string_view::npos;
  }
  if (container.is(Kind::kDict)) return container.dict().find(item) != nullptr;
  if (container.is(Kind::kSequence) && container.sequence().type != SequenceType::kIterator) {
    for (const Value& candidate : container.sequence().items) {
      if (equals(budget, candidate, item)) return true;
    }
    return false;
  }
  for (const Value& candidate : iterate(budget, container)) {
    if (equals(budget, candidate, item)) return true;
  }
  return false;
}

size_t find_text(Budget& budget, std::string_view text, std::string_view wanted, size_t from) {
  if (wanted.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  const size_t at =
      found == nullptr ? std::string_view::npos : static_cast<size_t>(static_cast<const char*>(found) - text.data());
  budget.step_bytes((found == nullptr ? text.size() : at) - from + wanted.size());  // what was walked over
  return at;
}

Value make_list(Budget& budget, std::vector<Value> items, SequenceType type) {
  auto* list = new Sequence(budget, type);
  Value value = Value::of(list);
  list->items.reserve(items.size());
  for (Value& item : items) {
    budget.step();
    list->add(std::move(item));
  }
  return value;
}

Value make_pair(Budget& budget, const Value& first, const Value& second) {
  auto* pair = new Sequence(budget, SequenceType::kTuple);
  Value value = Value::of(pair);
  pair->add(first);
  pair->add(second);
  return value;
}

Value make_range(Budget& budget, Int128 start, Int128 stop, Int128 step) {
  if (step == 0) fail("range() needs a step that is not zero");
  const Int128 span = step > 0 ? stop - start : start - stop;
  const Int128 magnitude = step > 0 ? step : -step;
  const Int128 count = span <= 0 ? 0 : (span + magnitude - 1) / magnitude;
  if (count > kRangeItemsMax) fail("range() is limited to 100000 items");
  budget.step(static_cast<uint64_t>(count));
  auto* range = new Sequence(budget, SequenceType::kRange);
  Value value = Value::of(range);
  range->start = start;
  range->stop = stop;
  range->step = step;
  for (Int128 i = 0; i < count; ++i) range->add(Value::integer(start + i * step));
  return value;
}

Value get_path(Budget& budget, const Value& object, const Value& path, const Value* otherwise) {
  const auto look_up = [&](const Value& from, const Value& key) {
    Value found = get_item(budget, from, key);
    return found.is_undefined() && otherwise != nullptr ? *otherwise : found;
  };
  if (path.is_index()) return look_up(object, path);
  Value current = object;
  std::string_view rest = path.as_text();
  while (true) {
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    int64_t index = 0;
    const auto read = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool number =
        !part.empty() && part[0] != '-' && read.ec == std::errc() && read.ptr == part.data() + part.size();
    current = look_up(current, number ? Value::integer(index) : Value::borrowed(part));
    if (dot == std::string_view::npos) return current;
    rest.remove_prefix(dot + 1);
  }
}

}  // namespace boreas::jinja
