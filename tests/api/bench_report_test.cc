// `boreas bench report` on made-up recorded lines: which count, what a wrong one is told, the table, the picture; and
// which parts of the design `boreas bench parts` takes away.
#include "apps/bench_report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "apps/bench_figures.h"
#include "apps/bench_parts.h"
#include "apps/bench_plot.h"
#include "apps/command_line.h"
#include "apps/commands.h"

namespace boreas {
namespace {

namespace json = boost::json;

const std::string kH200 = "NVIDIA H200, 132 SMs";

// As `boreas bench decode` writes it.
json::object decode_line(int32_t batch, int32_t context, double tok_s,
                         const std::string& time = "2026-11-30T10:00:00Z") {
  return {{"bench", "decode"},
          {"arm", "megakernel"},
          {"device", kH200},
          {"commit", "0123456789ab"},
          {"time", time},
          {"model_shape", "north (dummy weights)"},
          {"batch", batch},
          {"same_token", false},
          {"context", context},
          {"temperature", 1.0},
          {"top_p", 1.0},
          {"tok_s", tok_s},
          {"tok_s_min", tok_s * 0.99},
          {"tok_s_max", tok_s * 1.01},
          {"read_gb_s", 4650.0},
          {"percent_of_limit", tok_s / 7}};
}

json::object with(json::object line, const char* field, const json::value& value) {
  line[field] = value;
  return line;
}
json::object without_field(json::object line, const char* field) {
  line.erase(field);
  return line;
}
json::object arm_line(const char* arm, const char* cut, double tok_s) {
  return with(with(decode_line(1, 8192, tok_s), "arm", arm), "cut", cut);
}
json::object part_line(const std::string& what, int32_t batch, double tok_s, double whole) {
  return with(with(decode_line(batch, 8192, tok_s), "without", what.c_str()), "tok_s_with", whole);
}

std::string text_of(const std::vector<json::object>& lines) {
  std::string text;
  for (const json::object& line : lines) text += json::serialize(line) + "\n";
  return text;
}

std::vector<RecordedDecode> read(const std::vector<json::object>& lines) {
  std::vector<RecordedDecode> read;
  const Status status = read_decode_lines("made up", text_of(lines), read);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  return read;
}

std::string message_of(const std::string& text) {
  std::vector<RecordedDecode> read;
  const Status status = read_decode_lines("results/a.ndjson", text, read);
  return status.ok() ? "" : status.error().message;
}

// Batch sizes, contexts, arms and parts, as a GPU may have left them.
std::vector<json::object> whole_session() {
  std::vector<json::object> lines;
  for (int32_t batch : {1, 2, 4, 8}) lines.push_back(decode_line(batch, 8192, 560 + 5 * batch));
  for (int32_t context : {1024, 32768, 262000}) lines.push_back(decode_line(1, context, 550));
  lines.push_back(arm_line("graph", "levels", 420));
  lines.push_back(arm_line("graph", "ops", 270));  // below 45 %
  lines.push_back(arm_line("dependent", "levels", 470));
  for (int32_t batch : {1, 8}) lines.push_back(part_line("ring: 4 chunks", batch, 452, 565));
  lines.push_back(part_line("a < b & \"c\" 'd' | e", 1, 500, 565));
  return lines;
}

std::vector<RecordedDecode> newest(const std::vector<json::object>& lines, const std::string& device = "") {
  const auto found = newest_of_device(read(lines), device);
  EXPECT_TRUE(found.ok()) << (found.ok() ? "" : found.error().message);
  return found.ok() ? *found : std::vector<RecordedDecode>{};
}

TEST(BenchReport, OnlyComparableLinesCount) {
  const json::object line = decode_line(1, 8192, 560);
  EXPECT_EQ(read({line}).size(), 1u);
  for (const json::object& other :
       {with(line, "bench", "prefill"), with(line, "temperature", 0.0), with(line, "top_p", 0.95),
        with(line, "same_token", true), with(line, "model_shape", "demo (dummy weights)"),
        without_field(line, "temperature"), without_field(line, "bench"), json::object{{"bench", "soak"}},
        json::object{{"hash", "x"}}})
    EXPECT_TRUE(read({other}).empty()) << json::serialize(other);
  EXPECT_TRUE(read({}).empty());
  EXPECT_EQ(message_of("\n\r\n" + json::serialize(line) + "\r\n" + json::serialize(line)), "");
}

TEST(BenchReport, AWrongLineIsToldWithFileLineAndField) {
  const json::object line = decode_line(1, 8192, 560);
  const std::string good = json::serialize(line) + "\n";
  const auto of = [&](const json::object& bad) { return message_of(good + json::serialize(bad) + "\n" + good); };
  const std::string here = "results/a.ndjson:2: ";
  for (const char* field : {"device", "commit", "time", "arm"}) {
    const std::string wanted = here + field + " is no text of 1 to 120 characters";
    for (const json::value& value : {json::value(nullptr), json::value(7), json::value(""), json::value("a\nb"),
                                     json::value(std::string(121, 'x'))})
      EXPECT_EQ(of(with(line, field, value)), wanted);
    EXPECT_EQ(of(without_field(line, field)), wanted);
  }
  for (const char* field : {"batch", "context", "tok_s", "tok_s_min", "tok_s_max", "percent_of_limit", "read_gb_s"}) {
    for (const json::value& value : {json::value("1"), json::value(-1), json::value(1e300), json::value(nullptr)})
      EXPECT_EQ(of(with(line, field, value)).find(here + field + " is no number from "), 0u) << field;
    EXPECT_EQ(of(without_field(line, field)).find(here + field + " is no number from "), 0u) << field;
  }
  EXPECT_EQ(of(with(line, "batch", 1.5)), here + "batch is not whole");
  EXPECT_EQ(of(with(line, "same_token", 0)), here + "same_token is neither true nor false");
  EXPECT_EQ(of(with(line, "temperature", "1")), here + "temperature is no number from 0 to 10");
  EXPECT_EQ(of(with(line, "cut", 1)), here + "cut is no text of 1 to 120 characters");
  EXPECT_EQ(of(with(line, "without", "ring")), here + "tok_s_with is no number from 0.001 to 1e+09");
  EXPECT_EQ(of(with(part_line("ring", 1, 5, 5), "tok_s_with", 0)).find(here + "tok_s_with"), 0u);
  EXPECT_EQ(of(with(line, "bench", 1)), here + "bench is no text of 1 to 120 characters");
  EXPECT_EQ(message_of(good + "[1]"), here + "no JSON object");
  EXPECT_EQ(message_of(good + "{\"bench\": \"dec").find(here + "no JSON: "), 0u);
  EXPECT_EQ(message_of(good + "{\"bench\": \"\xff\"}").find(here + "no JSON: "), 0u);
  EXPECT_EQ(message_of(good + std::string(1000, '[')).find(here + "no JSON: "), 0u);
  EXPECT_EQ(message_of(good + std::string((1 << 20) + 1, ' ')), here + "longer than 1048576 bytes");
}

TEST(BenchReport, TheNewestOfEachKindCounts) {
  const auto lines = newest({decode_line(1, 8192, 10, "2026-11-30T11:00:00Z"),
                             decode_line(1, 8192, 20, "2026-11-30T10:00:00Z"), decode_line(8, 8192, 30),
                             decode_line(1, 1024, 40), arm_line("graph", "ops", 50), arm_line("graph", "levels", 60),
                             part_line("ring", 1, 70, 80), decode_line(8, 8192, 35)});  // as new, further down
  std::vector<double> speeds;
  for (const RecordedDecode& line : lines) speeds.push_back(line.tok_s);
  EXPECT_EQ(speeds, (std::vector<double>{40, 10, 35, 70, 60, 50}));
  EXPECT_EQ(lines[3].tok_s_with, 80);
}

TEST(BenchReport, TheDeviceIsThatOfMostLinesOrTheOneNamed) {
  const json::object other = with(decode_line(1, 8192, 400), "device", "NVIDIA H100, 132 SMs");
  const std::vector<json::object> lines{other, decode_line(1, 8192, 500), decode_line(2, 8192, 600)};
  EXPECT_EQ(newest(lines).size(), 2u);
  EXPECT_EQ(newest(lines).front().device, kH200);
  EXPECT_EQ(newest(lines, "H100").front().tok_s, 400);
  const auto several = newest_of_device(read(lines), "NVIDIA"), none = newest_of_device(read(lines), "B200");
  ASSERT_FALSE(several.ok());
  EXPECT_NE(several.error().message.find("\"NVIDIA H100, 132 SMs\", \"NVIDIA H200, 132 SMs\""), std::string::npos);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("\"B200\""), std::string::npos);
  EXPECT_FALSE(newest_of_device({}, "").ok());
}

TEST(BenchReport, TheTableTellsLossesAndUntunedArms) {
  const std::string table = report_table(newest(whole_session()));
  const auto row_of = [&](const std::string& title) {
    const size_t at = table.find("\n" + title);
    return at == std::string::npos ? "" : table.substr(at + 1, table.find('\n', at + 1) - at - 1);
  };
  EXPECT_EQ(table.find(kH200 + "; commit 0123456789ab\n"), 0u);
  EXPECT_NE(row_of("ring: 4 chunks").find(" 20.0 %"), std::string::npos) << table;  // 452 of 565 in its own run
  EXPECT_NE(row_of("CUDA graph, cut where workers wait").find(" 25.7 %"), std::string::npos) << table;
  EXPECT_EQ(row_of("CUDA graph, cut where workers wait").find("untuned"), std::string::npos) << table;
  EXPECT_NE(row_of("CUDA graph, a kernel an op").find("untuned"), std::string::npos) << table;
}

// Another commit's megakernel, or one measured later, says nothing about what an arm lost.
TEST(BenchReport, AnArmIsComparedWithTheMegakernelOfItsRun) {
  const json::object arm = arm_line("graph", "levels", 420);  // at 10:00:00
  const json::object before = decode_line(1, 8192, 560, "2026-11-30T09:59:58Z");
  const json::object long_before = decode_line(1, 8192, 480, "2026-11-30T08:00:00Z");
  const json::object after = decode_line(1, 8192, 600, "2026-11-30T11:00:00Z");
  const json::object other = with(decode_line(1, 8192, 700, "2026-11-30T09:59:59Z"), "commit", "ba9876543210");
  const auto of_arm = [](const std::vector<json::object>& lines) {
    const auto all = newest(lines);
    return all.back().arm == "graph" ? all.back() : RecordedDecode{};
  };
  const RecordedDecode compared = of_arm({other, before, after, long_before, arm});
  EXPECT_EQ(compared.tok_s_with, 560);
  EXPECT_DOUBLE_EQ(compared.loss_percent(), 25);
  EXPECT_EQ(of_arm({other, after, arm}).tok_s_with, 0);
  EXPECT_NE(report_table(newest({before, arm})).find(" 25.0 %"), std::string::npos);
  EXPECT_EQ(report_table(newest({other, arm})).find("inf"), std::string::npos);
}

TEST(BenchReport, ADocumentGetsTheTableBetweenItsMarks) {
  const std::string begin = "<!-- report: begin, written by boreas bench report -->\n", end = "<!-- report: end -->\n";
  const auto lines = newest(whole_session());
  const auto filled = with_report("before\n" + begin + "old\n" + end + "after\n", lines);
  ASSERT_TRUE(filled.ok());
  EXPECT_EQ(filled->find("before\n" + begin + "| " + kH200 + " | batch | tokens/s |"), 0u) << *filled;
  EXPECT_EQ(filled->find("old"), std::string::npos);
  EXPECT_NE(filled->find("| ring: 4 chunks | 1 | 452 | 64.6 % | 20.0 % | 0123456789ab |\n"), std::string::npos)
      << *filled;
  EXPECT_NE(filled->find("| CUDA graph, a kernel an op | 1 | 270 | 38.6 % | untuned | "), std::string::npos) << *filled;
  EXPECT_NE(filled->find("a \\< b & \"c\" 'd' \\| e"), std::string::npos) << *filled;
  EXPECT_EQ(filled->substr(filled->size() - 6), "after\n");
  EXPECT_EQ(with_report(*filled, lines).value(), *filled);
  for (const std::string& wrong : {std::string("no marks"), begin, end + begin})
    EXPECT_FALSE(with_report(wrong, lines).ok()) << wrong;
}

// Elements nest and close, attributes are quoted, and every & begins one of the five entities.
std::string xml_problem(const std::string& text) {
  std::vector<std::string> open;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '&') {
      const std::string entity = text.substr(at, text.find(';', at) - at + 1);
      for (const char* known : {"&lt;", "&gt;", "&amp;", "&apos;", "&quot;"})
        if (entity == known) at += entity.size();
      if (text[at] == '&') return "a bare & before " + text.substr(at, 20);
      continue;
    }
    if (text[at] == '>') return "a bare > before " + text.substr(at, 20);
    if (text[at] != '<') {
      ++at;
      continue;
    }
    size_t end = at + 1;
    for (char quote = 0; end < text.size() && (quote != 0 || text[end] != '>'); ++end) {
      if (text[end] == '<') return "a < in a tag: " + text.substr(at, 40);
      if (quote == 0 && text[end] == '\'') quote = '\'';
      else if (text[end] == quote) quote = 0;
    }
    if (end >= text.size()) return "an open tag: " + text.substr(at, 40);
    const std::string tag = text.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag[0] == '/') {
      if (open.empty() || "/" + open.back() != tag) return "a wrong end: " + tag;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = end + 1;
  }
  return open.empty() ? "" : "never closed: " + open.back();
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

