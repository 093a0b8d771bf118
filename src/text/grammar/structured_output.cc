#include "text/grammar/structured_output.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "text/grammar/json_grammar.h"
#include "text/grammar/regex.h"
#include "text/grammar/schema_compiler.h"
#include "text/grammar/vocabulary.h"

namespace boreas {

namespace json = boost::json;
using grammar::GrammarBuilder;
using grammar::JsonGrammar;
using grammar::NodeIndex;
using grammar::SchemaCompiler;

namespace {

constexpr uint32_t kCallIdDigitsMax = 6;

struct Made {
  grammar::Grammar grammar;
  std::vector<std::string> ignored;
};

Result<Made> made(GrammarBuilder&& builder, NodeIndex root) {
  ASSIGN_OR_RETURN(grammar::Grammar finished, std::move(builder).finish(root));
  return Made{std::move(finished), {}};
}

Result<Made> make_json_object() {
  GrammarBuilder builder;
  JsonGrammar json(builder);
  const NodeIndex root = json.any_object(GrammarBuilder::kReturn);
  return made(std::move(builder), root);
}

Result<Made> make_json_schema(const json::value& schema, bool ignore_unsupported) {
  GrammarBuilder builder;
  JsonGrammar json(builder);
  SchemaCompiler compiler(json, {ignore_unsupported});
  ASSIGN_OR_RETURN(const NodeIndex root, compiler.compile(schema, GrammarBuilder::kReturn));
  Result<Made> result = made(std::move(builder), root);
  if (result.ok()) result->ignored = compiler.ignored();
  return result;
}

Result<Made> make_terminal(Result<grammar::Dfa> texts, GrammarBuilder&& builder) {
  if (!texts.ok()) return texts.error();
  const grammar::TerminalIndex terminal = builder.add_terminal(std::move(*texts));
  const NodeIndex root = builder.terminal(terminal, GrammarBuilder::kReturn);
  return made(std::move(builder), root);
}

Result<Made> make_regex(std::string_view pattern) {
  GrammarBuilder builder;
  Result<grammar::Dfa> texts = grammar::regex_automaton(pattern, grammar::Spelling::kUtf8, false, builder.budget());
  return make_terminal(std::move(texts), std::move(builder));
}

Result<Made> make_choice(const std::vector<std::string>& texts) {
  GrammarBuilder builder;
  std::optional<grammar::Dfa> dfa = grammar::one_of(texts, builder.budget());
  if (!dfa) return Error{"the texts are too long"};
  return make_terminal(std::move(*dfa), std::move(builder));
}

std::string_view text_of(const json::value& value) { return {value.get_string().data(), value.get_string().size()}; }

// The parameters of a tool; none at all means no arguments.
const json::value& parameters_of(const json::object& function) {
  static const json::value kNone = json::object{{"type", "object"}, {"additionalProperties", false}};
  const json::value* parameters = function.if_contains("parameters");
  if (parameters == nullptr || parameters->is_null()) return kNone;
  if (parameters->is_object() && parameters->get_object().empty()) return kNone;
  return *parameters;
}

// What a tool's parameters may be, in front of `next`.
NodeIndex add_parameters(JsonGrammar& json, const json::object& function, bool any, NodeIndex next) {
  static const json::value kObject = json::object{{"type", "object"}};
  if (any) return json.any_object(next);
  // Compiled once by itself: what is not supported, or too large, must not spoil the grammar of the other tools.
  GrammarBuilder trial;
  JsonGrammar trial_json(trial);
  SchemaCompiler trial_compiler(trial_json, {});
  const Result<NodeIndex> tried = trial_compiler.compile(parameters_of(function), GrammarBuilder::kReturn, &kObject);
  const bool usable = tried.ok() && std::move(trial).finish(*tried).ok();
  if (!usable) return json.any_object(next);
  SchemaCompiler compiler(json, {});
  const Result<NodeIndex> node = compiler.compile(parameters_of(function), next, &kObject);
  return node.ok() ? *node : GrammarBuilder::kFail;
}

//   [ {"tool_call_id": "0", "tool_name": "name", "parameters": {...}}, ... ]
Result<Made> make_tool_calls(const json::array& tools, const ToolCallRules& rules, bool any_parameters) {
  GrammarBuilder builder;
  JsonGrammar json(builder);
  const NodeIndex end = json.close('}', GrammarBuilder::kReturn);
  std::vector<NodeIndex> calls;
  for (const json::value& tool : tools) {
    const json::object& function = tool.at("function").as_object();
    const std::string_view name = text_of(function.at("name"));
    if (!rules.only.empty() && name != rules.only) continue;
    const NodeIndex parameters = json.key("parameters", add_parameters(json, function, any_parameters, end));
    calls.push_back(builder.literal(JsonGrammar::quoted(name), json.comma(parameters)));
  }
  const NodeIndex named = json.comma(json.key("tool_name", builder.split(calls)));
  grammar::Nfa digits(builder.budget());
  const int32_t start = digits.add_state();
  const int32_t accept = digits.add_state();
  int32_t from = start;
  for (uint32_t i = 0; i < kCallIdDigitsMax; ++i) {
    digits.add_edge(from, '0', '9', accept);
    const int32_t longer = digits.add_state();
    digits.add_edge(from, '0', '9', longer);
    from = longer;
  }
  const grammar::TerminalIndex number = builder.add_terminal(*determinise(digits, start, accept));
  const NodeIndex id = builder.literal("\"", builder.terminal(number, builder.literal("\"", named)));
  const NodeIndex call = builder.literal("{", json.space(json.key("tool_call_id", id)));
  const NodeIndex root = json.array(call, 1, rules.calls_max, GrammarBuilder::kReturn);
  return made(std::move(builder), root);
}

}  // namespace

struct GrammarStore::Impl {
  struct Entry {
    std::string key;
    GrammarPointer grammar;
    size_t bytes = 0;
  };

