// The part of SchemaCompiler that judges values which a schema names (enum, const): do they satisfy its other keywords?
#include <algorithm>

#include "text/grammar/schema_compiler.h"

namespace boreas::grammar {

namespace json = boost::json;

namespace {

Decimal decimal_of_value(const json::value& value) {
  if (const int64_t* whole = value.if_int64()) return decimal_of(*whole);
  if (const uint64_t* large = value.if_uint64()) return decimal_of(*large);
  return decimal_of(value.get_double());
}

uint32_t type_of(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return Shape::kNull;
    case json::kind::bool_:
      return Shape::kBoolean;
    case json::kind::string:
      return Shape::kString;
    case json::kind::array:
      return Shape::kArray;
    case json::kind::object:
      return Shape::kObject;
    default:
      return decimal_of_value(value).fraction.empty() ? Shape::kInteger : Shape::kFraction;
  }
}

}  // namespace

bool SchemaCompiler::admits_number(const Shape& shape, const json::value& value) const {
  const Decimal number = decimal_of_value(value);
  const auto& low = shape.number.low;
  const auto& high = shape.number.high;
  if (low && (less(number, low->value) || (low->exclusive && !less(low->value, number)))) return false;
  return !(high && (less(high->value, number) || (high->exclusive && !less(number, high->value))));
}

bool SchemaCompiler::admits_text(const Shape& shape, std::string_view text) {
  const auto characters = static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
  if (characters < shape.length_min || characters > shape.length_max) return false;
  if (shape.patterns.empty() && shape.formats.empty()) return true;
  Shape texts;
  texts.patterns = shape.patterns;
  texts.formats = shape.formats;
  const std::optional<Dfa> allowed = content(texts);
  const std::string quoted = JsonGrammar::quoted(text);
  return allowed && allowed->accepts(std::string_view(quoted).substr(1, quoted.size() - 2));
}

bool SchemaCompiler::admits_array(const Shape& shape, const json::array& items) {
  if (items.size() < shape.items_min || items.size() > shape.items_max) return false;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!satisfies(schemas_of_item(shape, i), items[i])) return false;
  }
  return true;
}

bool SchemaCompiler::admits_object(const Shape& shape, const json::object& members) {
  for (const std::string_view name : shape.required) {
    if (!members.contains(name)) return false;
  }
  for (const auto& entry : members) {
    const std::string_view name(entry.key().data(), entry.key().size());
    for (const Shape::ObjectPart& part : shape.object_parts) {
      const bool declared = std::any_of(part.properties.begin(), part.properties.end(),
                                        [&](const auto& property) { return property.first == name; });
      if (part.closed && !declared) return false;
    }
    if (!satisfies(schemas_of_member(shape, name), entry.value())) return false;
    if (!shape.names.empty() && !satisfies(shape.names, json::value(entry.key()))) return false;
  }
  return true;
}

// All keywords of the shape but the list of values itself, and one alternative of each group.
bool SchemaCompiler::admits(Shape shape, const json::value& value) {
  if (shape.impossible || !budget_.step()) return false;
  if (!shape.groups.empty()) {
    const Shape::Group group = std::move(shape.groups.back());
    shape.groups.pop_back();
    return std::any_of(group.alternatives.begin(), group.alternatives.end(), [&](const Place& alternative) {
      Shape chosen = shape;
      return reader_.add(chosen, alternative, group.owners) == SchemaReader::Outcome::kAdded && admits(chosen, value);
    });
  }
  if ((shape.types & type_of(value)) == 0) return false;
  if (value.is_number()) return admits_number(shape, value);
  if (value.is_string()) return admits_text(shape, {value.get_string().data(), value.get_string().size()});
  if (value.is_array()) return admits_array(shape, value.get_array());
  return !value.is_object() || admits_object(shape, value.get_object());
}

bool SchemaCompiler::satisfies(const Places& schemas, const json::value& value) {
  Shape shape;
  if (!fold(schemas, shape)) return false;
  const auto equals = [&](const json::value* listed) { return *listed == value; };
  if (shape.values && std::none_of(shape.values->begin(), shape.values->end(), equals)) return false;
  return admits(std::move(shape), value);
}

}  // namespace boreas::grammar
