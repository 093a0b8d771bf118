// Value: what a Jinja expression evaluates to, with Python's semantics where they show. Scalars are held in place;
// text, sequences and dicts are reference-counted, immutable once shared, and charged to the render's Budget;
// namespaces and macros belong to the renderer, so no cycle can leak. A Value is used by one thread; constants of a
// parsed template are borrowed text without an owner, so copying them touches no counter.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "text/jinja/budget.h"

namespace boreas::jinja {

__extension__ typedef __int128 Int128;

// Integers are exact in [-2^63, 2^64): what 64-bit JSON numbers can hold. Python's are unbounded; beyond this range we
// raise.
inline constexpr Int128 kIntMin = -(static_cast<Int128>(1) << 63);
inline constexpr Int128 kIntMax = (static_cast<Int128>(1) << 64) - 1;
// Containers inside containers: bounds every recursion over values (printing, comparing, destroying).
inline constexpr int kValueDepthMax = 200;

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kText,
  kSequence,
  kDict,
  kNamespace,
  kMacro,
  kLoop,
  kMethod,
  kFunction
};
enum class SequenceType : uint8_t { kList, kTuple, kRange, kItems, kKeys, kValues, kIterator };

struct Namespace;
struct Macro;
struct LoopState;

// Header of reference-counted objects.
struct Object {
  explicit Object(Budget& owner) : budget(&owner) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() { budget->give(bytes); }
  // Charges `more` bytes on top of what the object holds already.
  void charge(size_t more) {
    budget->take(more);
    bytes += more;
  }

  Budget* budget;
  size_t bytes = 0;
  uint32_t references = 0;
  int depth = 1;  // 1 + the deepest container inside
};

struct TextObject;
struct Sequence;
struct Dict;
struct Method;

class Value {
 public:
  Value() = default;  // undefined
  Value(const Value& other) : kind_(other.kind_), plain_(other.plain_), object_(other.object_) {
    if (object_ != nullptr) ++object_->references;
  }
  Value(Value&& other) noexcept : kind_(other.kind_), plain_(other.plain_), object_(other.object_) {
    other.object_ = nullptr;
  }
  Value& operator=(Value other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(plain_, other.plain_);
    std::swap(object_, other.object_);
    return *this;
  }
  ~Value() {
    if (object_ != nullptr && --object_->references == 0) delete object_;
  }

  // `name` is borrowed: what was looked up, for messages.
  static Value undefined(std::string_view name) { return borrowed_text(Kind::kUndefined, name); }
  static Value none() { return Value(Kind::kNone); }
  static Value boolean(bool value);
  static Value integer(Int128 value);  // raises outside [kIntMin, kIntMax]
  static Value real(double value);
  // Borrowed text must outlive the render.
  static Value borrowed(std::string_view text) { return borrowed_text(Kind::kText, text); }
  static Value text(Budget& budget, std::string text);
  static Value of(Sequence* sequence);
  static Value of(Dict* dict);
  static Value of(Method* method);
  static Value of(Namespace* space);
  static Value of(Macro* macro);
  static Value of(LoopState* loop);
  static Value function(int id);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_text() const { return kind_ == Kind::kText; }
  bool is_number() const { return kind_ == Kind::kBool || kind_ == Kind::kInt || kind_ == Kind::kFloat; }
  bool is_index() const { return kind_ == Kind::kBool || kind_ == Kind::kInt; }  // what Python takes as an index
  bool is_sequence(SequenceType type) const;

  bool as_bool() const { return plain_.boolean; }
  Int128 as_int() const { return kind_ == Kind::kBool ? Int128{plain_.boolean} : plain_.integer; }
  double as_float() const { return kind_ == Kind::kFloat ? plain_.real : static_cast<double>(as_int()); }
  std::string_view as_text() const {
    return {plain_.text.data, plain_.text.size};
  }  // also the name of an undefined value
  Sequence& sequence() const;
  Dict& dict() const;
  Method& method() const;
  Namespace& space() const { return *static_cast<Namespace*>(plain_.pointer); }
  Macro& macro() const { return *static_cast<Macro*>(plain_.pointer); }
  LoopState& loop() const;
  int function_id() const { return static_cast<int>(plain_.integer); }

  // Appends to this text, in place when nobody else sees it; the value must be text.
  void append(Budget& budget, std::string_view more);
  // Depth of containers: 0 for scalars and text.
  int depth() const { return object_ == nullptr || kind_ == Kind::kText ? 0 : object_->depth; }

 private:
  union Plain {
    bool boolean;
    Int128 integer = 0;
    double real;
    void* pointer;
    struct {
      const char* data;
      size_t size;
    } text;
  };

  explicit Value(Kind kind) : kind_(kind) {}
  Value(Kind kind, Object* object) : kind_(kind), object_(object) { ++object_->references; }
  static Value borrowed_text(Kind kind, std::string_view text);

  Kind kind_ = Kind::kUndefined;
  Plain plain_;
  Object* object_ = nullptr;
};

struct TextObject : Object {
  using Object::Object;
  std::string text;
};

// list, tuple, range, dict views and one-shot iterators: the items are there from the start; the type says what Python
// would allow and print.
struct Sequence : Object {
  Sequence(Budget& owner, SequenceType sequence_type) : Object(owner), type(sequence_type) { charge(sizeof(Sequence)); }
  void add(Value item);  // before the sequence is shared

  SequenceType type;
  bool spent = false;  // an iterator that was walked
  std::vector<Value> items;
  Int128 start = 0, stop = 0, step = 1;  // of a range
};

// Python dict: insertion order, keys of any hashable type.
struct Dict : Object {
  struct Entry {
    Value key, value;
  };
  explicit Dict(Budget& owner) : Object(owner) { charge(sizeof(Dict)); }
  void set(Value key, Value value);           // before the dict is shared
  const Value* find(const Value& key) const;  // raises if the key is unhashable
  const Value* find(std::string_view key) const;

  std::vector<Entry> entries;

 private:
  size_t position(uint64_t hash, const Value& key) const;  // entries.size() if absent
  std::vector<uint64_t> hashes_;                           // beside entries
  std::unordered_multimap<uint64_t, uint32_t> index_;      // filled once there are more than kSmall entries
};

// A method as a value of its own, as in `message.items is defined`.
struct MethodEntry;
struct Method : Object {
  Method(Budget& owner, Value self, const MethodEntry& method)
      : Object(owner), receiver(std::move(self)), entry(&method) {
    charge(sizeof(Method));
  }
  Value receiver;
  const MethodEntry* entry;
};

// namespace(): the one mutable object; owned by the renderer.
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
};

// The `loop` variable of a for. `changed` is emptied when the loop ends, so that no cycle through it survives.
struct LoopState : Object {
  LoopState(Budget& owner, std::vector<Value> values) : Object(owner), items(std::move(values)) {
    charge(sizeof(LoopState) + items.size() * sizeof(Value));
  }
  std::vector<Value> items;
  size_t index0 = 0;
  std::vector<Value> changed;  // the arguments of the last loop.changed()
  bool changed_called = false;
};

// Python's truth, ==, < and hash. less() and hash() raise TypeErrors as Python does.
bool truth(const Value& value);
bool equals(Budget& budget, const Value& a, const Value& b);
bool less(Budget& budget, const Value& a, const Value& b);
int compare_numbers(const Value& a, const Value& b, bool& ordered);  // -1, 0, 1; ordered = false if one is NaN
uint64_t hash(const Value& value);
bool hashable(const Value& value);
// Python's type name, for messages.
std::string type_name(const Value& value);

}  // namespace boreas::jinja
