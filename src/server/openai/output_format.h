// What a request says about the form of its output: response_format of OpenAI, structured_outputs and guided_* of vLLM.
// Read here, compiled by text/ (GrammarStore).
#pragma once

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "server/api_error.h"
#include "server/json_reader.h"
#include "text/text.h"

namespace boreas {

struct OutputFormat {
  enum class Kind : uint8_t { kText, kJsonObject, kJsonSchema, kRegex, kChoice };
  Kind kind = Kind::kText;
  std::string field;  // where it stands, for errors: "response_format.json_schema.schema"
  boost::json::value schema;
  std::string regex;
  std::vector<std::string> choices;
  bool ignore_unsupported = false;  // "strict": false
  boost::json::value for_template;  // response_format as given, where it asks for JSON; else null

  bool bound() const { return kind != Kind::kText; }
};

// Problems go to reader.fail().
OutputFormat read_output_format(FieldReader& reader);

// The format's grammar, null for plain text. Errors name the field and the place in a schema.
std::variant<GrammarPointer, ApiError> compile_output_format(const OutputFormat& format, GrammarStore& grammars);

}  // namespace boreas
