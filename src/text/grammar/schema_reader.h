// Reads JSON Schemas (drafts 4 to 2020-12) for schema_compiler.cc: what several schemas ask of one value, folded into
// one Shape. allOf and $ref are folded in, anyOf and oneOf stay as groups of which one alternative must hold.
//
// Nothing is copied out of a schema: a Shape points into the documents, which must outlive it.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/grammar/decimal_range.h"
#include "text/grammar/grammar.h"

namespace boreas::grammar {

// Where something stands in a schema, as a JSON pointer's last token and what is above it.
struct Path {
  const Path* parent = nullptr;  // null: a whole document
  std::string token;
};
std::string pointer_text(const Path* path);  // "#/properties/a"

// A schema, or another value of one, and where it stands.
struct Place {
  const boost::json::value* value = nullptr;
  const boost::json::value* document = nullptr;  // what $ref starts from
  const Path* path = nullptr;
};

struct Shape {
  enum Type : uint32_t {
    kNull = 1,
    kBoolean = 2,
    kInteger = 4,
    kFraction = 8,  // numbers that are not integers
    kString = 16,
    kArray = 32,
    kObject = 64,
    kAll = 127,
  };
  using Owners = std::vector<const boost::json::value*>;
  // One of these must hold as well. owners: the schemas it was reached through.
  struct Group {
    std::vector<Place> alternatives;
    Owners owners;
  };
  struct ArrayPart {
    std::vector<Place> prefix;
    std::optional<Place> items;  // of what is behind the prefix
  };
  struct ObjectPart {
    std::vector<std::pair<std::string_view, Place>> properties;
    std::optional<Place> additional;
    bool declares = false;  // there is `properties`, maybe empty
    bool closed = false;    // unevaluatedProperties: false
  };

  uint32_t types = kAll;
  bool typed = false;         // a `type` was given
  uint32_t hinted_types = 0;  // what other keywords are about; they count if no type was given
  bool impossible = false;
  std::optional<std::vector<const boost::json::value*>> values;  // enum, const
  DecimalRange number;
  uint32_t length_min = 0, length_max = kCountFree;
  std::vector<Place> patterns;
  std::vector<std::string_view> formats;  // known ones
  std::vector<ArrayPart> array_parts;
  uint32_t items_min = 0, items_max = kCountFree;
  std::vector<ObjectPart> object_parts;
  std::vector<std::string_view> required;
  std::vector<Place> names;  // propertyNames
  std::vector<Group> groups;
  Owners seen;  // schemas folded in

  uint32_t allowed_types() const { return typed || values || hinted_types == 0 ? types : types & hinted_types; }
};

struct SchemaOptions {
  // Keywords that are not supported are left out (and listed) instead of refused.
  bool ignore_unsupported = false;
};

class SchemaReader {
 public:
  static constexpr size_t kDepthMax = 64;
  static constexpr size_t kValuesMax = 50'000;
  static constexpr size_t kTextBytesMax = 256 << 10;  // keys and strings together

  SchemaReader(SchemaOptions options, WorkBudget& budget) : options_(options), budget_(budget) {}

  // Bounds on size and depth, before anything recursive looks at a document.
  Status check_size(const boost::json::value& document) const;
  Place document(const boost::json::value& document) { return {&document, &document, nullptr}; }

  enum class Outcome : uint8_t {
    kAdded,
    kCircular,  // it says only what is being asked
    kFailed,    // see error()
  };
  Outcome add(Shape& shape, const Place& place, const Shape::Owners& owners);

  const std::optional<Error>& error() const { return error_; }
  void fail(const Path* path, const std::string& what);
  const std::vector<std::string>& ignored() const { return ignored_; }
  const Path* below(const Path* path, std::string_view token);

 private:
  struct Keyword;
  using Handler = void (SchemaReader::*)(Shape&, const Place&);
  static const Keyword kKeywords[];

  void read_type(Shape& shape, const Place& at);
  void read_values(Shape& shape, const Place& at);
  void read_const(Shape& shape, const Place& at);
  void keep_values(Shape& shape, const std::vector<const boost::json::value*>& values);
  void read_bounds(Shape& shape, const Place& schema);
  void add_bound(Shape& shape, const boost::json::value& value, const Path* path, bool is_low, bool exclusive);
  void read_length(Shape& shape, const Place& at);
  void read_pattern(Shape& shape, const Place& at);
  void read_format(Shape& shape, const Place& at);
  void read_names(Shape& shape, const Place& at);
  void read_required(Shape& shape, const Place& at);
  void read_array(Shape& shape, const Place& schema);
  void read_object(Shape& shape, const Place& schema);
  void read_items_count(Shape& shape, const Place& at);
  void refuse(Shape& shape, const Place& at);
  void read_group(Shape& shape, const Place& at, const Shape::Owners& owners);
  Outcome add_members(Shape& shape, const Place& place, const Shape::Owners& owners);
  std::optional<Place> resolve(const Place& at);
  std::optional<uint32_t> count(const Place& at);
  std::optional<Place> member(const Place& place, std::string_view key);
  bool is_unused(std::string_view keyword, const boost::json::value& value) const;

  const SchemaOptions options_;
  WorkBudget& budget_;
  std::deque<Path> paths_;
  std::optional<Error> error_;
  std::vector<std::string> ignored_;
};

// Texts of a `format` that is known, as a regular expression; others are notes.
std::optional<std::string_view> format_regex(std::string_view format);

}  // namespace boreas::grammar
