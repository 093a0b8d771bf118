#include "text/jinja/callable.h"

#include <algorithm>

namespace boreas::jinja {

namespace {

template <class Table>
auto find_in(const Table& table, std::string_view name) -> decltype(table.entries) {
  for (size_t i = 0; i < table.count; ++i) {
    if (table.entries[i].name == name) return &table.entries[i];
  }
  return nullptr;
}

}  // namespace

Arguments Arguments::rest(size_t count) const {
  Arguments result;
  for (size_t i = count; i < positional.size(); ++i) result.positional.push_back(positional[i]);
  result.named = named;
  return result;
}

Bound::Bound(const Arguments& arguments, std::string_view what, std::initializer_list<std::string_view> parameters,
             size_t required)
    : what_(what) {
  CHECK(parameters.size() <= values_.size());
  if (arguments.positional.size() > parameters.size())
    fail(std::string(what) + " takes at most " + std::to_string(parameters.size()) + " arguments");
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& named : arguments.named) {
    const auto* at = std::find(parameters.begin(), parameters.end(), named.first);
    if (at == parameters.end()) fail(std::string(what) + " has no argument '" + std::string(named.first) + "'");
    const Value*& slot = values_[static_cast<size_t>(at - parameters.begin())];
    if (slot != nullptr) fail(std::string(what) + " got two values for '" + std::string(named.first) + "'");
    slot = &named.second;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr)
      fail(std::string(what) + " lacks its argument '" + std::string(parameters.begin()[i]) + "'");
  }
}

Int128 Bound::integer(size_t index, Int128 otherwise) const {
  if (values_[index] == nullptr) return otherwise;
  if (!values_[index]->is_index())
    fail(std::string(what_) + " needs a whole number, not " + type_name(*values_[index]));
  return values_[index]->as_int();
}

std::string_view Bound::text(size_t index) const {
  if (!values_[index]->is_text()) fail(std::string(what_) + " needs a str, not " + type_name(*values_[index]));
  return values_[index]->as_text();
}

const FilterEntry* find_filter(std::string_view name) {
  for (const FilterTable& table : {text_filters(), number_filters(), sequence_filters(), selecting_filters()}) {
    if (const FilterEntry* entry = find_in(table, name)) return entry;
  }
  return nullptr;
}

const MethodEntry* find_method(const Value& receiver, std::string_view name) {
  switch (receiver.kind()) {
    case Kind::kText:
      return find_in(text_methods(), name);
    case Kind::kDict:
      return find_in(dict_methods(), name);
    case Kind::kLoop:
      return find_in(loop_methods(), name);
    case Kind::kSequence:
      if (receiver.is_sequence(SequenceType::kList) || receiver.is_sequence(SequenceType::kTuple))
        return find_in(sequence_methods(), name);
      return receiver.is_sequence(SequenceType::kRange) ? find_in(range_methods(), name) : nullptr;
    default:
      return nullptr;
  }
}

bool is_method_name(std::string_view name) {
  for (const MethodTable& table : {text_methods(), dict_methods(), loop_methods(), sequence_methods()}) {
    if (find_in(table, name) != nullptr) return true;
  }
  return false;
}

bool is_unsupported_method(std::string_view name) {
  static constexpr std::string_view kNames[] = {"casefold", "encode",    "expandtabs",   "format",    "format_map",
                                                "isascii",  "isdecimal", "isidentifier", "isnumeric", "isprintable",
                                                "istitle",  "maketrans", "translate"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

}  // namespace boreas::jinja
