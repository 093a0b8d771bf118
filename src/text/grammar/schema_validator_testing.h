// For tests: does a JSON value satisfy a JSON Schema? Written from the specification, straight and slow, and without a
// line in common with the compiler, so that the two can disagree. oneOf is judged like anyOf, format is not looked at.
#pragma once

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"

namespace boreas::grammar {

class SchemaValidator {
 public:
  explicit SchemaValidator(const boost::json::value& document) : document_(document) {}
  bool valid(const boost::json::value& value) const { return valid(document_, value); }

 private:
  using Value = boost::json::value;
  using Object = boost::json::object;

  bool valid(const Value& schema, const Value& value) const {
    if (schema.is_bool()) return schema.get_bool();
    // Asked while it is being answered: that alone makes nothing valid.
    const std::pair<const Value*, const Value*> question(&schema, &value);
    if (std::find(open_.begin(), open_.end(), question) != open_.end()) return false;
    open_.push_back(question);
    const Object& object = schema.as_object();
    const bool answer = types(object, value) && listed(object, value) && combined(object, value) &&
                        number(object, value) && text(object, value) && array(object, value) && members(object, value);
    open_.pop_back();
    return answer;
  }

  static bool is_integer(const Value& value) {
    return value.is_int64() || value.is_uint64() ||
           (value.is_double() && value.get_double() == std::floor(value.get_double()));
  }
  static bool is_type(const Value& name, const Value& value) {
    const std::string_view type = name.as_string();
    return (type == "null" && value.is_null()) || (type == "boolean" && value.is_bool()) ||
           (type == "integer" && is_integer(value)) || (type == "number" && value.is_number()) ||
           (type == "string" && value.is_string()) || (type == "array" && value.is_array()) ||
           (type == "object" && value.is_object());
  }
  static bool types(const Object& schema, const Value& value) {
    const Value* type = schema.if_contains("type");
    if (type == nullptr || type->is_string()) return type == nullptr || is_type(*type, value);
    const auto& list = type->as_array();
    return std::any_of(list.begin(), list.end(), [&](const Value& name) { return is_type(name, value); });
  }
  static bool equal(const Value& a, const Value& b) {
    return a.is_number() && b.is_number() ? a.to_number<double>() == b.to_number<double>() : a == b;
  }
  static bool listed(const Object& schema, const Value& value) {
    if (const Value* wanted = schema.if_contains("const"); wanted && !equal(*wanted, value)) return false;
    const Value* values = schema.if_contains("enum");
    if (values == nullptr) return true;
    const auto& list = values->as_array();
    return std::any_of(list.begin(), list.end(), [&](const Value& each) { return equal(each, value); });
  }
  bool combined(const Object& schema, const Value& value) const {
    if (const Value* reference = schema.if_contains("$ref")) {
      const std::string pointer(std::string_view(reference->as_string()).substr(1));
      if (!valid(document_.at_pointer(pointer), value)) return false;
    }
    for (const char* name : {"anyOf", "oneOf", "allOf"}) {
      const Value* list = schema.if_contains(name);
      if (list == nullptr) continue;
      const auto holds = [&](const Value& each) { return valid(each, value); };
      const auto& all = list->as_array();
      const bool every = std::string_view(name) == "allOf";
      if (every ? !std::all_of(all.begin(), all.end(), holds) : !std::any_of(all.begin(), all.end(), holds))
        return false;
    }
    return true;
  }
  static bool within(const Object& schema, const char* low, const char* high, double value) {
    const Value* least = schema.if_contains(low);
    const Value* most = schema.if_contains(high);
    return !(least && value < least->to_number<double>()) && !(most && value > most->to_number<double>());
  }
  static bool number(const Object& schema, const Value& value) {
    if (!value.is_number()) return true;
    const double number = value.to_number<double>();
    if (!within(schema, "minimum", "maximum", number)) return false;
    const Value* above = schema.if_contains("exclusiveMinimum");
    const Value* below = schema.if_contains("exclusiveMaximum");
    return !(above && number <= above->to_number<double>()) && !(below && number >= below->to_number<double>());
  }
  static bool text(const Object& schema, const Value& value) {
    if (!value.is_string()) return true;
    const std::string text(value.get_string());
    const auto characters = std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
    if (!within(schema, "minLength", "maxLength", static_cast<double>(characters))) return false;
    const Value* pattern = schema.if_contains("pattern");
    return pattern == nullptr || std::regex_search(text, std::regex(std::string(pattern->as_string())));
  }
  bool array(const Object& schema, const Value& value) const {
    if (!value.is_array()) return true;
    const auto& items = value.get_array();
    if (!within(schema, "minItems", "maxItems", static_cast<double>(items.size()))) return false;
    const Value* prefix = schema.if_contains("prefixItems");
    const size_t fixed = prefix ? prefix->as_array().size() : 0;
    const Value* rest = schema.if_contains("items");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i < fixed && !valid(prefix->as_array()[i], items[i])) return false;
      if (i >= fixed && rest && !valid(*rest, items[i])) return false;
    }
    return true;
  }
  bool members(const Object& schema, const Value& value) const {
    if (!value.is_object()) return true;
    const Object& object = value.get_object();
    if (const Value* required = schema.if_contains("required")) {
      for (const Value& name : required->as_array()) {
        if (!object.contains(name.as_string())) return false;
      }
    }
    const Value* properties = schema.if_contains("properties");
    const Value* additional = schema.if_contains("additionalProperties");
    const Value* names = schema.if_contains("propertyNames");
    for (const auto& entry : object) {
      const Value* known = properties ? properties->as_object().if_contains(entry.key()) : nullptr;
      if (known && !valid(*known, entry.value())) return false;
      if (!known && additional && !valid(*additional, entry.value())) return false;
      if (names && !valid(*names, Value(entry.key()))) return false;
    }
    return true;
  }

  const Value& document_;
  mutable std::vector<std::pair<const Value*, const Value*>> open_;
};

}  // namespace boreas::grammar
