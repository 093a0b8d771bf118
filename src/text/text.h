// The door of src/text: everything between strings and token ids. Other folders include this file and nothing else of
// the folder.
//
//   messages -prepare_chat(), ChatTemplate-> prompt text -Tokenizer-> token ids
//   events   <-OutputParser (chat) or RawOutput (completions)-   token ids and Tokenizer::token_bytes
//   schemas, expressions, tools -GrammarStore-> grammars -constraint_maker-> the masks of one output
#pragma once

#include "text/chat_template.h"              // IWYU pragma: export
#include "text/formats/chat_format.h"        // IWYU pragma: export
#include "text/grammar/structured_output.h"  // IWYU pragma: export
#include "text/output_parser.h"              // IWYU pragma: export
#include "text/output_parser_raw.h"          // IWYU pragma: export
#include "text/stop_strings.h"               // IWYU pragma: export
#include "text/tokenizer.h"                  // IWYU pragma: export
#include "text/utf8_stream.h"                // IWYU pragma: export
