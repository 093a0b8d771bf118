// What templates can call: filters, tests, methods and their arguments. The tables are fixed at compile time; the
// parser resolves names against them, so an unknown filter or test is a load error. All functions here raise Faults.
#pragma once

#include <array>
#include <boost/container/small_vector.hpp>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "text/jinja/value.h"

namespace boreas::jinja {

struct Arguments {
  boost::container::small_vector<Value, 4> positional;
  boost::container::small_vector<std::pair<std::string_view, Value>, 2> named;

  bool empty() const { return positional.empty() && named.empty(); }
  // Without the first `count` positional ones: what map('filter', ...) hands on.
  Arguments rest(size_t count) const;
};

// Arguments matched to parameter names as Python does it: too many, unknown, doubled or missing ones raise, with `what`
// in the message.
class Bound {
 public:
  Bound(const Arguments& arguments, std::string_view what, std::initializer_list<std::string_view> parameters,
        size_t required = 0);
  const Value* operator[](size_t index) const { return values_[index]; }  // null = not given

  bool flag(size_t index, bool otherwise) const {
    return values_[index] == nullptr ? otherwise : truth(*values_[index]);
  }
  Int128 integer(size_t index, Int128 otherwise) const;  // raises unless int or bool
  bool given(size_t index) const {
    return values_[index] != nullptr && !values_[index]->is_none();
  }                                           // neither missing nor None
  std::string_view text(size_t index) const;  // raises unless str

 private:
  std::string_view what_;
  std::array<const Value*, 6> values_{};
};

struct FilterEntry {
  std::string_view name;
  Value (*run)(Budget&, const Value& input, const Arguments&);
};
struct TestEntry {
  std::string_view name;
  bool (*run)(Budget&, const Value& input, const Arguments&);
};
// run == nullptr: Python has the method but the sandbox forbids it (it changes the object), so using it raises.
struct MethodEntry {
  std::string_view name;
  Value (*run)(Budget&, const Value& self, const Arguments&);
};

const FilterEntry* find_filter(std::string_view name);  // null = unknown
const TestEntry* find_test(std::string_view name);
const MethodEntry* find_method(const Value& receiver, std::string_view name);
// Is it a method name of any type (so that attribute access has to look)?
bool is_method_name(std::string_view name);
// Methods Python's str, list or dict have and this engine lacks: calling one is a load error.
bool is_unsupported_method(std::string_view name);

// The tables; private to the files that fill them and to callable.cc.
struct MethodTable {
  const MethodEntry* entries;
  size_t count;
};
MethodTable text_methods();
MethodTable sequence_methods();
MethodTable range_methods();
MethodTable dict_methods();
MethodTable loop_methods();
struct FilterTable {
  const FilterEntry* entries;
  size_t count;
};
FilterTable text_filters();
FilterTable number_filters();
FilterTable sequence_filters();
FilterTable selecting_filters();

}  // namespace boreas::jinja
