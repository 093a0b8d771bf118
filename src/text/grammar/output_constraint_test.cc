// OutputConstraint through the door of the folder, with the tokenizer of models/tiny.
#include <gtest/gtest.h>

#include <thread>

#include "base/prng.h"
#include "text/formats/chat_format.h"
#include "text/grammar/structured_output.h"

namespace boreas {
namespace {

namespace json = boost::json;
using Begin = OutputRules::Begin;

class OutputConstraintTest : public ::testing::Test {
 protected:
  OutputConstraintTest()
      : tokenizer_(*Tokenizer::load(std::string(BOREAS_SOURCE_DIR) + "/models/tiny")),
        vocab_size_(tokenizer_.vocab_size()),
        store_(tokenizer_, vocab_size_) {
    rules_.markers.start_thinking = id("<|START_THINKING|>");
    rules_.markers.end_thinking = id("<|END_THINKING|>");
    rules_.markers.start_text = id("<|START_TEXT|>");
    rules_.markers.end_text = id("<|END_TEXT|>");
    rules_.markers.start_action = id("<|START_ACTION|>");
    rules_.markers.end_action = id("<|END_ACTION|>");
    rules_.markers.end_of_turn = id("<|END_OF_TURN_TOKEN|>");
    rules_.end_ids = {rules_.markers.end_of_turn};
  }

  TokenId id(std::string_view content) { return tokenizer_.token_id(content).value_or(-1); }
  TokenId byte(char c) { return *tokenizer_.encode(std::string(1, c), {})->begin(); }
  GrammarPointer schema(const char* text) { return *store_.json_schema(*parse_json_exact(text), false); }
  static json::array tools(const char* text) { return parse_json_exact(text)->as_array(); }

  std::vector<TokenId> allowed(TokenConstraint& constraint) {
    std::vector<TokenId> ids;
    const auto mask = constraint.mask();
    if (mask == nullptr) return {-1};
    for (TokenId each = 0; each < vocab_size_; ++each) {
      if (mask->allows(each)) ids.push_back(each);
    }
    return ids;
  }
  // Feeds text (markers by name) token by token; each must be allowed.
  void write(TokenConstraint& constraint, const std::string& text) {
    const Result<std::vector<TokenId>> ids = tokenizer_.encode(text, {});
    ASSERT_TRUE(ids.ok());
    for (const TokenId token : *ids) {
      const auto mask = constraint.mask();
      ASSERT_TRUE(mask == nullptr || mask->allows(token)) << tokenizer_.token_bytes(token) << " of " << text;
      ASSERT_TRUE(constraint.accept(token));
    }
  }