TEST(BenchReport, ThePictureIsWellFormedAndLabelsEverySeries) {
  ASSERT_NE(xml_problem("<a><b></a></b>"), "");
  ASSERT_NE(xml_problem("<a>x & y</a>"), "");
  const std::string svg = draw_results_svg(newest(whole_session()));
  EXPECT_EQ(xml_problem(svg), "") << svg;
  EXPECT_EQ(svg.find("<svg xmlns='http://www.w3.org/2000/svg'"), 0u);
  for (const char* label : {">megakernel<", ">CUDA graph, cut where workers wait<", ">CUDA graph, a kernel an op<",
                            ">dependent launch, cut where workers wait<", ">ring: 4 chunks<", ">80 %<", ">256K<",
                            ">8K<", ">batch size<", ">positions before the step<", ">batch 1<", ">batch 8<",
                            ">a &lt; b &amp; &quot;c&quot; &apos;d&apos; | e<", ">38.6 %, 270 tok/s, untuned<"})
    EXPECT_EQ(count_of(svg, label) > 0, true) << label;
  EXPECT_EQ(count_of(svg, "<circle "), 8u);  // batches 1, 2, 4, 8 and three more contexts beside 8K
  EXPECT_EQ(count_of(svg, "<polyline "), 2u);
  EXPECT_EQ(count_of(svg, "tok/s"), 8u);  // bars: six at batch 1, two at batch 8
}

