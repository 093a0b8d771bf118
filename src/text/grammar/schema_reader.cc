#include "text/grammar/schema_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace boreas::grammar {

namespace json = boost::json;

namespace {

std::string_view text_of(const json::value& value) { return {value.get_string().data(), value.get_string().size()}; }
std::string_view text_of(const json::string_view& text) { return {text.data(), text.size()}; }

constexpr std::pair<std::string_view, uint32_t> kTypeNames[] = {
    {"null", Shape::kNull},
    {"boolean", Shape::kBoolean},
    {"integer", Shape::kInteger},
    {"string", Shape::kString},
    {"array", Shape::kArray},
    {"object", Shape::kObject},
    {"number", Shape::kInteger | Shape::kFraction},
};

constexpr char kSupported[] =
    "supported are type, properties, required, additionalProperties, propertyNames, items, prefixItems, minItems, "
    "maxItems, enum, const, anyOf, oneOf, allOf, $ref within the schema, minLength, maxLength, pattern, format, "
    "minimum, "
    "maximum, exclusiveMinimum and exclusiveMaximum";

// "~1" is "/" in a pointer's token, "~0" is "~", and "%41" is "A" because a pointer is part of a URI.
std::string decoded(std::string_view token) {
  std::string out;
  for (size_t i = 0; i < token.size(); ++i) {
    int byte = 0;
    if (token[i] == '%' && i + 2 < token.size() &&
        std::from_chars(token.data() + i + 1, token.data() + i + 3, byte, 16).ptr == token.data() + i + 3) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += token[i];
    }
  }
  std::string plain;
  for (size_t i = 0; i < out.size(); ++i) {
    const bool escape = out[i] == '~' && i + 1 < out.size() && (out[i + 1] == '0' || out[i + 1] == '1');
    plain += escape ? (out[++i] == '0' ? '~' : '/') : out[i];
  }
  return plain;
}

}  // namespace

std::string pointer_text(const Path* path) {
  std::vector<const Path*> up;
  for (; path != nullptr; path = path->parent) up.push_back(path);
  std::string out = "#";
  for (size_t i = up.size(); i-- > 0;) {
    out += '/';
    for (const char c : up[i]->token) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  }
  return out;
}

struct SchemaReader::Keyword {
  std::string_view name;
  Handler read;
  uint32_t hinted_types;
};

// Keywords that stand alone. Those that need each other are read by read_bounds, read_array, read_object.
const SchemaReader::Keyword SchemaReader::kKeywords[] = {
    {"type", &SchemaReader::read_type, 0},
    {"enum", &SchemaReader::read_values, 0},
    {"const", &SchemaReader::read_const, 0},
    {"minLength", &SchemaReader::read_length, Shape::kString},
    {"maxLength", &SchemaReader::read_length, Shape::kString},
    {"pattern", &SchemaReader::read_pattern, Shape::kString},
    {"format", &SchemaReader::read_format, 0},
    {"minItems", &SchemaReader::read_items_count, Shape::kArray},
    {"maxItems", &SchemaReader::read_items_count, Shape::kArray},
    {"required", &SchemaReader::read_required, Shape::kObject},
    {"propertyNames", &SchemaReader::read_names, Shape::kObject},
    {"not", &SchemaReader::refuse, 0},
    {"if", &SchemaReader::refuse, 0},
    {"then", &SchemaReader::refuse, 0},
    {"else", &SchemaReader::refuse, 0},
    {"multipleOf", &SchemaReader::refuse, 0},
    {"uniqueItems", &SchemaReader::refuse, Shape::kArray},
    {"contains", &SchemaReader::refuse, Shape::kArray},
    {"minContains", &SchemaReader::refuse, Shape::kArray},
    {"maxContains", &SchemaReader::refuse, Shape::kArray},
    {"unevaluatedItems", &SchemaReader::refuse, Shape::kArray},
    {"patternProperties", &SchemaReader::refuse, Shape::kObject},
    {"minProperties", &SchemaReader::refuse, Shape::kObject},
    {"maxProperties", &SchemaReader::refuse, Shape::kObject},
    {"dependencies", &SchemaReader::refuse, Shape::kObject},
    {"dependentRequired", &SchemaReader::refuse, Shape::kObject},
    {"dependentSchemas", &SchemaReader::refuse, Shape::kObject},
    {"$dynamicRef", &SchemaReader::refuse, 0},
    {"$recursiveRef", &SchemaReader::refuse, 0},
};