  Impl(const Tokenizer& tokens, int32_t size) : tokenizer(tokens), vocab_size(size) {}

  GrammarPointer find(const std::string& key) {
    const std::lock_guard lock(mutex);
    const auto found = by_key.find(key);
    if (found == by_key.end()) return nullptr;
    entries.splice(entries.begin(), entries, found->second);
    return found->second->grammar;
  }

  GrammarPointer keep(std::string key, Made&& result) {
    std::call_once(vocabulary_once,
                   [this] { vocabulary = std::make_shared<grammar::Vocabulary>(tokenizer, vocab_size); });
    auto compiled = std::make_shared<CompiledGrammar>();
    compiled->grammar = std::make_shared<const grammar::Grammar>(std::move(result.grammar));
    compiled->vocabulary = vocabulary;
    compiled->ignored = std::move(result.ignored);
    const std::lock_guard lock(mutex);
    compiled->serial = ++serials;
    if (by_key.count(key) > 0) return compiled;  // somebody else was faster
    const size_t entry_bytes = 2 * key.size() + compiled->grammar->bytes() + 256;
    if (entry_bytes > kGrammarBytesMax / 4) return compiled;
    entries.push_front({key, compiled, entry_bytes});
    by_key.emplace(std::move(key), entries.begin());
    bytes += entry_bytes;
    while (bytes > kGrammarBytesMax || entries.size() > kGrammarsMax) {
      bytes -= entries.back().bytes;
      by_key.erase(entries.back().key);
      entries.pop_back();
    }
    return compiled;
  }

  // What `make` compiles, kept under `key`.
  template <class Make>
  Result<GrammarPointer> get(std::string key, Make&& make) {
    if (GrammarPointer found = find(key)) return found;
    ASSIGN_OR_RETURN(Made result, make());
    return keep(std::move(key), std::move(result));
  }

  const Tokenizer& tokenizer;
  const int32_t vocab_size;
  std::once_flag vocabulary_once;
  std::shared_ptr<grammar::Vocabulary> vocabulary;
  std::mutex mutex;
  uint32_t serials = 0;
  size_t bytes = 0;
  std::list<Entry> entries;  // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key;
};

GrammarStore::GrammarStore(const Tokenizer& tokenizer, int32_t vocab_size)
    : impl_(std::make_unique<Impl>(tokenizer, vocab_size)) {}
GrammarStore::~GrammarStore() = default;

Result<GrammarPointer> GrammarStore::json_object() { return impl_->get("object", make_json_object); }

Result<GrammarPointer> GrammarStore::json_schema(const json::value& schema, bool ignore_unsupported) {
  // Before serialize() recurses into it.
  grammar::WorkBudget budget;
  RETURN_IF_ERROR(grammar::SchemaReader({}, budget).check_size(schema));
  const std::string kind = ignore_unsupported ? "loose schema " : "schema ";
  return impl_->get(kind + json::serialize(schema), [&] { return make_json_schema(schema, ignore_unsupported); });
}

Result<GrammarPointer> GrammarStore::regex(std::string_view pattern) {
  if (pattern.size() > grammar::kRegexBytesMax) {
    return Error{"it is longer than " + std::to_string(grammar::kRegexBytesMax) + " bytes"};
  }
  return impl_->get("regex " + std::string(pattern), [&] { return make_regex(pattern); });
}

Result<GrammarPointer> GrammarStore::choice(const std::vector<std::string>& texts) {
  std::string key = "choice";
  if (texts.empty() || texts.size() > kChoicesMax) {
    return Error{"there must be between 1 and " + std::to_string(kChoicesMax) + " choices"};
  }
  for (const std::string& text : texts) {
    if (text.empty()) return Error{"a choice must not be empty"};
    key += ' ' + std::to_string(text.size()) + ' ' + text;
    if (key.size() > kTextBytesMax)
      return Error{"the choices have more than " + std::to_string(kTextBytesMax) + " bytes"};
  }
  return impl_->get(key, [&] { return make_choice(texts); });
}

Result<GrammarPointer> GrammarStore::tool_calls(const json::array& tools, const ToolCallRules& rules) {
  std::string key = "tools " + std::to_string(rules.calls_max) + " " + std::to_string(rules.only.size()) + rules.only;
  for (const json::value& tool : tools) {
    const json::object& function = tool.at("function").as_object();
    key += json::serialize(function.at("name")) + json::serialize(parameters_of(function));
  }
  return impl_->get(key, [&] {
    Result<Made> strict = make_tool_calls(tools, rules, false);
    return strict.ok() ? strict : make_tool_calls(tools, rules, true);  // too much all together
  });
}

}  // namespace boreas