TEST(BenchReport, LittleMakesASmallPicture) {
  for (const std::vector<json::object>& lines : {std::vector<json::object>{decode_line(1, 8192, 560)},
                                                 {decode_line(3, 77, 0.1)},
                                                 {decode_line(1, 1 << 24, 1399)},
                                                 {arm_line("graph", "levels", 300)},
                                                 {with(decode_line(1, 8192, 1), "arm", "a<b>&")}}) {
    const std::string svg = draw_results_svg(newest(lines));
    EXPECT_EQ(xml_problem(svg), "") << svg;
    std::string lower = svg;
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
    for (const char* wrong : {"nan", "'inf", "-inf", " inf"}) EXPECT_EQ(lower.find(wrong), std::string::npos) << svg;
  }
}

int run_boreas(std::vector<std::string> words) {
  words.insert(words.begin(), "boreas");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  return run_program(static_cast<int>(arguments.size()), arguments.data(), "0", add_commands);
}

// Before anything is measured or a server is asked; 2: bad usage.
TEST(BenchResults, AFolderThatCannotTakeTheLineIsRefusedAtOnce) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("boreas-results-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string file = folder / "file", none = folder / "none", locked = folder / "locked";
  std::ofstream(file) << "no folder";
  std::filesystem::create_directories(locked);
  std::filesystem::permissions(locked, std::filesystem::perms::owner_read);
  std::vector<std::string> refused = {none, file, ""};
  if (::geteuid() != 0) refused.push_back(locked);  // root writes anywhere
  for (const std::string& results : refused) {
    for (const char* bench : {"decode", "prefill", "serve", "plan", "parts", "tune"}) {
      testing::internal::CaptureStderr();
      EXPECT_EQ(run_boreas({"bench", bench, "--results=" + results}), 2) << bench << " " << results;
      EXPECT_NE(testing::internal::GetCapturedStderr().find("--results"), std::string::npos) << bench;
    }
  }
  std::filesystem::permissions(locked, std::filesystem::perms::owner_all);
  std::filesystem::remove_all(folder);
}

