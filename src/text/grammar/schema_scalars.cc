// The part of SchemaCompiler that compiles numbers, strings and lists of values.
#include <algorithm>
#include <array>
#include <unordered_map>

#include "text/formats/chat_format_impl.h"
#include "text/grammar/regex.h"
#include "text/grammar/schema_compiler.h"

namespace boreas::grammar {

namespace json = boost::json;

namespace {

std::string key_of(const std::optional<DecimalBound>& bound) {
  if (!bound) return "-";
  const Decimal& value = bound->value;
  return (bound->exclusive ? "<" : "=") + std::string(value.negative ? "-" : "+") + value.whole + "." + value.fraction;
}

}  // namespace

NodeIndex SchemaCompiler::one_of_values(const Shape& shape, NodeIndex next) {
  std::vector<std::string> texts;
  for (const json::value* value : *shape.values) {
    if (!budget_.step() || reader_.error()) return GrammarBuilder::kFail;
    if (!admits(shape, *value)) continue;
    const bool text = value->is_string();
    texts.push_back(text ? JsonGrammar::quoted(std::string_view(value->get_string())) : chat::to_text(*value));
  }
  std::sort(texts.begin(), texts.end());
  std::string key = "values";
  for (const std::string& text : texts) key += '\n' + text;
  const auto [entry, inserted] = terminals_.try_emplace(key, 0);
  if (inserted) entry->second = builder_.add_terminal(checked(one_of(std::move(texts), budget_), nullptr));
  return builder_.terminal(entry->second, next);
}

NodeIndex SchemaCompiler::number(const Shape& shape, NodeIndex next) {
  DecimalRange range = shape.number;
  range.integer = (shape.allowed_types() & Shape::kFraction) == 0;
  if (!range.low && !range.high) return json_.number(range.integer, next);
  const std::string key = (range.integer ? "integer" : "number") + key_of(range.low) + key_of(range.high);
  const auto [entry, inserted] = terminals_.try_emplace(key, 0);
  if (inserted) entry->second = builder_.add_terminal(checked(number_automaton(range, budget_), nullptr));
  return builder_.terminal(entry->second, next);
}

NodeIndex SchemaCompiler::string(const Shape& shape, NodeIndex next) {
  if (shape.patterns.empty() && shape.formats.empty()) {
    return builder_.string(shape.length_min, shape.length_max, next);
  }
  std::string key = "text" + std::to_string(shape.length_min) + "," + std::to_string(shape.length_max);
  for (const Place& at : shape.patterns) key += '\n' + std::string(at.value->get_string());
  for (const std::string_view format : shape.formats) key += "\n\n" + std::string(format);
  auto entry = terminals_.find(key);
  if (entry == terminals_.end()) {
    std::optional<Dfa> texts = content(shape);
    if (!texts) return GrammarBuilder::kFail;
    entry = terminals_.emplace(key, builder_.add_terminal(*std::move(texts))).first;
  }
  return builder_.literal("\"", builder_.terminal(entry->second, builder_.literal("\"", next)));
}

Dfa SchemaCompiler::checked(std::optional<Dfa> dfa, const Path* path) {
  if (!dfa) reader_.fail(path, "the schema is too complex");
  return std::move(dfa).value_or(Dfa());
}

std::optional<Dfa> SchemaCompiler::pattern(const Path* path, std::string_view regex, bool search) {
  Result<Dfa> built = regex_automaton(regex, Spelling::kJsonString, search, budget_);
  if (built.ok()) return std::move(*built);
  reader_.fail(path, "the regular expression is not supported: " + built.error().message);
  return std::nullopt;
}

std::optional<Dfa> SchemaCompiler::content(const Shape& shape) {
  std::optional<Dfa> texts;
  const auto narrow_to = [&](std::optional<Dfa> other, const Path* path) {
    if (texts && other) other = checked(intersect(*texts, *other, budget_), path);
    texts = std::move(other);
    return texts.has_value();
  };
  for (const Place& at : shape.patterns) {
    if (!narrow_to(pattern(at.path, std::string_view(at.value->get_string()), true), at.path)) return std::nullopt;
  }
  for (const std::string_view format : shape.formats) {
    if (!narrow_to(pattern(nullptr, *format_regex(format), false), nullptr)) return std::nullopt;
  }
  if (shape.length_min == 0 && shape.length_max == kCountFree) return texts;
  if (!texts) texts = pattern(nullptr, "", true);
  if (texts) texts = checked(limit_length(*texts, shape.length_min, shape.length_max, budget_), nullptr);
  return texts;
}

std::optional<Dfa> limit_length(const Dfa& content, uint32_t count_min, uint32_t count_max, WorkBudget& budget) {
  const JsonString& string = JsonString::get();
  struct Key {
    int32_t content, character;  // states
    uint32_t count;              // characters so far
  };
  Dfa::Builder builder;
  std::unordered_map<std::array<uint32_t, 3>, int32_t, HashWords> ids;
  std::vector<Key> keys;
  const auto id_of = [&](const Key& key) {
    const std::array words = {static_cast<uint32_t>(key.content), static_cast<uint32_t>(key.character), key.count};
    const auto [entry, inserted] = ids.try_emplace(words, static_cast<int32_t>(keys.size()));
    if (inserted) {
      budget.state();
      keys.push_back(key);
      const bool ends = key.character == string.between && key.count >= count_min;
      builder.add_state(ends && content.accepting(key.content));
    }
    return entry->second;
  };
  if (content.empty()) return Dfa();
  id_of({0, string.between, 0});
  for (size_t i = 0; i < keys.size(); ++i) {
    if (budget.exhausted()) return std::nullopt;
    const Key at = keys[i];
    if (at.character == string.between && at.count >= count_max) continue;
    for (size_t e = 0; e < content.edge_count(at.content); ++e) {
      const Dfa::Edge edge = content.edges(at.content)[e];
      for (size_t f = 0; f < string.dfa.edge_count(at.character); ++f) {
        const Dfa::Edge other = string.dfa.edges(at.character)[f];
        budget.step();
        const uint8_t low = std::max(edge.low, other.low);
        const uint8_t high = std::min(edge.high, other.high);
        if (low > high) continue;
        uint32_t characters = at.count + (other.to == string.between);
        if (count_max == kCountFree) characters = std::min(characters, count_min);
        builder.add_edge(static_cast<int32_t>(i), low, high, id_of({edge.to, other.to, characters}));
      }
    }
  }
  return std::move(builder).build();
}

}  // namespace boreas::grammar
