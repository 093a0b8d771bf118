#include "server/openai/output_format.h"

#include <utility>

#include "server/log.h"

namespace boreas {

namespace json = boost::json;

namespace {

using Kind = OutputFormat::Kind;

constexpr size_t kPatternBytesMax = 16 << 10;

// A schema as an object, as true or false, or as the text of one.
void take_schema(FieldReader& reader, const json::value& value, const std::string& field, OutputFormat& format) {
  format.kind = Kind::kJsonSchema;
  format.field = field;
  format.schema = value;
  if (const json::string* text = value.if_string()) {
    Result<json::value> parsed = parse_json_exact({text->data(), text->size()});
    if (!parsed.ok()) return reader.fail(invalid_value(field, "'" + field + "': " + parsed.error().message));
    format.schema = std::move(*parsed);
  }
  if (!format.schema.is_object() && !format.schema.is_bool()) {
    reader.fail(invalid_value(field, "'" + field + "' must be a JSON Schema."));
  }
}

void take_regex(FieldReader& reader, std::string_view key, OutputFormat& format) {
  const auto pattern = reader.string(key, kPatternBytesMax);
  if (!pattern) return;
  format.kind = Kind::kRegex;
  format.field = reader.path(key);
  format.regex = *pattern;
}

void take_choices(FieldReader& reader, std::string_view key, OutputFormat& format) {
  const json::array* texts = reader.array(key, GrammarStore::kChoicesMax);
  if (!texts) return;
  format.kind = Kind::kChoice;
  format.field = reader.path(key);
  for (const json::value& text : *texts) {
    if (!text.is_string()) {
      return reader.fail(invalid_value(format.field, "'" + format.field + "' must be an array of strings."));
    }
    format.choices.emplace_back(text.get_string());
  }
}

void read_json_schema(FieldReader& reader, FieldReader& fields, OutputFormat& format) {
  const json::object* wrapper = fields.object("json_schema");
  const json::value* schema = fields.find("schema");
  std::string path = "response_format.";
  if (wrapper) {
    path += "json_schema.";
    FieldReader inner(*wrapper, path);
    inner.string("name", 1024);
    format.ignore_unsupported = !inner.boolean("strict").value_or(true);
    if (inner.error()) return reader.fail(*inner.error());
    schema = inner.find("schema");
  }
  if (fields.error()) return reader.fail(*fields.error());
  if (!wrapper && !schema) return reader.fail(missing_parameter("response_format.json_schema"));
  if (!schema) return reader.fail(missing_parameter(path + "schema"));
  take_schema(reader, *schema, path + "schema", format);
}

void read_response_format(FieldReader& reader, OutputFormat& format) {
  const json::object* given = reader.object("response_format");
  if (!given) return;
  FieldReader fields(*given, "response_format.");
  const auto type = fields.string("type", 64);
  if (!type) {
    return reader.fail(fields.error() ? *fields.error()
                                      : invalid_value("response_format.type", "'response_format.type' is missing."));
  }
  if (*type == "text") return;
  format.for_template = *given;
  if (*type == "json_schema") return read_json_schema(reader, fields, format);
  if (*type == "json_object") {
    format.kind = Kind::kJsonObject;
    format.field = "response_format";
    if (const json::value* schema = fields.find("schema")) {
      take_schema(reader, *schema, "response_format.schema", format);
    }
    return;
  }
  if (*type == "structural_tag" || *type == "grammar") {
    return reader.fail(unsupported_value("response_format.type", "'response_format' of type '" + std::string(*type) +
                                                                     "' is not supported; use 'json_schema'."));
  }
  reader.fail(invalid_value("response_format.type", "Unknown response format '" + echo_text(*type) +
                                                        "'; known are text, json_object and json_schema."));
}

// The members of structured_outputs, or the guided_ fields of earlier versions.
void read_kinds(FieldReader& reader, const std::string& prefix, std::vector<OutputFormat>& found) {
  OutputFormat format;
  if (const json::value* schema = reader.find(prefix + "json")) {
    take_schema(reader, *schema, reader.path(prefix + "json"), format);
    found.push_back(std::exchange(format, {}));
  }
  if (reader.find(prefix + "regex")) {
    take_regex(reader, prefix + "regex", format);
    found.push_back(std::exchange(format, {}));
  }
  if (reader.find(prefix + "choice")) {
    take_choices(reader, prefix + "choice", format);
    found.push_back(std::exchange(format, {}));
  }
  if (reader.boolean(prefix + "json_object").value_or(false)) {
    format.kind = Kind::kJsonObject;
    format.field = reader.path(prefix + "json_object");
    found.push_back(std::exchange(format, {}));
  }
  for (const char* name : {"grammar", "structural_tag"}) {
    if (!reader.find(prefix + name)) continue;
    const std::string path = reader.path(prefix + name);
    reader.fail(unsupported_value(path, "'" + path + "' is not supported; json, json_object, regex and choice are."));
  }
}

}  // namespace

OutputFormat read_output_format(FieldReader& reader) {
  std::vector<OutputFormat> found(1);
  read_response_format(reader, found.front());
  if (!found.front().bound()) found.clear();
  if (const json::object* given = reader.object("structured_outputs")) {
    FieldReader fields(*given, "structured_outputs.");
    read_kinds(fields, "", found);
    if (fields.error()) reader.fail(*fields.error());
  }
  read_kinds(reader, "guided_", found);
  if (found.size() > 1) {
    const std::string& field = found[1].field;
    reader.fail(invalid_value(
        field, "'" + field + "' and '" + found[0].field + "' both say what the output must look like; only one may."));
  }
  return found.empty() ? OutputFormat() : std::move(found.front());
}

std::variant<GrammarPointer, ApiError> compile_output_format(const OutputFormat& format, GrammarStore& grammars) {
  Result<GrammarPointer> compiled = GrammarPointer();
  switch (format.kind) {
    case Kind::kText:
      return GrammarPointer();
    case Kind::kJsonObject:
      compiled = grammars.json_object();
      break;
    case Kind::kJsonSchema:
      compiled = grammars.json_schema(format.schema, format.ignore_unsupported);
      break;
    case Kind::kRegex:
      compiled = grammars.regex(format.regex);
      break;
    case Kind::kChoice:
      compiled = grammars.choice(format.choices);
      break;
  }
  if (!compiled.ok()) return invalid_value(format.field, "'" + format.field + "': " + compiled.error().message + ".");
  for (const std::string& keyword : (*compiled)->ignored) {
    log_info("a schema that is not strict holds '" + echo_text(keyword) + "', which is not looked at");
  }
  return std::move(*compiled);
}

}  // namespace boreas
