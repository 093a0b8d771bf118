// For tests of grammars: a small vocabulary that cuts JSON in awkward places, schemas at random, and a "model" that
// picks any allowed token.
#pragma once

#include <algorithm>
#include <boost/json.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "text/grammar/json_grammar.h"
#include "text/grammar/matcher.h"
#include "text/grammar/schema_compiler.h"
#include "text/grammar/token_trie.h"

namespace boreas::grammar {

inline Result<std::shared_ptr<const Grammar>> compile_schema(const boost::json::value& schema,
                                                             SchemaOptions options = {}) {
  GrammarBuilder builder;
  JsonGrammar json(builder);
  SchemaCompiler compiler(json, options);
  ASSIGN_OR_RETURN(const NodeIndex root, compiler.compile(schema, GrammarBuilder::kReturn));
  ASSIGN_OR_RETURN(Grammar grammar, std::move(builder).finish(root));
  return std::make_shared<const Grammar>(std::move(grammar));
}

inline bool accepts(const std::shared_ptr<const Grammar>& grammar, std::string_view text) {
  Matcher matcher(grammar);
  return matcher.accept(text) && matcher.complete();
}

// All bytes, and pieces that begin and end inside of JSON's tokens and characters.
inline std::vector<std::pair<TokenId, std::string>> test_tokens() {
  std::vector<std::pair<TokenId, std::string>> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(byte, std::string(1, static_cast<char>(byte)));
  for (const char* text : {"{\"",  "\":",      "\": ",       "\", \"",   "\",\"",    "\"}",     "}}",      "]}",
                           "}]",   ", ",       "[[",         "[]",       "{}",       "[\"",     "\"]",     "],[",
                           "},",   "true",     "fals",       "e,",       "null",     " nul",    "l}",      "12",
                           "0.",   "5e",       "-1",         "00",       "\n ",      "\n    ",  "  ",      " {",
                           "\\\"", "\\u",      "\\u00",      "\\n",      "\\\\",     "ab",      "abc",     "aab",
                           "xy",   "xyz",      " the",       "a\":",     "\"a\": ",  "\"b\"",   "b\", ",   "\xc3\xa9",
                           "\xa9", "\xe2\x82", "\x82\xac\"", "\xf0\x9f", "\x98\x80", "\\ud83d", "\\ude00", "1,",
                           "2]",   "3}",       "\"\"",       ":1",       "\":["}) {
    tokens.emplace_back(static_cast<TokenId>(tokens.size()), text);
  }
  tokens.emplace_back(static_cast<TokenId>(tokens.size()), "ab");  // a twin
  return tokens;
}

// Picks allowed tokens at random; behind `eager` tokens it prefers what closes.
inline std::string write_at_random(const std::shared_ptr<const Grammar>& grammar, const TokenTrie& trie, Prng& prng,
                                   int eager, int tokens_max = 20'000) {
  Matcher matcher(grammar);
  std::string text;
  for (int written = 0; written < tokens_max; ++written) {
    if (matcher.ended() || (matcher.complete() && (written > eager || prng.below(3) == 0))) return text;
    TokenMask mask;
    trie.allowed(matcher, mask);
    std::vector<TokenId> allowed;
    for (TokenId id = 0; id < trie.vocab_size(); ++id) {
      if (mask.allows(id)) allowed.push_back(id);
    }
    if (allowed.empty()) return "(nothing is allowed behind " + text + ")";
    const auto opens = [&](TokenId id) { return trie.bytes_of(id).find_first_of("{[") != std::string_view::npos; };
    if (written > eager + 300 && !std::all_of(allowed.begin(), allowed.end(), opens)) {
      allowed.erase(std::remove_if(allowed.begin(), allowed.end(), opens), allowed.end());
    }
    TokenId picked = allowed[prng.below(static_cast<uint32_t>(allowed.size()))];
    constexpr std::string_view kClosing = "\"}]0n1tf";
    for (size_t i = 0, first = prng.below(8); written > eager && i < 8 && prng.below(8) != 0; ++i) {
      const TokenId closing = kClosing[(first + i) % 8];
      if (!mask.allows(closing)) continue;
      picked = closing;
      break;
    }
    if (!matcher.accept(trie.bytes_of(picked))) return "(an allowed token is refused behind " + text + ")";
    text += trie.bytes_of(picked);
  }
  return "(no end of " + text.substr(0, 1000) + ")";
}

// Schemas of everything that is supported. They may contradict themselves.
class SchemaMaker {
 public:
  explicit SchemaMaker(Prng& prng) : prng_(prng) {}

  boost::json::value document() {
    boost::json::object root = schema(3).as_object();
    boost::json::object definitions;
    for (int i = 0; i < kDefinitions; ++i) definitions["d" + std::to_string(i)] = schema(2);
    root["$defs"] = std::move(definitions);
    return root;
  }

 private:
  static constexpr int kDefinitions = 3;

