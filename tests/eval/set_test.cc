// Reading files of prompts, subsets, tables, baselines, references.
#include "apps/eval_set.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "apps/eval_reference.h"
#include "apps/eval_report.h"
#include "tests/eval/temporary.h"

namespace boreas {
namespace {

namespace json = boost::json;

std::string write_temporary(const std::string& name, const std::string& text) {
  const std::string file = temporary(name).string();
  std::ofstream(file) << text;
  return file;
}

std::string line(const std::string& id, const std::string& kind, const std::string& part = "p") {
  return json::serialize(json::object{
             {"id", id},
             {"kind", kind},
             {"part", part},
             {"request", json::object{{"messages", json::array{json::object{{"role", "user"}, {"content", "x"}}}}}},
             {"check", json::object{{"type", "number"}, {"value", 1}}}}) +
         "\n";
}

EvalSet set_of(const std::string& name, const std::vector<std::pair<std::string, std::string>>& items) {
  EvalSet set{name, {}};
  for (const auto& [id, kind] : items) set.items.push_back({id, kind, "p", {}, {}});
  return set;
}

std::string ids(const std::vector<EvalSet>& sets) {
  std::string text;
  for (const EvalSet& set : sets) {
    text += set.name + ":";
    for (const EvalItem& item : set.items) text += " " + item.id;
    text += ";";
  }
  return text;
}

TEST(EvalSet, TheBundledSetsAreRead) {
  const Result<EvalSet> held_out = read_eval_set(BOREAS_SOURCE_DIR "/models/demo/held_out.jsonl");
  ASSERT_TRUE(held_out.ok()) << held_out.error().message;
  EXPECT_GE(held_out->items.size(), 1000u);
  const Result<EvalSet> handwritten = read_eval_set(BOREAS_SOURCE_DIR "/models/demo/handwritten.jsonl");
  ASSERT_TRUE(handwritten.ok()) << handwritten.error().message;
  EXPECT_EQ(handwritten->items.size(), 40u);
  EXPECT_TRUE(check_ids({*held_out, *handwritten}).ok());
  EXPECT_FALSE(check_ids({*held_out, *held_out}).ok());
}

TEST(EvalSet, BadLinesAreErrorsThatNameFileLineAndField) {
  const std::pair<const char*, const char*> bad[] = {
      {"{", "JSON object"},
      {"[]", "JSON object"},
      {R"({"kind": "k"})", "'id'"},
      {R"({"id": 5})", "'id'"},
      {R"({"id": "a", "kind": "", "part": "p"})", "'kind'"},
      {R"({"id": "a", "kind": "k", "part": "p", "request": 5})", "'request'"},
      {R"({"id": "a", "kind": "k", "part": "p", "request": {"messages": []}})", "'request.messages'"},
      {R"({"id": "a", "kind": "k", "part": "p", "request": {"messages": [1]}})", "'check'"},
      {R"({"id": "a", "kind": "k", "part": "p", "request": {"messages": [1]}, "check": {"type": "x"}})",
       "'check.type'"},
  };
  for (const auto& [text, field] : bad) {
    const std::string file = write_temporary("bad.jsonl", line("first", "k") + "\n" + text + "\n");
    const Result<EvalSet> set = read_eval_set(file);
    ASSERT_FALSE(set.ok()) << text;
    EXPECT_NE(set.error().message.find("bad.jsonl, line 3: "), std::string::npos) << set.error().message;
    EXPECT_NE(set.error().message.find(field), std::string::npos) << set.error().message;
  }
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_FALSE(read_eval_set(write_temporary("bad.jsonl", deep)).ok());
  EXPECT_FALSE(read_eval_set(write_temporary("bad.jsonl", "")).ok());
  EXPECT_FALSE(read_eval_set("/nowhere/at/all.jsonl").ok());
  EXPECT_FALSE(read_eval_set("/").ok());
}

TEST(EvalSet, SubsetsAreDeterministic) {
  const std::vector<EvalSet> all{set_of("x", {{"a1", "a"}, {"a2", "a"}, {"b1", "b"}, {"b2", "b"}, {"a3", "a"}}),
                                 set_of("y", {{"c1", "c"}, {"c2", "c"}, {"c3", "c"}})};
  const auto kept = [&](const Subset& subset) {
    std::vector<EvalSet> sets = all;
    keep_subset(sets, subset);
    return ids(sets);
  };
  EXPECT_EQ(kept({}), ids(all));
  EXPECT_EQ(kept({1, 0, 0}), "x: a1 b1;y: c1;");
  EXPECT_EQ(kept({0, 2, 0}), "x: a1 a2;");
  EXPECT_EQ(kept({0, 0, 2}), "x: b2;y: c3;");
  EXPECT_EQ(kept({0, 0, 4}), "x: a2 b2;y: c1 c3;");
  EXPECT_EQ(kept({0, 0, 100}), ids(all));
  EXPECT_EQ(kept({2, 5, 2}), "x: b1;y: c1;");
}

TEST(EvalReport, TablesCountBySetKindAndPart) {
  const EvalSet one = set_of("x", {{"b1", "b"}, {"a1", "a"}, {"a2", "a"}});
  const EvalSet two = set_of("y", {{"c1", "c"}});
  const std::vector<EvalOutcome> outcomes{{&one, &one.items[0], AnswerVerdict::kRight, {}},
                                          {&one, &one.items[1], AnswerVerdict::kWrong, {}},
                                          {&one, &one.items[2], AnswerVerdict::kUnscored, {}},
                                          {&two, &two.items[0], AnswerVerdict::kRight, {}}};
  std::ostringstream text;
  print_table(text, make_table(outcomes), false);
  EXPECT_EQ(text.str(),
            "x\n  a                  0/2        0.0 %  (1 unscored)\n  b                  1/1      100.0 %\n"
            "  total              1/3       33.3 %  (1 unscored)\n\ny\n  c                  1/1      100.0 %\n"
            "  total              1/1      100.0 %\n");
}

TEST(EvalReport, ABaselineShowsWhatChanged) {
  const EvalSet set = set_of("x", {{"a", "k"}, {"b", "k"}, {"c", "k"}, {"d", "k"}, {"e", "k"}});
  const auto outcomes = [&](const std::vector<AnswerVerdict>& verdicts) {
    std::vector<EvalOutcome> made;
    for (size_t i = 0; i < verdicts.size(); ++i) made.push_back({&set, &set.items[i], verdicts[i], {}});
    return made;
  };
  const std::vector<EvalOutcome> before =
      outcomes({AnswerVerdict::kRight, AnswerVerdict::kWrong, AnswerVerdict::kRight, AnswerVerdict::kUnscored});
  const std::vector<EvalOutcome> now = outcomes({AnswerVerdict::kWrong, AnswerVerdict::kRight, AnswerVerdict::kUnscored,
                                                 AnswerVerdict::kWrong, AnswerVerdict::kRight});
  for (const std::string& text : {verdict_lines(before), json::serialize(report_json(before, {}))}) {
    const Result<std::map<std::string, AnswerVerdict>> baseline = read_baseline(write_temporary("base.json", text));
    ASSERT_TRUE(baseline.ok()) << baseline.error().message;
    const BaselineChange change = compare_baseline(now, *baseline);
    EXPECT_EQ(change.newly_wrong, std::vector<std::string>{"a"});
    EXPECT_EQ(change.newly_right, std::vector<std::string>{"b"});
    EXPECT_EQ(change.unknown, std::vector<std::string>{"e"});
    EXPECT_EQ(change.compared, 2u);
  }
  for (const char* bad : {"", "[]", "{}", R"({"prompts": [5]})", R"({"prompts": [{"id": "a"}]})",
                          R"({"prompts": [{"id": "a", "verdict": "perhaps"}]})"}) {
    EXPECT_FALSE(read_baseline(write_temporary("base.json", bad)).ok()) << bad;
  }
}

TEST(EvalReference, AnswersAreComparedAsTheyAreScored) {
  const Answer reference = parse_marked_output("why<|END_THINKING|><|START_TEXT|> Yes. <|END_TEXT|>");
  EXPECT_FALSE(answers_differ({"Yes.", "other thoughts", {}}, reference));
  EXPECT_TRUE(answers_differ({"Yes", "", {}}, reference));
  EXPECT_TRUE(answers_differ({"Yes.", "", {{"f", 1}}}, reference));
  const Answer call = parse_marked_output(
      R"(<|END_THINKING|><|START_ACTION|>[{"tool_name": "f", "parameters": {"a": 1}}]<|END_ACTION|>)");
  EXPECT_FALSE(answers_differ({"text beside", "", {{"f", json::object{{"a", 1.0}}}}}, call));
  EXPECT_TRUE(answers_differ({std::nullopt, "", {}}, call));
}

TEST(EvalReference, TheFirstDifferingTokenIsFound) {
  const auto token = [](const std::string& bytes, const std::string& other, float gap) {
    return AnswerToken{bytes, {{bytes, -0.5f}, {other, -0.5f - gap}}};
  };
  const std::vector<AnswerToken> tokens{token("so", "x", 9), token(" 1", " 2", 0.25f), token("0", "1", 3),
                                        token("<|END_OF_TURN_TOKEN|>", "!", 4)};
  const std::optional<Divergence> second = find_divergence(tokens, "so 20");
  ASSERT_TRUE(second);
  EXPECT_EQ(second->token, 1);
  EXPECT_EQ(second->ours + second->other, " 1 2");
  EXPECT_FLOAT_EQ(second->gap, 0.25f);
  EXPECT_TRUE(second->second);
  const std::optional<Divergence> longer = find_divergence(tokens, "so 10!");
  ASSERT_TRUE(longer);
  EXPECT_EQ(longer->token, 3);
  EXPECT_TRUE(longer->second);
  const std::optional<Divergence> shorter = find_divergence(tokens, "so");
  ASSERT_TRUE(shorter);
  EXPECT_EQ(shorter->token, 1);
  EXPECT_FALSE(shorter->second);
  EXPECT_FALSE(find_divergence({}, "so"));
  EXPECT_FALSE(find_divergence({AnswerToken{"so", {}}}, "no"));
}

TEST(EvalReference, FilesAreReadOrRefused) {
  const Result<std::map<std::string, std::string>> bundled =
      read_reference(BOREAS_SOURCE_DIR "/models/demo/answers.jsonl");
  ASSERT_TRUE(bundled.ok()) << bundled.error().message;
  EXPECT_EQ(bundled->size(), 1760u);
  for (const char* bad : {"{", "[]", R"({"id": "a"})", R"({"id": "a", "output": 5})"}) {
    const Result<std::map<std::string, std::string>> read = read_reference(write_temporary("ref.jsonl", bad));
    ASSERT_FALSE(read.ok()) << bad;
    EXPECT_NE(read.error().message.find("line 1"), std::string::npos);
  }
  EXPECT_FALSE(read_reference("/nowhere").ok());
}

}  // namespace
}  // namespace boreas
