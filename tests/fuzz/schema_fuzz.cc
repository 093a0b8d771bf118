// libFuzzer target of structured output: any bytes as a JSON Schema, an expression or a list of tools give an error or
// a grammar after bounded work, and where there is a grammar, some text can be written to its end under its masks. Run
// by `./check --full`. Input: one byte that picks the kind and seeds what is written, then the text.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "text/formats/chat_format.h"
#include "text/grammar/grammar_testing.h"
#include "text/grammar/regex.h"
#include "text/grammar/structured_output.h"

namespace {

using namespace boreas;           // NOLINT
using namespace boreas::grammar;  // NOLINT

void write_some(const std::shared_ptr<const Grammar>& grammar, uint64_t seed) {
  static const auto tokens = test_tokens();
  static const TokenTrie trie(tokens, static_cast<int32_t>(tokens.size()));
  Prng prng(seed);
  const std::string text = write_at_random(grammar, trie, prng, 10, 300);
  const bool wrong = text.starts_with("(nothing ") || text.starts_with("(an allowed ");
  if (wrong) {
    std::fprintf(stderr, "%s\n", text.c_str());
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  if (bytes < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, bytes - 1);
  if (data[0] % 4 == 0) {
    WorkBudget budget;
    GrammarBuilder builder;
    Result<Dfa> dfa = regex_automaton(text, data[0] % 8 ? Spelling::kUtf8 : Spelling::kJsonString, true, budget);
    if (!dfa.ok()) return 0;
    const NodeIndex root = builder.terminal(builder.add_terminal(std::move(*dfa)), GrammarBuilder::kReturn);
    Result<Grammar> grammar = std::move(builder).finish(root);
    if (grammar.ok()) write_some(std::make_shared<const Grammar>(std::move(*grammar)), data[0]);
    return 0;
  }
  const Result<boost::json::value> schema = parse_json_exact(text);
  if (!schema.ok()) return 0;
  const auto grammar = compile_schema(*schema, {data[0] % 4 == 1});
  if (grammar.ok()) write_some(*grammar, data[0]);
  return 0;
}