Status SchemaReader::check_size(const json::value& document) const {
  struct Open {
    const json::value* value;
    size_t depth;
  };
  std::vector<Open> open = {{&document, 1}};
  size_t values = 0;
  size_t text_bytes = 0;
  while (!open.empty()) {
    const Open at = open.back();
    open.pop_back();
    if (at.depth > kDepthMax) return Error{"it is nested more than " + std::to_string(kDepthMax) + " deep"};
    if (++values > kValuesMax) return Error{"it has more than " + std::to_string(kValuesMax) + " values"};
    if (const json::array* items = at.value->if_array()) {
      for (const json::value& item : *items) open.push_back({&item, at.depth + 1});
    } else if (const json::object* members = at.value->if_object()) {
      for (const auto& entry : *members) {
        text_bytes += entry.key().size();
        open.push_back({&entry.value(), at.depth + 1});
      }
    } else if (const json::string* text = at.value->if_string()) {
      text_bytes += text->size();
    }
    if (text_bytes > kTextBytesMax)
      return Error{"it has more than " + std::to_string(kTextBytesMax) + " bytes of text"};
  }
  return Ok{};
}

void SchemaReader::fail(const Path* path, const std::string& what) {
  if (!error_) error_ = Error{"at '" + pointer_text(path) + "': " + what};
}

const Path* SchemaReader::below(const Path* path, std::string_view token) {
  budget_.step(64);  // about 64 bytes
  paths_.push_back({path, std::string(token)});
  return &paths_.back();
}

SchemaReader::Outcome SchemaReader::add(Shape& shape, const Place& place, const Shape::Owners& owners) {
  if (!budget_.step(16)) fail(place.path, "the schema is too complex");
  if (error_) return Outcome::kFailed;
  if (std::find(owners.begin(), owners.end(), place.value) != owners.end()) return Outcome::kCircular;
  if (std::find(shape.seen.begin(), shape.seen.end(), place.value) != shape.seen.end()) return Outcome::kAdded;
  budget_.step(static_cast<int64_t>(shape.seen.size() + owners.size()));
  shape.seen.push_back(place.value);
  if (const bool* allowed = place.value->if_bool()) {
    shape.impossible = shape.impossible || !*allowed;
    return Outcome::kAdded;
  }
  if (!place.value->is_object()) {
    fail(place.path, "a schema must be an object, true or false");
    return Outcome::kFailed;
  }
  Shape::Owners inner = owners;
  inner.push_back(place.value);
  const Outcome outcome = add_members(shape, place, inner);
  return error_ ? Outcome::kFailed : outcome;
}

SchemaReader::Outcome SchemaReader::add_members(Shape& shape, const Place& place, const Shape::Owners& owners) {
  const json::object& schema = place.value->get_object();
  budget_.step(static_cast<int64_t>(schema.size()));
  for (const Keyword& keyword : kKeywords) {
    const json::value* value = schema.if_contains(keyword.name);
    if (value == nullptr || error_) continue;
    shape.hinted_types |= keyword.hinted_types;
    (this->*keyword.read)(shape, {value, place.document, below(place.path, keyword.name)});
  }
  read_bounds(shape, place);
  read_array(shape, place);
  read_object(shape, place);
  for (const std::string_view name : {"anyOf", "oneOf"}) {
    if (const auto at = member(place, name)) read_group(shape, *at, owners);
  }
  if (const json::value* nullable = schema.if_contains("nullable"); nullable && *nullable == true) {
    if (shape.typed) shape.types |= Shape::kNull;
  }
  if (const auto at = member(place, "$ref")) {
    const std::optional<Place> target = resolve(*at);
    if (!target) return Outcome::kFailed;
    if (const Outcome outcome = add(shape, *target, owners); outcome != Outcome::kAdded) return outcome;
  }
  if (const auto at = member(place, "allOf")) {
    const json::array* all = at->value->if_array();
    if (all == nullptr) fail(at->path, "must be an array of schemas");
    for (size_t i = 0; all != nullptr && i < all->size(); ++i) {
      const Place item{&(*all)[i], at->document, below(at->path, std::to_string(i))};
      if (const Outcome outcome = add(shape, item, owners); outcome != Outcome::kAdded) return outcome;
    }
  }
  return Outcome::kAdded;
}

std::optional<Place> SchemaReader::member(const Place& place, std::string_view key) {
  const json::value* value = place.value->get_object().if_contains(key);
  if (value == nullptr) return std::nullopt;
  return Place{value, place.document, below(place.path, key)};
}

void SchemaReader::read_group(Shape& shape, const Place& at, const Shape::Owners& owners) {
  const json::array* alternatives = at.value->if_array();
  if (alternatives == nullptr || alternatives->empty()) return fail(at.path, "must be an array of schemas, not empty");
  Shape::Group group;
  group.owners = owners;
  for (size_t i = 0; i < alternatives->size(); ++i) {
    group.alternatives.push_back({&(*alternatives)[i], at.document, below(at.path, std::to_string(i))});
  }
  shape.groups.push_back(std::move(group));
}

