#include "text/grammar/schema_compiler.h"

#include <algorithm>
#include <utility>

namespace boreas::grammar {

namespace json = boost::json;

namespace {

constexpr NodeIndex kFail = GrammarBuilder::kFail;
constexpr NodeIndex kReturn = GrammarBuilder::kReturn;

bool contains(const std::vector<std::string_view>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// All names that are listed or required, in order.
std::vector<std::string_view> member_names(const Shape& shape, WorkBudget& budget) {
  std::vector<std::string_view> names;
  std::map<std::string_view, bool> seen;
  const auto add = [&](std::string_view name) {
    budget.step();
    if (seen.emplace(name, true).second) names.push_back(name);
  };
  for (const Shape::ObjectPart& part : shape.object_parts) {
    for (const auto& entry : part.properties) add(entry.first);
  }
  for (const std::string_view name : shape.required) add(name);
  return names;
}

}  // namespace

std::vector<Place> schemas_of_member(const Shape& shape, std::string_view name) {
  std::vector<Place> schemas;
  for (const Shape::ObjectPart& part : shape.object_parts) {
    const auto found = std::find_if(part.properties.begin(), part.properties.end(),
                                    [&](const auto& entry) { return entry.first == name; });
    if (found != part.properties.end()) {
      schemas.push_back(found->second);
    } else if (part.additional) {
      schemas.push_back(*part.additional);
    }
  }
  return schemas;
}

std::vector<Place> schemas_of_item(const Shape& shape, size_t index) {
  std::vector<Place> schemas;
  for (const Shape::ArrayPart& part : shape.array_parts) {
    if (index < part.prefix.size()) {
      schemas.push_back(part.prefix[index]);
    } else if (part.items) {
      schemas.push_back(*part.items);
    }
  }
  return schemas;
}

SchemaCompiler::SchemaCompiler(JsonGrammar& json, SchemaOptions options)
    : json_(json), builder_(json.builder()), budget_(builder_.budget()), reader_(options, budget_) {}

Result<NodeIndex> SchemaCompiler::compile(const json::value& schema, NodeIndex next, const json::value* also) {
  RETURN_IF_ERROR(reader_.check_size(schema));
  Places schemas = {reader_.document(schema)};
  if (also != nullptr) schemas.push_back(reader_.document(*also));
  const NodeIndex node = value(schemas, next);
  if (budget_.exhausted()) reader_.fail(nullptr, "the schema is too complex");
  if (reader_.error()) return *reader_.error();
  return node;
}

bool SchemaCompiler::fold(const Places& schemas, Shape& shape) {
  for (const Place& schema : schemas) {
    const SchemaReader::Outcome outcome = reader_.add(shape, schema, {});
    if (outcome == SchemaReader::Outcome::kCircular) reader_.fail(schema.path, "the reference leads back to itself");
    if (outcome != SchemaReader::Outcome::kAdded) return false;
  }
  return true;
}

NodeIndex SchemaCompiler::value(const Places& schemas, NodeIndex next) {
  Shape shape;
  if (!fold(schemas, shape) || next == kFail) return kFail;
  constexpr uint32_t kContainers = Shape::kArray | Shape::kObject;
  const bool simple = shape.groups.empty() && (shape.values || (shape.allowed_types() & kContainers) == 0);
  if (simple) return plain(shape, next);
  if (shape.seen.empty()) return json_.any_value(next);
  return builder_.call(rule(schemas, shape), next);
}

// Arrays, objects and alternatives are compiled once and called, so that schemas may contain themselves.
NodeIndex SchemaCompiler::rule(const Places& schemas, const Shape& shape) {
  Shape::Owners key;
  for (const Place& schema : schemas) key.push_back(schema.value);
  std::sort(key.begin(), key.end());
  key.erase(std::unique(key.begin(), key.end()), key.end());
  const auto [entry, inserted] = rules_.try_emplace(key, kFail);
  if (!inserted) return entry->second;
  const NodeIndex node = entry->second = builder_.reserve();
  std::vector<NodeIndex> alternatives;
  expand(shape, kReturn, alternatives);
  builder_.define(node, alternatives);
  return node;
}

// One alternative of each group, in all combinations.
void SchemaCompiler::expand(Shape shape, NodeIndex next, std::vector<NodeIndex>& alternatives) {
  if (shape.groups.empty()) return alternatives.push_back(plain(shape, next));
  const Shape::Group group = std::move(shape.groups.back());
  shape.groups.pop_back();
  for (const Place& alternative : group.alternatives) {
    size_t size = shape.required.size() + shape.seen.size() + 8;
    for (const Shape::ObjectPart& part : shape.object_parts) size += part.properties.size();
    if (!budget_.step(static_cast<int64_t>(size))) return;
    Shape chosen = shape;
    const SchemaReader::Outcome outcome = reader_.add(chosen, alternative, group.owners);
    if (outcome == SchemaReader::Outcome::kFailed) return;
    if (outcome == SchemaReader::Outcome::kAdded) expand(std::move(chosen), next, alternatives);
  }
}

NodeIndex SchemaCompiler::plain(const Shape& shape, NodeIndex next) {
  if (shape.impossible || budget_.exhausted()) return kFail;
  if (shape.values) return one_of_values(shape, next);
  const uint32_t types = shape.allowed_types();
  std::vector<NodeIndex> alternatives;
  if (types & Shape::kNull) alternatives.push_back(builder_.literal("null", next));
  if (types & Shape::kBoolean) {
    alternatives.push_back(builder_.literal("true", next));
    alternatives.push_back(builder_.literal("false", next));
  }
  if (types & (Shape::kInteger | Shape::kFraction)) alternatives.push_back(number(shape, next));
  if (types & Shape::kString) alternatives.push_back(string(shape, next));
  if (types & Shape::kArray) alternatives.push_back(array(shape, next));
  if (types & Shape::kObject) alternatives.push_back(object(shape, next));
  return builder_.split(alternatives);
}

NodeIndex SchemaCompiler::array(const Shape& shape, NodeIndex next) {
  const auto item = [&](size_t index, NodeIndex after) { return value(schemas_of_item(shape, index), after); };
  size_t prefix = 0;
  for (const Shape::ArrayPart& part : shape.array_parts) prefix = std::max(prefix, part.prefix.size());
  const NodeIndex rest = item(prefix, kReturn);
  if (prefix == 0) return json_.array(rest, shape.items_min, shape.items_max, next);

  // From the last item to the first: `behind` is what may follow index items.
  const auto fixed = static_cast<uint32_t>(prefix);
  const NodeIndex end = json_.close(']', next);
  NodeIndex behind = shape.items_min > fixed ? kFail : end;
  if (rest != kFail && shape.items_max > fixed) {
    const uint32_t low = shape.items_min > fixed ? shape.items_min - fixed : 0;
    const uint32_t high = shape.items_max == kCountFree ? kCountFree : shape.items_max - fixed;
    behind = builder_.repeat(low, high, json_.comma(rest), json_.comma(rest), end);
  }
  for (uint32_t index = fixed; index-- > 0 && !budget_.exhausted();) {
    const NodeIndex node = index < shape.items_max ? item(index, behind) : kFail;
    const NodeIndex more = index == 0 ? json_.space(node) : json_.comma(node);
    behind = builder_.split({shape.items_min <= index ? end : kFail, more});
  }
  return builder_.literal("[", behind);
}

NodeIndex SchemaCompiler::object(const Shape& shape, NodeIndex next) {
  const std::vector<std::string_view> names = member_names(shape, budget_);
  const NodeIndex end = json_.close('}', next);
  std::optional<Dfa> keys;
  if (!shape.names.empty()) keys = key_texts(shape, {});

  // From the last member to the first: `behind` follows a member, `more` follows a comma.
  const NodeIndex loop = builder_.reserve();
  const NodeIndex others = additional_member(shape, names, loop);
  NodeIndex behind = others == kFail ? end : loop;
  if (others != kFail) builder_.define(loop, {end, json_.comma(others)});
  NodeIndex more = others;
  bool may_end = true;
  for (size_t i = names.size(); i-- > 0 && !budget_.exhausted();) {
    budget_.step(static_cast<int64_t>(shape.required.size() + 8));
    const bool is_required = contains(shape.required, names[i]);
    NodeIndex member = kFail;
    const std::string key = JsonGrammar::quoted(names[i]);
    if (!keys || keys->accepts(key.substr(1, key.size() - 2))) {
      member = json_.key(names[i], value(schemas_of_member(shape, names[i]), behind));
    }
    more = is_required ? member : builder_.split({member, more});
    may_end = may_end && !is_required;
    behind = builder_.split({may_end ? end : kFail, json_.comma(more)});
  }
  return builder_.literal("{", builder_.split({may_end ? end : kFail, json_.space(more)}));
}

// A member with a key that is none of `names`, if the schemas allow such; then `after`.
NodeIndex SchemaCompiler::additional_member(const Shape& shape, const std::vector<std::string_view>& names,
                                            NodeIndex after) {
  Places schemas;
  bool declares = false;
  for (const Shape::ObjectPart& part : shape.object_parts) {
    if (part.closed) return kFail;
    if (part.additional) schemas.push_back(*part.additional);
    declares = declares || part.declares;
  }
  if (declares && schemas.empty()) return kFail;
  const NodeIndex member = json_.colon(value(schemas, after));
  if (member == kFail) return kFail;
  if (names.empty() && shape.names.empty()) return builder_.string(0, kCountFree, member);
  std::optional<Dfa> keys = key_texts(shape, names);
  if (!keys) return kFail;
  const TerminalIndex terminal = builder_.add_terminal(*std::move(keys));
  return builder_.literal("\"", builder_.terminal(terminal, builder_.literal("\"", member)));
}

// Keys that satisfy propertyNames and are none of `names`, without quotes.
std::optional<Dfa> SchemaCompiler::key_texts(const Shape& shape, const std::vector<std::string_view>& names) {
  std::optional<Dfa> texts;
  Shape key;
  if (!fold(shape.names, key)) return std::nullopt;
  if (!key.groups.empty()) {
    reader_.fail(shape.names.front().path, "anyOf and oneOf are not supported here");
    return std::nullopt;
  }
  if (key.impossible || !(key.allowed_types() & Shape::kString)) return Dfa();
  if (key.values) {
    std::vector<std::string> allowed;
    for (const json::value* name : *key.values) {
      if (!name->is_string() || !admits(key, *name)) continue;
      const std::string quoted = JsonGrammar::quoted(std::string_view(name->get_string()));
      allowed.push_back(quoted.substr(1, quoted.size() - 2));
    }
    texts = one_of(std::move(allowed), budget_);
  } else {
    texts = content(key);
    if (!texts && !reader_.error()) texts = pattern(nullptr, "", true);  // any
  }
  if (!texts || names.empty()) return texts;
  std::vector<std::string> taken;
  for (const std::string_view name : names) {
    const std::string quoted = JsonGrammar::quoted(name);
    taken.push_back(quoted.substr(1, quoted.size() - 2));
  }
  const std::optional<Dfa> refused = one_of(std::move(taken), budget_);
  return refused ? subtract(*texts, *refused, budget_) : std::nullopt;
}

}  // namespace boreas::grammar