  Tokenizer tokenizer_;
  int32_t vocab_size_;
  GrammarStore store_;
  OutputRules rules_;
};

TEST_F(OutputConstraintTest, JsonBehindTheReasoning) {
  rules_.text = *store_.json_object();
  const auto constraint = (*constraint_maker(rules_))();
  const auto thinking = constraint->mask();
  EXPECT_FALSE(thinking->allows(rules_.markers.end_of_turn));
  EXPECT_FALSE(thinking->allows(rules_.markers.start_text));
  EXPECT_TRUE(thinking->allows(rules_.markers.end_thinking));
  write(*constraint, "I think {of} \"this\".<|END_THINKING|>");
  EXPECT_EQ(allowed(*constraint), (std::vector<TokenId>{rules_.markers.start_text}));
  write(*constraint, "<|START_TEXT|>{\"a\": [1, ");
  EXPECT_FALSE(constraint->mask()->allows(rules_.markers.end_text));
  write(*constraint, "{}]}");
  EXPECT_EQ(allowed(*constraint), (std::vector<TokenId>{rules_.markers.end_text}));
  write(*constraint, "<|END_TEXT|>");
  EXPECT_EQ(allowed(*constraint), (std::vector<TokenId>{rules_.markers.end_of_turn}));
  write(*constraint, "<|END_OF_TURN_TOKEN|>");
  EXPECT_EQ(allowed(*constraint), (std::vector<TokenId>{rules_.markers.end_of_turn}));  // ignore_eos
}

TEST_F(OutputConstraintTest, WhatTheMaskRefusesIsNotAccepted) {
  rules_.text = *store_.json_object();
  const auto maker = *constraint_maker(rules_);
  EXPECT_FALSE(maker()->accept(rules_.markers.end_of_turn));
  const auto constraint = maker();
  write(*constraint, "<|END_THINKING|>");
  EXPECT_FALSE(constraint->accept(rules_.markers.start_action));
  write(*constraint, "<|START_TEXT|>");
  EXPECT_FALSE(constraint->accept(rules_.markers.end_text));
  EXPECT_FALSE(constraint->accept(byte('[')));
  EXPECT_FALSE(constraint->accept(-1));
  EXPECT_FALSE(constraint->accept(vocab_size_));
  write(*constraint, "{");
}

TEST_F(OutputConstraintTest, ReasoningOffAndContinuedAnswers) {
  rules_.text = schema(R"({"properties":{"a":{"type":"integer"}},"required":["a"]})");
  rules_.begin = Begin::kBeforeBlock;
  const auto off = (*constraint_maker(rules_))();
  EXPECT_EQ(allowed(*off), (std::vector<TokenId>{rules_.markers.start_text}));
  rules_.begin = Begin::kInText;
  rules_.text_so_far = "{\"a\": 4";
  const auto continued = (*constraint_maker(rules_))();
  write(*continued, "2}<|END_TEXT|><|END_OF_TURN_TOKEN|>");
  rules_.text_so_far = "Here it is: {";
  EXPECT_FALSE(constraint_maker(rules_).ok());
}

TEST_F(OutputConstraintTest, ForcedCalls) {
  const json::array list = tools(R"([
      {"type":"function","function":{"name":"find","parameters":{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}}},
      {"type":"function","function":{"name":"count","parameters":{"type":"object","properties":{"n":{"type":"integer","minimum":0}}}}},
      {"type":"function","function":{"name":"odd","parameters":{"type":"object","not":{"required":["x"]}}}},
      {"type":"function","function":{"name":"now"}}])");
  rules_.action = *store_.tool_calls(list, {});
  const auto maker = *constraint_maker(rules_);
  const auto constraint = maker();
  write(*constraint, "Search.<|END_THINKING|>");
  EXPECT_EQ(allowed(*constraint), (std::vector<TokenId>{rules_.markers.start_action}));
  write(*constraint,
        "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"find\", \"parameters\": {\"q\": \"x\"}},\n"
        "    {\"tool_call_id\": \"1\", \"tool_name\": \"count\", \"parameters\": {\"n\": 3}},\n"
        "    {\"tool_call_id\": \"2\", \"tool_name\": \"odd\", \"parameters\": {\"any\": [1]}},\n"
        "    {\"tool_call_id\": \"3\", \"tool_name\": \"now\", \"parameters\": "
        "{}}\n]<|END_ACTION|><|END_OF_TURN_TOKEN|>");

  const auto refuses = [&](const std::string& calls) {
    const auto fresh = maker();
    const std::string text = "<|END_THINKING|><|START_ACTION|>" + calls;
    const std::vector<TokenId> ids = *tokenizer_.encode(text, {});
    for (const TokenId token : ids) {
      if (!fresh->accept(token)) return true;
    }
    return false;
  };
  EXPECT_TRUE(refuses("[]"));
  EXPECT_TRUE(refuses("[{\"tool_call_id\": \"0\", \"tool_name\": \"other\""));
  EXPECT_TRUE(refuses("[{\"tool_call_id\": 0"));
  EXPECT_TRUE(refuses("[{\"tool_call_id\": \"0\", \"tool_name\": \"count\", \"parameters\": {\"n\": -"));
  EXPECT_TRUE(refuses("[{\"tool_call_id\": \"0\", \"tool_name\": \"now\", \"parameters\": {\""));
  EXPECT_FALSE(refuses("[{\"tool_call_id\": \"0\", \"tool_name\": \"count\", \"parameters\": {\"n\": 1}}]"));

