#include "text/jinja/value.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/prng.h"

namespace boreas::jinja {

namespace {

// Dicts up to this size are searched by a scan of their hashes; larger ones by an index.
constexpr size_t kSmall = 12;

void check_depth(int depth) {
  if (depth > kValueDepthMax) fail("values are nested more than " + std::to_string(kValueDepthMax) + " levels deep");
}

bool sequences_equal(Budget& budget, const Sequence& a, const Sequence& b) {
  if (a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!equals(budget, a.items[i], b.items[i])) return false;
  }
  return true;
}

bool dicts_equal(Budget& budget, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const Dict::Entry& entry : a.entries) {
    const Value* other = b.find(entry.key);
    if (other == nullptr || !equals(budget, entry.value, *other)) return false;
  }
  return true;
}

// Only list with list and tuple with tuple are equal or ordered in Python; a range is equal to a range.
bool comparable_types(SequenceType a, SequenceType b) {
  return a == b && (a == SequenceType::kList || a == SequenceType::kTuple || a == SequenceType::kRange);
}

}  // namespace

Value Value::borrowed_text(Kind kind, std::string_view text) {
  Value value(kind);
  value.plain_.text = {text.data(), text.size()};
  return value;
}

Value Value::boolean(bool value) {
  Value result(Kind::kBool);
  result.plain_.boolean = value;
  return result;
}

Value Value::integer(Int128 value) {
  if (value < kIntMin || value > kIntMax) fail("integer out of range: whole numbers are limited to 64 bits");
  Value result(Kind::kInt);
  result.plain_.integer = value;
  return result;
}

Value Value::real(double value) {
  Value result(Kind::kFloat);
  result.plain_.real = value;
  return result;
}

Value Value::text(Budget& budget, std::string text) {
  auto* object = new TextObject(budget);
  Value result(Kind::kText, object);
  budget.step_bytes(text.size());
  object->charge(sizeof(TextObject) + text.size());
  object->text = std::move(text);
  result.plain_.text = {object->text.data(), object->text.size()};
  return result;
}

Value Value::of(Sequence* sequence) { return Value(Kind::kSequence, sequence); }
Value Value::of(Dict* dict) { return Value(Kind::kDict, dict); }
Value Value::of(Method* method) { return Value(Kind::kMethod, method); }

Value Value::of(Namespace* space) {
  Value result(Kind::kNamespace);
  result.plain_.pointer = space;
  return result;
}

Value Value::of(Macro* macro) {
  Value result(Kind::kMacro);
  result.plain_.pointer = macro;
  return result;
}

Value Value::of(LoopState* loop) { return Value(Kind::kLoop, loop); }

Value Value::function(int id) {
  Value result(Kind::kFunction);
  result.plain_.integer = id;
  return result;
}

Sequence& Value::sequence() const { return *static_cast<Sequence*>(object_); }
Dict& Value::dict() const { return *static_cast<Dict*>(object_); }
Method& Value::method() const { return *static_cast<Method*>(object_); }
LoopState& Value::loop() const { return *static_cast<LoopState*>(object_); }

bool Value::is_sequence(SequenceType type) const { return kind_ == Kind::kSequence && sequence().type == type; }

void Value::append(Budget& budget, std::string_view more) {
  CHECK(is_text());
  if (object_ == nullptr || object_->references > 1) {
    std::string joined;
    joined.reserve(plain_.text.size + more.size());
    joined.append(as_text()).append(more);
    budget.step_bytes(joined.size());
    *this = Value::text(budget, std::move(joined));
    return;
  }
  budget.step_bytes(more.size());
  auto& object = static_cast<TextObject&>(*object_);
  object.charge(more.size());
  object.text.append(more);
  plain_.text = {object.text.data(), object.text.size()};
}

void Sequence::add(Value item) {
  if (item.depth() >= depth) {
    depth = item.depth() + 1;
    check_depth(depth);
  }
  charge(sizeof(Value));
  items.push_back(std::move(item));
}

size_t Dict::position(uint64_t hash, const Value& key) const {
  if (entries.size() <= kSmall) {
    for (size_t i = 0; i < entries.size(); ++i) {
      if (hashes_[i] == hash && equals(*budget, entries[i].key, key)) return i;
    }
    return entries.size();
  }
  const auto range = index_.equal_range(hash);
  for (auto it = range.first; it != range.second; ++it) {
    budget->step();
    if (equals(*budget, entries[it->second].key, key)) return it->second;
  }
  return entries.size();
}

void Dict::set(Value key, Value value) {
  const uint64_t key_hash = hash(key);
  const int inner = std::max(key.depth(), value.depth());
  if (inner >= depth) {
    depth = inner + 1;
    check_depth(depth);
  }
  const size_t at = position(key_hash, key);
  if (at < entries.size()) {
    entries[at].value = std::move(value);
    return;
  }
  charge(sizeof(Entry) + sizeof(uint64_t) * 4);
  entries.push_back({std::move(key), std::move(value)});
  hashes_.push_back(key_hash);
  if (entries.size() == kSmall + 1) {
    for (size_t i = 0; i < entries.size(); ++i) index_.emplace(hashes_[i], static_cast<uint32_t>(i));
  } else if (entries.size() > kSmall + 1) {
    index_.emplace(key_hash, static_cast<uint32_t>(entries.size() - 1));
  }
}

const Value* Dict::find(const Value& key) const {
  if (key.is_text()) budget->step_bytes(key.as_text().size());
  const size_t at = position(hash(key), key);
  return at < entries.size() ? &entries[at].value : nullptr;
}

