// JSON Schema -> Grammar. What schema_reader.h understands, with these decisions where a schema leaves a choice to the
// one who writes the text; each makes fewer texts of those that the schema allows, never others:
//   - members come in the order of `properties`; those that are not required may be left out; others follow
//   - an object with `properties` is closed unless additionalProperties says otherwise
//   - without `type`, other keywords tell what a value is (properties: an object)
//   - oneOf is anyOf
//   - texts that must match a pattern, and additional keys, use the shortest escape of each character
#pragma once

#include <boost/json.hpp>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/grammar/json_grammar.h"
#include "text/grammar/schema_reader.h"

namespace boreas::grammar {

class SchemaCompiler {
 public:
  SchemaCompiler(JsonGrammar& json, SchemaOptions options);

  // A node for a value of this schema, which must outlive the compiler. also: a further schema it must satisfy.
  // Errors name the place: "at '#/properties/a': ...".
  Result<NodeIndex> compile(const boost::json::value& schema, NodeIndex next, const boost::json::value* also = nullptr);
  // Keywords left out, as JSON pointers.
  const std::vector<std::string>& ignored() const { return reader_.ignored(); }

 private:
  using Places = std::vector<Place>;

  NodeIndex value(const Places& schemas, NodeIndex next);
  NodeIndex rule(const Places& schemas, const Shape& shape);
  bool fold(const Places& schemas, Shape& shape);
  void expand(Shape shape, NodeIndex next, std::vector<NodeIndex>& alternatives);
  NodeIndex plain(const Shape& shape, NodeIndex next);

  NodeIndex one_of_values(const Shape& shape, NodeIndex next);
  bool admits(Shape shape, const boost::json::value& value);
  bool admits_number(const Shape& shape, const boost::json::value& value) const;
  bool admits_text(const Shape& shape, std::string_view text);
  bool admits_array(const Shape& shape, const boost::json::array& items);
  bool admits_object(const Shape& shape, const boost::json::object& members);
  bool satisfies(const Places& schemas, const boost::json::value& value);
  NodeIndex number(const Shape& shape, NodeIndex next);
  NodeIndex string(const Shape& shape, NodeIndex next);
  NodeIndex array(const Shape& shape, NodeIndex next);
  NodeIndex object(const Shape& shape, NodeIndex next);
  NodeIndex additional_member(const Shape& shape, const std::vector<std::string_view>& names, NodeIndex after);
  std::optional<Dfa> key_texts(const Shape& shape, const std::vector<std::string_view>& names);

  // What stands between the quotes, spelled as regex.h says; nothing if there is no rule about it.
  std::optional<Dfa> content(const Shape& shape);
  std::optional<Dfa> pattern(const Path* path, std::string_view regex, bool search);
  Dfa checked(std::optional<Dfa> dfa, const Path* path);

  JsonGrammar& json_;
  GrammarBuilder& builder_;
  WorkBudget& budget_;
  SchemaReader reader_;
  // Rules by the schemas they must satisfy, terminals by what they say.
  std::map<Shape::Owners, NodeIndex> rules_;
  std::unordered_map<std::string, TerminalIndex> terminals_;
};

// The schemas that a member of this name, or an item at this index, must satisfy.
std::vector<Place> schemas_of_member(const Shape& shape, std::string_view name);
std::vector<Place> schemas_of_item(const Shape& shape, size_t index);

// Texts of `content` (spelled as in regex.h) with so many characters.
std::optional<Dfa> limit_length(const Dfa& content, uint32_t count_min, uint32_t count_max, WorkBudget& budget);

}  // namespace boreas::grammar