  boost::json::value schema(int depth) {
    const uint32_t kind = prng_.below(depth > 0 ? 16 : 9);
    if (kind < 3) return number();
    if (kind < 5) return text();
    if (kind < 7) return plain();
    if (kind < 9) return values();
    if (kind < 11) return array(depth);
    if (kind < 14) return object(depth);
    return combined(depth);
  }
  // A schema that may be left out, so it may refer to what contains it.
  boost::json::value optional(int depth) {
    if (prng_.below(5) == 0) return reference();
    return schema(depth - 1);
  }
  boost::json::value reference() {
    const uint32_t which = prng_.below(kDefinitions + 1);
    return boost::json::object{{"$ref", which == kDefinitions ? "#" : "#/$defs/d" + std::to_string(which)}};
  }
  boost::json::value number() {
    boost::json::object out{{"type", prng_.below(3) ? "integer" : "number"}};
    const char* const names[] = {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"};
    const int64_t low = prng_.between(-300, 300);
    if (prng_.below(2)) out[names[prng_.below(2)]] = low;
    if (prng_.below(2)) out[names[2 + prng_.below(2)]] = static_cast<double>(low) + prng_.below(2000) / 8.0;
    return out;
  }
  boost::json::value text() {
    boost::json::object out{{"type", "string"}};
    const uint32_t low = prng_.below(4);
    if (prng_.below(3) == 0) out["minLength"] = low;
    if (prng_.below(3) == 0) out["maxLength"] = low + prng_.below(20);
    constexpr const char* kPatterns[] = {"^[a-c]+$", "[0-9]{2}", "^x?y*$", "^(ab|b\")*$", "a[bx]c", "\\\\|^$"};
    if (prng_.below(3) == 0) out["pattern"] = kPatterns[prng_.below(std::size(kPatterns))];
    return out;
  }
  boost::json::value plain() {
    switch (prng_.below(6)) {
      case 0:
        return boost::json::object{{"type", "boolean"}};
      case 1:
        return boost::json::object{{"type", "null"}};
      case 2:
        return boost::json::object{{"type", {"string", "null"}}, {"maxLength", 3}};
      case 3:
        return boost::json::object{{"type", {"integer", "array", "boolean"}}, {"maximum", 9}, {"maxItems", 2}};
      case 4:
        return boost::json::object{{"type", "object"}};
      default:
        return boost::json::object();
    }
  }
  boost::json::value values() {
    if (prng_.below(3) == 0) return boost::json::object{{"const", boost::json::object{{"a", {1, 2.5, nullptr}}}}};
    boost::json::array list = {"a", "\u00e9\n", 1, -2.5, true, nullptr, "abc", ""};
    list.resize(1 + prng_.below(8));
    boost::json::object out{{"enum", std::move(list)}};
    if (prng_.below(3) == 0) out["type"] = "string";
    return out;
  }
  boost::json::value array(int depth) {
    boost::json::object out{{"type", "array"}};
    if (prng_.below(4)) out["items"] = prng_.below(8) ? optional(depth) : boost::json::value(prng_.below(2) > 0);
    const uint32_t low = prng_.below(3);
    if (prng_.below(2)) out["minItems"] = low;
    if (prng_.below(2)) out["maxItems"] = low + prng_.below(3);
    if (prng_.below(4) == 0) out["prefixItems"] = {schema(depth - 1), schema(depth - 1)};
    return out;
  }
  boost::json::value object(int depth) {
    boost::json::object properties;
    boost::json::array required;
    for (const char* name : {"a", "b", "\u00e9", "q\"x\n"}) {
      if (prng_.below(2)) continue;
      const bool is_required = prng_.below(2);
      properties[name] = is_required ? schema(depth - 1) : optional(depth);
      if (is_required) required.emplace_back(name);
    }
    boost::json::object out{{"type", "object"}};
    if (prng_.below(8) == 0) required.emplace_back("z");
    if (!required.empty()) out["required"] = std::move(required);
    if (prng_.below(6)) out["properties"] = std::move(properties);
    if (prng_.below(3) == 0) out["additionalProperties"] = prng_.below(2) ? optional(depth) : boost::json::value(false);
    if (prng_.below(8) == 0) out["propertyNames"] = boost::json::object{{"pattern", "^[a-z\u00e9]"}, {"maxLength", 4}};
    return out;
  }
  boost::json::value combined(int depth) {
    if (prng_.below(4) == 0) return reference();
    constexpr const char* kNames[] = {"anyOf", "oneOf", "anyOf", "allOf"};
    boost::json::object out = prng_.below(3) ? boost::json::object() : schema(depth - 1).as_object();
    const char* name = kNames[prng_.below(4)];
    boost::json::array list;
    for (uint32_t i = 1 + prng_.below(3); i > 0; --i) list.push_back(optional(depth));
    out[name] = std::move(list);
    return out;
  }

  Prng& prng_;
};

}  // namespace boreas::grammar
