#include "eval_reference.h"

#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>
#include <utility>

#include "eval_report.h"

namespace boreas {

namespace json = boost::json;

namespace {

constexpr uintmax_t kFileBytesMax = uintmax_t{1} << 28;

std::string shown(const std::string& text) {
  constexpr size_t kShownMax = 200;
  std::string cut(text, 0, kShownMax);
  if (cut.size() < text.size()) cut.append("...");
  return json::serialize(json::value(cut));
}

std::string answer_text(const Answer& answer) {
  if (answer.calls.empty()) return shown(answer.content.value_or(""));
  std::string text = "calls";
  for (const AnswerCall& call : answer.calls) text += " " + call.name + json::serialize(call.arguments);
  return text;
}

// Points of both sides, kind by kind.
void print_points(std::ostream& out, const std::vector<TableRow>& ours, const std::vector<TableRow>& theirs) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << "kind                 here  reference  points apart\n";
  for (size_t i = 0; i < ours.size(); ++i) {
    if (ours[i].part != "all") continue;
    const double count = static_cast<double>(ours[i].count);
    const double here = 100 * static_cast<double>(ours[i].right) / count;
    const double reference = 100 * static_cast<double>(theirs[i].right) / count;
    text << std::left << std::setw(18) << ours[i].kind << std::right << std::setw(7) << here << std::setw(11)
         << reference << std::showpos << std::setw(14) << here - reference << std::noshowpos << "\n";
  }
  out << text.str();
}

void print_divergence(std::ostream& out, const std::vector<AnswerToken>& tokens, const std::string& output) {
  const std::optional<Divergence> place = find_divergence(tokens, output);
  if (!place) {
    out << "  no log-probabilities of the tokens: no gap\n";
    return;
  }
  out << "  first at token " << place->token << ": " << shown(place->ours) << " over " << shown(place->other) << " by "
      << place->gap << " (log-probability)" << (place->second ? ", which the reference took" : "") << "\n";
}

}  // namespace

Result<std::map<std::string, std::string>> read_reference(const std::string& file) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(file, error);
  if (error || bytes > kFileBytesMax) return Error{"cannot read the reference answers in " + file, "reference"};
  std::map<std::string, std::string> outputs;
  std::ifstream stream(file, std::ios::binary);
  int64_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (trim(line).empty()) continue;
    const std::optional<json::value> parsed = parse_json(line);
    const json::object* object = parsed ? parsed->if_object() : nullptr;
    for (const char* key : {"id", "output"}) {
      const json::value* value = object ? object->if_contains(key) : nullptr;
      if (value && value->is_string()) continue;
      return Error{file + ", line " + std::to_string(number) + ": '" + key + "' must be a string", key};
    }
    outputs[std::string(object->at("id").get_string())] = std::string(object->at("output").get_string());
  }
  return outputs;
}

bool answers_differ(const Answer& answer, const Answer& reference) {
  if (!same_calls(answer.calls, reference.calls)) return true;
  return reference.calls.empty() && trim(answer.content.value_or("")) != trim(reference.content.value_or(""));
}

std::optional<Divergence> find_divergence(const std::vector<AnswerToken>& tokens, const std::string& output) {
  size_t at = 0;  // bytes of the output that our tokens have repeated
  for (size_t i = 0; i < tokens.size(); ++i) {
    const AnswerToken& token = tokens[i];
    const bool last = i + 1 == tokens.size();  // the end of the turn, which the output leaves out
    if (!last && !token.bytes.empty() && output.compare(at, token.bytes.size(), token.bytes) == 0) {
      at += token.bytes.size();
      continue;
    }
    if (token.top.size() < 2) return std::nullopt;
    const TokenChoice& other = token.top[0].bytes == token.bytes ? token.top[1] : token.top[0];
    Divergence place{static_cast<int64_t>(i), token.bytes, other.bytes, token.top[0].logprob - token.top[1].logprob};
    place.second = !other.bytes.empty() && output.compare(at, other.bytes.size(), other.bytes) == 0;
    return place;
  }
  return std::nullopt;
}

Status compare_reference(std::ostream& out, const std::vector<EvalOutcome>& outcomes,
                         const std::map<std::string, std::string>& reference, const RunOptions& options,
                         const PythonSandbox* sandbox) {
  HttpClient client(options.target, options.timeout_ms);
  AskOptions again = options.ask;
  again.top_tokens = true;
  std::vector<EvalOutcome> ours, theirs;  // of prompts that the reference knows
  std::ostringstream differences;
  size_t differ = 0;
  for (const EvalOutcome& outcome : outcomes) {
    const auto found = reference.find(outcome.item->id);
    if (found == reference.end()) continue;
    const Answer known = parse_marked_output(found->second);
    ours.push_back(outcome);
    theirs.push_back({outcome.set, outcome.item, score(known, outcome.item->check, sandbox), {}});
    if (outcome.reply.error.empty() && !answers_differ(outcome.reply.answer, known)) continue;
    ++differ;
    differences << outcome.item->id << ": " << verdict_name(outcome.verdict) << " here, "
                << verdict_name(theirs.back().verdict) << " in the reference\n  here       "
                << (outcome.reply.error.empty() ? answer_text(outcome.reply.answer) : outcome.reply.error)
                << "\n  reference  " << answer_text(known) << "\n";
    if (!outcome.reply.error.empty()) continue;
    ASSIGN_OR_RETURN(const Reply reply, ask(client, outcome.item->request, again));
    print_divergence(differences, reply.tokens, found->second);
  }
  out << "answers that differ from the reference: " << differ << " of " << ours.size() << " (" << outcomes.size()
      << " prompts)\n"
      << differences.str();
  if (!ours.empty()) print_points(out, make_table(ours), make_table(theirs));
  return Ok{};
}

}  // namespace boreas