// A reference within the document: "#" and a JSON pointer.
std::optional<Place> SchemaReader::resolve(const Place& at) {
  if (!at.value->is_string()) {
    fail(at.path, "must be a string");
    return std::nullopt;
  }
  std::string_view rest = text_of(*at.value);
  const auto refuse_it = [&](const std::string& what) {
    fail(at.path, what);
    return std::nullopt;
  };
  if (rest.empty() || rest.front() != '#' || (rest.size() > 1 && rest[1] != '/')) {
    return refuse_it("only references within the schema are supported, such as #/$defs/name");
  }
  rest.remove_prefix(1);
  Place place{at.document, at.document, nullptr};
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const size_t end = std::min(rest.find('/'), rest.size());
    const std::string token = decoded(rest.substr(0, end));
    rest.remove_prefix(end);
    const json::value* next = nullptr;
    if (const json::object* object = place.value->if_object()) next = object->if_contains(token);
    if (const json::array* array = place.value->if_array()) {
      size_t index = 0;
      const auto parsed = std::from_chars(token.data(), token.data() + token.size(), index);
      const bool whole = parsed.ec == std::errc() && parsed.ptr == token.data() + token.size();
      if (whole && index < array->size()) next = &(*array)[index];
    }
    if (next == nullptr) return refuse_it("the reference leads nowhere");
    place = {next, at.document, below(place.path, token)};
  }
  return place;
}

void SchemaReader::read_type(Shape& shape, const Place& at) {
  uint32_t types = 0;
  const auto add_type = [&](const json::value& name) {
    const auto* found = std::find_if(std::begin(kTypeNames), std::end(kTypeNames), [&](const auto& entry) {
      return name.is_string() && text_of(name) == entry.first;
    });
    if (found == std::end(kTypeNames)) {
      return fail(at.path, "must be null, boolean, integer, number, string, array or object, or several of them");
    }
    types |= found->second;
  };
  if (const json::array* names = at.value->if_array()) {
    for (const json::value& name : *names) add_type(name);
  } else {
    add_type(*at.value);
  }
  shape.types &= types;
  shape.typed = true;
}

void SchemaReader::keep_values(Shape& shape, const std::vector<const json::value*>& values) {
  if (!shape.values) {
    shape.values = values;
    return;
  }
  budget_.step(static_cast<int64_t>(shape.values->size() * values.size()));
  const auto missing = [&](const json::value* kept) {
    return !budget_.exhausted() &&
           std::none_of(values.begin(), values.end(), [&](const json::value* value) { return *value == *kept; });
  };
  shape.values->erase(std::remove_if(shape.values->begin(), shape.values->end(), missing), shape.values->end());
}

void SchemaReader::read_values(Shape& shape, const Place& at) {
  const json::array* values = at.value->if_array();
  if (values == nullptr || values->empty()) return fail(at.path, "must be an array of values, not empty");
  std::vector<const json::value*> list;
  for (const json::value& value : *values) list.push_back(&value);
  keep_values(shape, list);
}

void SchemaReader::read_const(Shape& shape, const Place& at) { keep_values(shape, {at.value}); }

void SchemaReader::add_bound(Shape& shape, const json::value& value, const Path* path, bool is_low, bool exclusive) {
  DecimalBound bound;
  bound.exclusive = exclusive;
  if (const int64_t* whole = value.if_int64()) {
    bound.value = decimal_of(*whole);
  } else if (const uint64_t* large = value.if_uint64()) {
    bound.value = decimal_of(*large);
  } else if (const double* number = value.if_double()) {
    bound.value = decimal_of(*number);
  } else {
    return fail(path, "must be a number");
  }
  std::optional<DecimalBound>& kept = is_low ? shape.number.low : shape.number.high;
  const bool tighter = !kept || (is_low ? less(kept->value, bound.value) : less(bound.value, kept->value));
  const bool equal = kept && !less(kept->value, bound.value) && !less(bound.value, kept->value);
  if (tighter) kept = bound;
  if (equal) kept->exclusive = kept->exclusive || exclusive;
}

// minimum and exclusiveMinimum, which in draft 4 is a flag of the former; the same for maximum.
void SchemaReader::read_bounds(Shape& shape, const Place& schema) {
  for (const bool is_low : {true, false}) {
    const auto inclusive = member(schema, is_low ? "minimum" : "maximum");
    const auto exclusive = member(schema, is_low ? "exclusiveMinimum" : "exclusiveMaximum");
    if (inclusive || exclusive) shape.hinted_types |= Shape::kInteger | Shape::kFraction;
    const bool flag = exclusive && exclusive->value->is_bool();
    if (inclusive) add_bound(shape, *inclusive->value, inclusive->path, is_low, flag && exclusive->value->get_bool());
    if (exclusive && !flag) add_bound(shape, *exclusive->value, exclusive->path, is_low, true);
  }
}

