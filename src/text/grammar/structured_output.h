// Structured output: from what a request asks for (a JSON Schema, an expression, tools that must be called) to the
// TokenConstraint that the engine asks for masks. The server is the caller.
//
//   GrammarStore (one a model)  --json_schema(), regex(), tool_calls() ...-->  CompiledGrammar (shared, kept)
//   OutputRules (one a request) --constraint_maker()-->  one OutputConstraint a choice
//
// A chat's output is bound from END_THINKING on: the markers of the format are forced in their order, and what stands
// between START_TEXT and END_TEXT, or START_ACTION and END_ACTION, follows a grammar. The end of a block is allowed
// only where its text is complete, the end of the turn only behind a block. Inside a block no added token is allowed.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "exec/sampling.h"
#include "text/output_parser.h"
#include "text/tokenizer.h"

namespace boreas {

namespace grammar {
struct Grammar;
struct Vocabulary;
}  // namespace grammar

// Immutable. Keeps alive what it needs.
struct CompiledGrammar {
  std::shared_ptr<const grammar::Grammar> grammar;
  std::shared_ptr<grammar::Vocabulary> vocabulary;
  uint32_t serial = 0;               // tells masks of different grammars apart
  std::vector<std::string> ignored;  // keywords of the schema that are not looked at, as JSON pointers
};
using GrammarPointer = std::shared_ptr<const CompiledGrammar>;

struct ToolCallRules {
  std::string only;         // the tool that must be called; empty: any of them
  uint32_t calls_max = 64;  // at least one is made
};

// Compiles and keeps grammars. Thread-safe; compilation happens on the caller's thread and takes at most about a
// second.
class GrammarStore {
 public:
  static constexpr size_t kGrammarBytesMax = size_t{64} << 20;
  static constexpr size_t kGrammarsMax = 256;
  static constexpr size_t kChoicesMax = 10'000;
  static constexpr size_t kTextBytesMax = 256 << 10;  // of a list of choices

  // The tokenizer must outlive the store. The vocabulary's tree is built on first use.
  GrammarStore(const Tokenizer& tokenizer, int32_t vocab_size);
  ~GrammarStore();
  GrammarStore(const GrammarStore&) = delete;
  GrammarStore& operator=(const GrammarStore&) = delete;

  // Errors say what and where, as in "at '#/properties/a/not': 'not' is not supported; supported are ...".
  Result<GrammarPointer> json_object();
  Result<GrammarPointer> json_schema(const boost::json::value& schema, bool ignore_unsupported);
  Result<GrammarPointer> regex(std::string_view pattern);
  Result<GrammarPointer> choice(const std::vector<std::string>& texts);
  // A list of calls as North's models write it. tools: as in a chat request, checked; a tool whose parameters are not
  // supported may get any object.
  Result<GrammarPointer> tool_calls(const boost::json::array& tools, const ToolCallRules& rules);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What the output of one request must look like.
struct OutputRules {
  enum class Begin : uint8_t {
    kThinking,     // the prompt ends inside the reasoning
    kBeforeBlock,  // it ends behind it
    kInText,       // it ends inside a text block, behind `text_so_far`
    kRaw,          // no chat: `text` is the whole output, which ends with one of end_ids
  };
  Begin begin = Begin::kThinking;
  GrammarPointer text;    // of a text block; null: there may be none, see free_text
  GrammarPointer action;  // of an action block; null: there may be none
  // Text blocks may be written and hold anything; only action blocks are bound, if the model opens one.
  bool free_text = false;
  std::string text_so_far;
  OutputMarkers markers;  // not for kRaw
  std::vector<TokenId> end_ids;
  // Until so many tokens are generated these are not allowed, unless nothing else is.
  int32_t min_tokens = 0;
  std::vector<TokenId> suppressed_ids;
};

using ConstraintMaker = std::function<std::unique_ptr<TokenConstraint>()>;
// An error if text_so_far is not how a text of the grammar begins.
Result<ConstraintMaker> constraint_maker(OutputRules rules);

}  // namespace boreas
