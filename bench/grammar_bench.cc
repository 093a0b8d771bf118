// Cost of structured output on one core (Google Benchmark).
//   grammar_bench DIRECTORY [Google Benchmark's flags]
// DIRECTORY holds a tokenizer.json. compile/...: from schema to grammar. mask/...: one mask that no cache has, at a
// place of a text where masks differ most in cost, by a matcher that has just come there (`first`) or has been asked
// there before (`again`). generate/...: a mask and an accept for each token of a text, as the engine does it, masks
// kept or not; time is per token.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <string>
#include <vector>

#include "text/grammar/json_grammar.h"
#include "text/grammar/matcher.h"
#include "text/grammar/schema_compiler.h"
#include "text/grammar/token_trie.h"
#include "text/text.h"

namespace boreas {
namespace {

using grammar::Matcher;
using grammar::TokenTrie;

constexpr char kRecord[] =
    R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},
    "email":{"type":"string","pattern":"^[a-z]+@[a-z]+\\.[a-z]{2,3}$"},"bio":{"type":"string","maxLength":200},
    "tags":{"type":"array","items":{"type":"string"},"maxItems":10},"kind":{"enum":["person","company","other"]},
    "child":{"anyOf":[{"type":"null"},{"$ref":"#"}]}},"required":["name","age","email","bio","tags","kind","child"]})";
constexpr char kText[] =
    R"({"name": "Ada Lovelace", "age": 36, "email": "ada@example.org", "bio": "She wrote the first program.", )"
    R"("tags": ["math", "poetry"], "kind": "person", "child": null})";

std::shared_ptr<const grammar::Grammar> compiled(const boost::json::value& schema) {
  grammar::GrammarBuilder builder;
  grammar::JsonGrammar json(builder);
  grammar::SchemaCompiler compiler(json, {});
  const auto root = compiler.compile(schema, grammar::GrammarBuilder::kReturn);
  return std::make_shared<const grammar::Grammar>(*std::move(builder).finish(*root));
}

void compile(benchmark::State& state, const boost::json::value& schema) {
  for (auto _ : state) benchmark::DoNotOptimize(compiled(schema));
}

void mask_first(benchmark::State& state, const boost::json::value& schema, const TokenTrie& trie,
                const std::string& text) {
  const auto grammar = compiled(schema);
  for (auto _ : state) {
    state.PauseTiming();
    Matcher matcher(grammar);
    if (!matcher.accept(text)) state.SkipWithError("the text is refused");
    TokenMask mask;
    state.ResumeTiming();
    trie.allowed(matcher, mask);
    benchmark::DoNotOptimize(mask.bits.data());
  }
}

void mask_again(benchmark::State& state, const boost::json::value& schema, const TokenTrie& trie,
                const std::string& text) {
  Matcher matcher(compiled(schema));
  if (!matcher.accept(text)) state.SkipWithError("the text is refused");
  for (auto _ : state) {
    TokenMask mask;
    trie.allowed(matcher, mask);
    benchmark::DoNotOptimize(mask.bits.data());
  }
}

// Time per token.
void generate(benchmark::State& state, const Tokenizer& tokenizer, const boost::json::value& schema, bool masks_kept) {
  const auto ids = *tokenizer.encode(kText, {});
  OutputRules rules;
  rules.begin = OutputRules::Begin::kRaw;
  rules.end_ids = {*tokenizer.eos_token_id()};
  auto store = std::make_unique<GrammarStore>(tokenizer, tokenizer.vocab_size());
  for (auto _ : state) {
    state.PauseTiming();
    if (!masks_kept) store = std::make_unique<GrammarStore>(tokenizer, tokenizer.vocab_size());
    rules.text = *store->json_schema(schema, false);
    const auto constraint = (*constraint_maker(rules))();
    state.ResumeTiming();
    for (const TokenId id : ids) {
      benchmark::DoNotOptimize(constraint->mask());
      if (!constraint->accept(id)) state.SkipWithError("the text is refused");
    }
  }
  state.counters["per_token"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * static_cast<double>(ids.size()),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void add_benchmarks(const Tokenizer& tokenizer, const TokenTrie& trie) {
  static const boost::json::value any = boost::json::object{{"type", "object"}};
  static const boost::json::value record = *parse_json_exact(kRecord);
  benchmark::RegisterBenchmark("trie", [&](benchmark::State& state) {
    for (auto _ : state) benchmark::DoNotOptimize(TokenTrie(tokenizer, tokenizer.vocab_size()).bytes_max());
  })->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("compile/object", compile, any)->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark("compile/record", compile, record)->Unit(benchmark::kMicrosecond);
  const std::string text = kText;
  const std::pair<const char*, std::string> places[] = {
      {"start", ""},
      {"in_key", "{\"na"},
      {"in_string", text.substr(0, text.find("Lovelace"))},
      {"in_number", text.substr(0, text.find("6,"))},
      {"in_pattern", text.substr(0, text.find("da@"))},
      {"in_limited_string", text.substr(0, text.find("wrote"))},
      {"in_full_string", "{\"name\": \"\", \"age\": 1, \"email\": \"a@b.cd\", \"bio\": \"" + std::string(190, 'x')},
      {"in_array", text.substr(0, text.find("\"poetry"))},
  };
  for (const auto& place : places) {
    benchmark::RegisterBenchmark((std::string("mask/first/") + place.first).c_str(), mask_first, record, trie,
                                 place.second)
        ->Unit(benchmark::kMicrosecond);
    benchmark::RegisterBenchmark((std::string("mask/again/") + place.first).c_str(), mask_again, record, trie,
                                 place.second)
        ->Unit(benchmark::kMicrosecond);
  }
  for (const bool kept : {false, true}) {
    benchmark::RegisterBenchmark(kept ? "generate/masks_kept" : "generate/no_masks_kept",
                                 [&, kept](auto& state) { generate(state, tokenizer, record, kept); })
        ->Unit(benchmark::kMicrosecond)
        ->Iterations(kept ? 200 : 3);
  }
}

}  // namespace
}  // namespace boreas

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: grammar_bench DIRECTORY [--benchmark_...]\n");
    return 2;
  }
  const auto tokenizer = boreas::Tokenizer::load(argv[1]);
  if (!tokenizer.ok() || !tokenizer->eos_token_id()) {
    std::fprintf(stderr, "%s\n", tokenizer.ok() ? "there is no EOS token" : tokenizer.error().message.c_str());
    return 2;
  }
  const boreas::grammar::TokenTrie trie(*tokenizer, tokenizer->vocab_size());
  boreas::add_benchmarks(*tokenizer, trie);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