// Parts of `bench serve --all` have requests and clients of their own.
TEST(BenchServeFlags, OfOneLoadAreRefusedForTheList) {
  for (const char* flag : {"--rate", "--clients", "--requests", "--warmup"}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(run_boreas({"bench", "serve", "--all", "--model", "none", flag, "2"}), 2) << flag;
    EXPECT_NE(testing::internal::GetCapturedStderr().find(flag), std::string::npos) << flag;
  }
}

TEST(BenchReport, TheCommandReadsAFolderAndWritesThePicture) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("boreas-report-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string svg = folder / "a.svg", results = folder.string();
  EXPECT_EQ(run_boreas({"bench", "report", "--results", results}), 1) << "no lines at all";
  std::ofstream(folder / "one.ndjson") << text_of({decode_line(1, 8192, 560)});
  std::ofstream(folder / "two.ndjson") << text_of(whole_session());
  EXPECT_EQ(run_boreas({"bench", "report", "--results", results, "--device", "H200", "--svg", svg}), 0);
  std::stringstream drawn;
  drawn << std::ifstream(svg).rdbuf();
  EXPECT_EQ(drawn.str(), draw_results_svg(newest(whole_session())));
  EXPECT_EQ(run_boreas({"bench", "report", "--results", results, "--svg", (folder / "none/a.svg").string()}), 1);
  EXPECT_EQ(run_boreas({"bench", "report", "--results", results, "--document", svg}), 1) << "no marks";
  EXPECT_EQ(run_boreas({"bench", "report", "--results", results, "--device", "none"}), 1);
  EXPECT_EQ(run_boreas({"bench", "report", "--results", (folder / "none").string()}), 1);
  std::ofstream(folder / "two.ndjson", std::ios::app) << "{";
  EXPECT_EQ(run_boreas({"bench", "report", "--results", results}), 1);
  std::filesystem::remove_all(folder);
}