  rules_.action = *store_.tool_calls(list, {"count", 1});
  const auto named = (*constraint_maker(rules_))();
  write(*named,
        "<|END_THINKING|><|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"count\", \"parameters\": {}}");
  EXPECT_FALSE(named->mask()->allows(byte(',')));
  EXPECT_TRUE(named->mask()->allows(byte(']')));
}

TEST_F(OutputConstraintTest, FreeTextWithBoundCalls) {
  rules_.free_text = true;
  rules_.action = *store_.tool_calls(tools(R"([{"type":"function","function":{"name":"go"}}])"), {});
  const auto constraint = (*constraint_maker(rules_))();
  EXPECT_EQ(constraint->mask(), nullptr);
  write(*constraint, "any<|END_THINKING|><|START_TEXT|>words<|END_TEXT|><|START_ACTION|>");
  EXPECT_EQ(allowed(*constraint).size(), std::vector<TokenId>({byte('[')}).size());
  write(*constraint, "[{\"tool_call_id\": \"7\", \"tool_name\": \"go\", \"parameters\": {}}]<|END_ACTION|>");
  EXPECT_EQ(constraint->mask(), nullptr);
}

TEST_F(OutputConstraintTest, RawOutput) {
  rules_.begin = Begin::kRaw;
  rules_.text = *store_.choice({"yes", "yesterday", "no"});
  const auto constraint = (*constraint_maker(rules_))();
  EXPECT_FALSE(constraint->mask()->allows(rules_.markers.end_of_turn));
  write(*constraint, "yes");
  EXPECT_TRUE(constraint->mask()->allows(rules_.markers.end_of_turn));
  write(*constraint, "terday");
  EXPECT_EQ(allowed(*constraint), (std::vector<TokenId>{rules_.markers.end_of_turn}));
  rules_.text = *store_.regex("[0-9]{3}-[a-z]+");
  write(*(*constraint_maker(rules_))(), "123-abc<|END_OF_TURN_TOKEN|>");
  rules_.end_ids.clear();
  EXPECT_FALSE(constraint_maker(rules_).ok());
}

TEST_F(OutputConstraintTest, MinTokensKeepsTheEndAwayWhereThereIsAnotherWay) {
  rules_.begin = Begin::kRaw;
  rules_.text = *store_.regex("a+");
  rules_.min_tokens = 3;
  rules_.suppressed_ids = rules_.end_ids;
  const auto constraint = (*constraint_maker(rules_))();
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(constraint->mask()->allows(rules_.markers.end_of_turn)) << i;
    ASSERT_TRUE(constraint->accept(byte('a')));
  }
  EXPECT_TRUE(constraint->mask()->allows(rules_.markers.end_of_turn));
  rules_.text = *store_.choice({"a"});
  const auto short_one = (*constraint_maker(rules_))();
  ASSERT_TRUE(short_one->accept(byte('a')));
  EXPECT_EQ(allowed(*short_one), (std::vector<TokenId>{rules_.markers.end_of_turn}));
}

TEST_F(OutputConstraintTest, GrammarsAndMasksAreShared) {
  const GrammarPointer first = schema(R"({"type":"integer"})");
  EXPECT_EQ(first, schema(R"({"type":"integer"})"));
  EXPECT_NE(first, schema(R"({"type":"number"})"));
  EXPECT_EQ(first->vocabulary, schema(R"({"type":"null"})")->vocabulary);
  rules_.begin = Begin::kRaw;
  rules_.text = first;
  const auto maker = *constraint_maker(rules_);
  EXPECT_EQ(maker()->mask(), maker()->mask());
  rules_.text = schema(R"({"type":"number"})");
  EXPECT_NE((*constraint_maker(rules_))()->mask(), maker()->mask());
}

TEST_F(OutputConstraintTest, ErrorsOfTheStore) {
  EXPECT_NE(store_.regex("(").error().message.find("a group does not end"), std::string::npos);
  EXPECT_NE(store_.choice({}).error().message.find("choices"), std::string::npos);
  EXPECT_NE(store_.choice({""}).error().message.find("empty"), std::string::npos);
  EXPECT_NE(store_.choice({std::string(300 << 10, 'a')}).error().message.find("bytes"), std::string::npos);
  const auto unsupported = store_.json_schema(*parse_json_exact(R"({"not":{}})"), false);
  EXPECT_NE(unsupported.error().message.find("#/not"), std::string::npos);
  const auto loose = store_.json_schema(*parse_json_exact(R"({"not":{},"type":"null"})"), true);
  EXPECT_EQ((*loose)->ignored, std::vector<std::string>{"#/not"});
}

TEST_F(OutputConstraintTest, ManyThreadsCompileAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      for (int j = 0; j < 300; ++j) {
        const auto grammar = store_.regex("a{" + std::to_string((i + j) % 290) + "}");
        ASSERT_TRUE(grammar.ok());
        OutputRules rules = rules_;
        rules.begin = Begin::kRaw;
        rules.text = *grammar;
        ASSERT_NE((*constraint_maker(rules))()->mask(), nullptr);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace boreas