// A whole number that is not negative; large ones mean: no limit.
std::optional<uint32_t> SchemaReader::count(const Place& at) {
  double number = -1;
  if (at.value->is_number()) number = at.value->to_number<double>();
  if (number < 0 || number != std::floor(number)) {
    fail(at.path, "must be a whole number, not negative");
    return std::nullopt;
  }
  return number < kCountMax ? static_cast<uint32_t>(number) : kCountFree;
}

namespace {

void narrow(uint32_t& low, uint32_t& high, std::optional<uint32_t> value, bool is_low) {
  if (value && is_low) low = std::max(low, *value);
  if (value && !is_low) high = std::min(high, *value);
}

}  // namespace

void SchemaReader::read_length(Shape& shape, const Place& at) {
  narrow(shape.length_min, shape.length_max, count(at), at.path->token == "minLength");
}

void SchemaReader::read_items_count(Shape& shape, const Place& at) {
  narrow(shape.items_min, shape.items_max, count(at), at.path->token == "minItems");
}

void SchemaReader::read_pattern(Shape& shape, const Place& at) {
  if (!at.value->is_string()) return fail(at.path, "must be a string");
  shape.patterns.push_back(at);
}

void SchemaReader::read_format(Shape& shape, const Place& at) {
  if (!at.value->is_string()) return fail(at.path, "must be a string");
  if (format_regex(text_of(*at.value))) shape.formats.push_back(text_of(*at.value));
}

void SchemaReader::read_names(Shape& shape, const Place& at) { shape.names.push_back(at); }

void SchemaReader::read_required(Shape& shape, const Place& at) {
  const json::array* names = at.value->if_array();
  if (at.value->is_bool()) return;  // draft 3
  if (names == nullptr) return fail(at.path, "must be an array of names");
  for (const json::value& name : *names) {
    if (!name.is_string()) return fail(at.path, "must be an array of names");
    shape.required.push_back(text_of(name));
  }
}

void SchemaReader::read_array(Shape& shape, const Place& schema) {
  Shape::ArrayPart part;
  std::optional<Place> prefix = member(schema, "prefixItems");
  std::optional<Place> items = member(schema, "items");
  if (!prefix && items && items->value->is_array()) {  // before draft 2020-12
    prefix = items;
    items = member(schema, "additionalItems");
  }
  if (!prefix && !items) return;
  shape.hinted_types |= Shape::kArray;
  if (prefix) {
    const json::array* list = prefix->value->if_array();
    if (list == nullptr) return fail(prefix->path, "must be an array of schemas");
    for (size_t i = 0; i < list->size(); ++i) {
      part.prefix.push_back({&(*list)[i], prefix->document, below(prefix->path, std::to_string(i))});
    }
  }
  part.items = items;
  shape.array_parts.push_back(std::move(part));
}

void SchemaReader::read_object(Shape& shape, const Place& schema) {
  const std::optional<Place> properties = member(schema, "properties");
  const std::optional<Place> additional = member(schema, "additionalProperties");
  const std::optional<Place> unevaluated = member(schema, "unevaluatedProperties");
  if (unevaluated && !unevaluated->value->is_bool()) refuse(shape, *unevaluated);
  if (!properties && !additional && !unevaluated) return;
  shape.hinted_types |= Shape::kObject;
  Shape::ObjectPart part;
  part.closed = unevaluated && *unevaluated->value == false;
  part.additional = additional;
  part.declares = properties.has_value();
  if (properties) {
    const json::object* members = properties->value->if_object();
    if (members == nullptr) return fail(properties->path, "must be an object");
    for (const auto& entry : *members) {
      const std::string_view name = text_of(entry.key());
      part.properties.emplace_back(name, Place{&entry.value(), properties->document, below(properties->path, name)});
    }
  }
  shape.object_parts.push_back(std::move(part));
}

// Values with which a keyword asks for nothing.
bool SchemaReader::is_unused(std::string_view keyword, const json::value& value) const {
  if (keyword == "uniqueItems") return value == false;
  if (keyword == "minProperties" || keyword == "minContains") return value == 0;
  if (keyword == "patternProperties" || keyword == "dependentRequired" || keyword == "dependencies" ||
      keyword == "dependentSchemas") {
    return value.is_object() && value.get_object().empty();
  }
  if (keyword == "unevaluatedItems" || keyword == "contains") return value == true;
  return keyword == "multipleOf" && value == 1;
}

void SchemaReader::refuse(Shape& shape, const Place& at) {
  const std::string& keyword = at.path->token;
  if (is_unused(keyword, *at.value)) {
    if (keyword == "multipleOf") shape.types &= ~uint32_t{Shape::kFraction};
    return;
  }
  if (options_.ignore_unsupported) {
    ignored_.push_back(pointer_text(at.path));
    return;
  }
  fail(at.path, "'" + keyword + "' is not supported; " + kSupported);
}

}  // namespace boreas::grammar