TEST(BenchParts, TakesAwayWhatThereIs) {
  const auto named = [](const std::vector<DesignPart>& parts, const std::string& without) {
    return std::find_if(parts.begin(), parts.end(), [&](const DesignPart& part) { return part.without == without; });
  };
  const ModelConfig config = model_shape("north").value();
  const Program of_one = compile(config, h200_spec(), 1).value(), of_eight = compile(config, h200_spec(), 8).value();
  const std::vector<DesignPart> one = design_parts(1, of_one), eight = design_parts(8, of_eight);
  EXPECT_EQ(one.front().without, "");
  EXPECT_EQ(one.size(), 8u);
  EXPECT_EQ(eight.size(), 7u) << "the whole, a ring of 4 chunks, both credits, poll delays, a producer, inner vectors";
  EXPECT_EQ(named(one, "ring: 8 chunks")->tuning.ring_chunks_max, 8);
  EXPECT_EQ(named(eight, "ring: 8 chunks"), eight.end());
  EXPECT_EQ(named(one, "one producer warp")->tuning.producers_max, 1);
  EXPECT_FALSE(named(one, "kernel for any number of rows")->tuning.one_row_kernel);
  EXPECT_FALSE(named(eight, "inner vectors published at once")->tuning.early_inner);
  const cuda::CudaTuning& credit = named(eight, "credits: 1 chunk in flight")->tuning;
  for (int32_t credits : credit.credits_for(8)) EXPECT_EQ(credits, 1);
  EXPECT_EQ(credit.credits_for(1), cuda::CudaTuning{}.credits_for(1));
  for (size_t i = 0; i < one.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_NE(one[i].without, one[j].without);
}

TEST(BenchDecodeGoals, AreAskedOfTheMegakernelOnAnH200) {
  const auto line = [](int32_t batch, int32_t context, double tok_s) {
    return with(decode_line(batch, context, tok_s), "runs", 5);
  };
  for (const auto& [context, wanted] :
       {std::pair{1024, 585.0}, {8192, 560}, {32768, 510}, {131072, 375}, {262000, 280}, {262144 - 65, 280}}) {
    EXPECT_FALSE(misses_goal(line(1, context, wanted))) << context;
    EXPECT_TRUE(misses_goal(line(1, context, wanted - 0.1))) << context;
  }
  EXPECT_EQ(goal_text(*decode_goal(line(1, 8192, 1))), "at least 560 tok/s");
  for (int32_t batch = 2; batch <= 8; ++batch) {
    EXPECT_FALSE(misses_goal(with(line(batch, 8192, 1), "percent_of_limit", 80))) << batch;
    EXPECT_TRUE(misses_goal(with(line(batch, 8192, 9999), "percent_of_limit", 79.9))) << batch;
  }
  EXPECT_EQ(goal_text(*decode_goal(line(4, 8192, 1))), "at least 80 % of the limit");
  const json::object asked = line(1, 8192, 1);
  ASSERT_TRUE(decode_goal(asked));
  for (const json::object& other :
       {with(asked, "device", "NVIDIA H100, 132 SMs"), with(asked, "arm", "graph"), with(asked, "same_token", true),
        with(asked, "temperature", 0), with(asked, "top_p", 0.95), with(asked, "runs", 4),
        with(asked, "model_shape", "north"), line(1, 8191, 1), line(2, 1024, 1), line(9, 8192, 1)}) {
    EXPECT_FALSE(decode_goal(other)) << json::serialize(other);
    EXPECT_FALSE(misses_goal(other));
  }
}

// No run without a GPU may look like a measurement.
TEST(BenchParts, NeedsAGpu) { EXPECT_EQ(run_boreas({"bench", "parts", "--device", "cpu"}), 1); }

}  // namespace
}  // namespace boreas