const Value* Dict::find(std::string_view key) const { return find(Value::borrowed(key)); }

bool truth(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return value.as_bool();
    case Kind::kInt:
      return value.as_int() != 0;
    case Kind::kFloat:
      return value.as_float() != 0;
    case Kind::kText:
      return !value.as_text().empty();
    case Kind::kSequence:
      return value.sequence().type == SequenceType::kIterator || !value.sequence().items.empty();
    case Kind::kDict:
      return !value.dict().entries.empty();
    case Kind::kLoop:
    case Kind::kNamespace:
    case Kind::kMacro:
    case Kind::kMethod:
    case Kind::kFunction:
      return true;
  }
  return true;
}

int compare_numbers(const Value& a, const Value& b, bool& ordered) {
  ordered = true;
  if (!a.is(Kind::kFloat) && !b.is(Kind::kFloat)) {
    return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int() ? 1 : 0;
  }
  // A long double of 64 mantissa bits holds every integer of ours and every double exactly.
  const auto widen = [](const Value& v) {
    return v.is(Kind::kFloat) ? static_cast<long double>(v.as_float()) : static_cast<long double>(v.as_int());
  };
  const long double x = widen(a), y = widen(b);
  if (std::isnan(x) || std::isnan(y)) {
    ordered = false;
    return 1;
  }
  return x < y ? -1 : x > y ? 1 : 0;
}

bool equals(Budget& budget, const Value& a, const Value& b) {
  budget.step();
  if (a.is_number() && b.is_number()) {
    bool ordered = false;
    return compare_numbers(a, b, ordered) == 0 && ordered;
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kText:
      budget.step_bytes(std::min(a.as_text().size(), b.as_text().size()));
      return a.as_text() == b.as_text();
    case Kind::kSequence:
      if (&a.sequence() == &b.sequence()) return true;
      return comparable_types(a.sequence().type, b.sequence().type) &&
             sequences_equal(budget, a.sequence(), b.sequence());
    case Kind::kDict:
      return &a.dict() == &b.dict() || dicts_equal(budget, a.dict(), b.dict());
    case Kind::kNamespace:
      return &a.space() == &b.space();
    case Kind::kMacro:
      return &a.macro() == &b.macro();
    case Kind::kLoop:
      return &a.loop() == &b.loop();
    case Kind::kFunction:
      return a.function_id() == b.function_id();
    default:
      return false;
  }
}

bool less(Budget& budget, const Value& a, const Value& b) {
  budget.step();
  if (a.is_number() && b.is_number()) {
    bool ordered = false;
    return compare_numbers(a, b, ordered) < 0 && ordered;
  }
  if (a.is_text() && b.is_text()) {
    budget.step_bytes(std::min(a.as_text().size(), b.as_text().size()));
    return a.as_text() < b.as_text();  // byte order of UTF-8 is code point order
  }
  if (a.is(Kind::kSequence) && b.is(Kind::kSequence) && a.sequence().type == b.sequence().type &&
      (a.is_sequence(SequenceType::kList) || a.is_sequence(SequenceType::kTuple))) {
    const auto& x = a.sequence().items;
    const auto& y = b.sequence().items;
    for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
      if (!equals(budget, x[i], y[i])) return less(budget, x[i], y[i]);
    }
    return x.size() < y.size();
  }
  fail("cannot order " + type_name(a) + " and " + type_name(b));
}

bool hashable(const Value& value) {
  if (value.is(Kind::kDict)) return false;
  if (!value.is(Kind::kSequence)) return true;
  if (value.is_sequence(SequenceType::kList)) return false;
  if (value.is_sequence(SequenceType::kTuple)) {
    for (const Value& item : value.sequence().items) {
      if (!hashable(item)) return false;
    }
  }
  return true;
}

uint64_t hash(const Value& value) {
  if (!hashable(value)) fail("unhashable type: '" + type_name(value) + "'");
  switch (value.kind()) {
    case Kind::kText:
      return fnv1a_64(value.as_text().data(), value.as_text().size());
    case Kind::kFloat: {
      const double real = value.as_float();
      if (real == std::floor(real) && std::fabs(real) < 0x1p63)
        return static_cast<uint64_t>(static_cast<int64_t>(real));
      uint64_t bits;
      std::memcpy(&bits, &real, sizeof bits);
      return bits;
    }
    case Kind::kBool:
    case Kind::kInt:
      return static_cast<uint64_t>(value.as_int());
    case Kind::kSequence: {
      uint64_t result = 0x9E3779B97F4A7C15ull;
      for (const Value& item : value.sequence().items) result = (result ^ hash(item)) * 0x100000001b3ull;
      return result;
    }
    default:
      return static_cast<uint64_t>(value.kind());
  }
}

std::string type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kText:
      return "str";
    case Kind::kDict:
      return "dict";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kMacro:
      return "Macro";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kMethod:
    case Kind::kFunction:
      return "function";
    case Kind::kSequence:
      break;
  }
  switch (value.sequence().type) {
    case SequenceType::kList:
      return "list";
    case SequenceType::kTuple:
      return "tuple";
    case SequenceType::kRange:
      return "range";
    case SequenceType::kItems:
      return "dict_items";
    case SequenceType::kKeys:
      return "dict_keys";
    case SequenceType::kValues:
      return "dict_values";
    case SequenceType::kIterator:
      return "generator";
  }
  return "object";
}

}  // namespace boreas::jinja
