#include "bench_serve_workload.h"

#include <algorithm>
#include <cmath>

namespace boreas {

namespace json = boost::json;

namespace {

// Lengths are our own estimate of what such prompts and the answers of a reasoning model take; see docs/performance.md.
constexpr Workload kWorkloads[] = {
    {"competition-maths",
     "short problems, long reasoning",
     TextKind::kMaths,
     {120, 0.35, 60, 400},
     {6000, 0.6, 1000, 16000},
     1,
     1,
     {}},
    {"scientific-code",
     "programs to complete",
     TextKind::kScience,
     {900, 0.5, 300, 3000},
     {2000, 0.5, 400, 8000},
     1,
     1,
     {}},
    {"multiple-choice",
     "questions with choices, long reasoning",
     TextKind::kChoice,
     {250, 0.4, 100, 800},
     {2500, 0.7, 300, 8000},
     1,
     1,
     {}},
    {"coding-contest",
     "contest problems, programs after long reasoning",
     TextKind::kContest,
     {550, 0.4, 200, 1500},
     {5000, 0.6, 800, 16000},
     1,
     1,
     {}},
    {"graduate-questions",
     "questions of graduate level",
     TextKind::kGraduate,
     {200, 0.5, 60, 800},
     {4000, 0.6, 500, 12000},
     1,
     1,
     {}},
    {"agent",
     "coding with tools: turns that share a growing prefix",
     TextKind::kAgent,
     {3000, 0.3, 1500, 6000},
     {120, 0.6, 30, 600},
     6,
     12,
     {400, 0.8, 50, 3000}},
    {"long-documents",
     "a question about a long document",
     TextKind::kDocument,
     {32000, 0.6, 8000, 120000},
     {400, 0.5, 100, 1500},
     1,
     1,
     {}},
};

// Box and Muller's transform of two uniform draws.
int32_t draw(const Lengths& lengths, Prng& prng) {
  const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(prng.uniform())));
  const double normal = radius * std::cos(2 * M_PI * static_cast<double>(prng.uniform()));
  const double tokens = std::round(lengths.median * std::exp(lengths.sigma * normal));
  return static_cast<int32_t>(std::clamp<double>(tokens, lengths.min, lengths.max));
}

json::object message(std::string_view role, std::string content) {
  return {{"role", role}, {"content", std::move(content)}};
}

json::object tool(std::string_view name, std::string_view description, std::string_view argument) {
  const json::object parameters{{"type", "object"},
                                {"properties", json::object{{argument, json::object{{"type", "string"}}}}},
                                {"required", json::array{argument}}};
  return {{"type", "function"},
          {"function", json::object{{"name", name}, {"description", description}, {"parameters", parameters}}}};
}

json::array agent_tools() {
  return {tool("read_file", "Read a file of the project.", "path"),
          tool("run_command", "Run a shell command and return what it prints.", "command"),
          tool("search", "Find lines that match a pattern in all files.", "pattern")};
}

// The assistant's call that a tool's result answers.
void append_call(Conversation& conversation, size_t number, std::string result, Prng& prng) {
  constexpr const char* kCalls[][2] = {{"read_file", R"({"path": "src/store/index.py"})"},
                                       {"run_command", R"({"command": "python -m unittest"})"},
                                       {"search", R"({"pattern": "merge_pages"})"}};
  const auto& [name, arguments] = kCalls[prng.below(3)];
  const std::string id = "call_" + std::to_string(number);
  const json::object function{{"name", name}, {"arguments", arguments}};
  conversation.messages.push_back(json::object{
      {"role", "assistant"},
      {"content", nullptr},
      {"tool_calls", json::array{json::object{{"id", id}, {"type", "function"}, {"function", function}}}}});
  conversation.messages.push_back(json::object{{"role", "tool"}, {"tool_call_id", id}, {"content", std::move(result)}});
}

// A conversation's first turn with about so many words.
Conversation open_conversation(const Workload& workload, int64_t words, Prng& prng) {
  Conversation conversation;
  if (workload.kind == TextKind::kAgent) {
    constexpr std::string_view kRules =
        "You are a coding agent. Work in small steps, use one tool at a time, and stop when the tests pass.";
    conversation.tools = agent_tools();
    conversation.messages.push_back(message("system", std::string(kRules)));
    words -= count_words(kRules);
  }
  conversation.messages.push_back(message("user", make_text(workload.kind, std::max<int64_t>(words, 1), prng)));
  conversation.turns.push_back({conversation.messages.size(), 1});
  return conversation;
}

int64_t words_for(int32_t tokens, double around, const TextScale& scale) {
  return std::max<int64_t>(std::llround((tokens - around) / scale.tokens_per_word), 1);
}

}  // namespace

std::span<const Workload> workloads() { return kWorkloads; }

const Workload* find_workload(std::string_view name) {
  for (const Workload& workload : kWorkloads)
    if (workload.name == name) return &workload;
  return nullptr;
}

std::vector<Conversation> make_conversations(const Workload& workload, const WorkloadOptions& options) {
  std::vector<Conversation> conversations;
  const auto answer_tokens = [&](Prng& prng) {
    const int32_t drawn = draw(workload.answer, prng);
    if (options.output_tokens > 0) return options.output_tokens;
    return options.answer_tokens_max > 0 ? std::min(drawn, options.answer_tokens_max) : drawn;
  };
  for (int32_t left = options.requests; left > 0;) {
    Prng prng(options.seed * 0x9E3779B97F4A7C15u + conversations.size());  // each its own, whatever the others draw
    const int32_t drawn = draw(workload.prompt, prng);
    const int32_t prompt = options.prompt_tokens > 0 ? options.prompt_tokens : drawn;
    Conversation conversation =
        open_conversation(workload, words_for(prompt, options.scale.tokens_around, options.scale), prng);
    conversation.turns.front().answer_tokens = answer_tokens(prng);
    const auto turns = static_cast<int32_t>(prng.between(workload.turns_min, workload.turns_max));
    for (int32_t turn = 1; turn < std::min(turns, left); ++turn) {
      const int64_t words = words_for(draw(workload.result, prng), 0, options.scale);
      std::string result = make_text(workload.kind, words, prng);
      append_call(conversation, static_cast<size_t>(turn), std::move(result), prng);
      conversation.turns.push_back({conversation.messages.size(), answer_tokens(prng)});
    }
    left -= static_cast<int32_t>(conversation.turns.size());
    conversations.push_back(std::move(conversation));
  }
  return conversations;
}

Conversation make_probe(const Workload& workload, int32_t words, uint64_t seed) {
  Prng prng(seed);
  return open_conversation(workload, words, prng);
}

int64_t words_of(const Conversation& conversation) {
  int64_t words = 0;
  for (const json::value& entry : conversation.messages) {
    const json::value* content = entry.as_object().if_contains("content");
    if (content && content->is_string()) words += count_words(content->get_string());
  }
  return words;
}

}  // namespace boreas
