#include "eval_report.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>
#include <tuple>
#include <utility>

namespace boreas {

namespace json = boost::json;

namespace {

constexpr uintmax_t kBaselineBytesMax = uintmax_t{1} << 28;
constexpr const char* kAll = "all";
constexpr const char* kTotal = "total";

json::object answer_json(const Answer& answer) {
  json::array calls;
  for (const AnswerCall& call : answer.calls) {
    calls.push_back(json::object{{"name", call.name}, {"arguments", call.arguments}});
  }
  json::object object;
  if (answer.content) object["content"] = *answer.content;
  else object["content"] = nullptr;
  object["reasoning"] = answer.reasoning;
  object["tool_calls"] = std::move(calls);
  return object;
}

json::object outcome_json(const EvalOutcome& outcome) {
  const Reply& reply = outcome.reply;
  json::object object{{"id", outcome.item->id},
                      {"set", outcome.set->name},
                      {"kind", outcome.item->kind},
                      {"part", outcome.item->part},
                      {"verdict", verdict_name(outcome.verdict)}};
  if (!reply.error.empty()) {
    object["error"] = reply.error;
    return object;
  }
  object["answer"] = answer_json(reply.answer);
  object["finish_reason"] = reply.finish_reason;
  object["prompt_tokens"] = reply.prompt_tokens;
  object["output_tokens"] = reply.output_tokens;
  object["latency_ms"] = reply.latency_ms;
  return object;
}

void print_ids(std::ostream& out, const char* title, const std::vector<std::string>& ids) {
  out << title << ": " << ids.size();
  for (const std::string& id : ids) out << "\n  " << id;
  out << "\n";
}

Status read_verdicts(const std::string& file, const json::array& prompts,
                     std::map<std::string, AnswerVerdict>& verdicts) {
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::string path = "prompts." + std::to_string(i);
    const json::object* prompt = prompts[i].if_object();
    const json::value* id = prompt ? prompt->if_contains("id") : nullptr;
    const json::value* name = prompt ? prompt->if_contains("verdict") : nullptr;
    if (!id || !id->is_string()) return Error{file + ": '" + path + ".id' must be a string", path + ".id"};
    const std::optional<AnswerVerdict> verdict =
        name && name->is_string() ? verdict_of(name->get_string()) : std::nullopt;
    if (!verdict) {
      return Error{file + ": '" + path + ".verdict' must be right, wrong or unscored", path + ".verdict"};
    }
    verdicts[std::string(id->get_string())] = *verdict;
  }
  return Ok{};
}

}  // namespace

std::vector<TableRow> make_table(const std::vector<EvalOutcome>& outcomes) {
  std::vector<const EvalSet*> sets;
  for (const EvalOutcome& outcome : outcomes) {
    if (sets.empty() || sets.back() != outcome.set) sets.push_back(outcome.set);
  }
  std::vector<TableRow> rows;
  for (const EvalSet* set : sets) {
    // The total behind all kinds, a kind's own row before its parts.
    std::map<std::tuple<bool, std::string, bool, std::string>, TableRow> counts;
    for (const EvalOutcome& outcome : outcomes) {
      if (outcome.set != set) continue;
      const EvalItem& item = *outcome.item;
      const std::pair<std::string, std::string> keys[] = {{item.kind, kAll}, {item.kind, item.part}, {kTotal, kAll}};
      for (const auto& [kind, part] : keys) {
        TableRow& row = counts[{kind == kTotal, kind, part != kAll, part}];
        row.set = set->name;
        row.kind = kind;
        row.part = part;
        ++row.count;
        row.right += outcome.verdict == AnswerVerdict::kRight ? 1 : 0;
        row.unscored += outcome.verdict == AnswerVerdict::kUnscored ? 1 : 0;
      }
    }
    for (auto& entry : counts) rows.push_back(std::move(entry.second));
  }
  return rows;
}

void print_table(std::ostream& out, const std::vector<TableRow>& rows, bool with_parts) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1);
  std::string set;
  for (const TableRow& row : rows) {
    if (row.set != set) text << (set.empty() ? "" : "\n") << row.set << "\n";
    set = row.set;
    const bool whole = row.part == kAll;
    if (!whole && !with_parts) continue;
    text << "  " << std::left << std::setw(14) << (whole ? row.kind : "") << std::setw(with_parts ? 14 : 0)
         << (with_parts ? row.part : "") << std::right << std::setw(6) << row.right << "/" << std::left << std::setw(6)
         << row.count << std::right << std::setw(6)
         << 100 * static_cast<double>(row.right) / static_cast<double>(row.count) << " %";
    if (row.unscored > 0) text << "  (" << row.unscored << " unscored)";
    text << "\n";
  }
  out << text.str() << std::flush;
}

void print_errors(std::ostream& out, const std::vector<EvalOutcome>& outcomes) {
  constexpr size_t kShownMax = 5;
  std::map<std::string, std::vector<std::string>> by_error;  // ids
  for (const EvalOutcome& outcome : outcomes) {
    if (!outcome.reply.error.empty()) by_error[outcome.reply.error].push_back(outcome.item->id);
  }
  size_t shown = 0;
  for (const auto& [error, ids] : by_error) {
    if (shown++ == kShownMax) {
      out << "and " << by_error.size() - kShownMax << " other errors\n";
      break;
    }
    out << "not answered: " << ids.size() << " (" << ids.front() << (ids.size() > 1 ? ", ..." : "") << "): " << error
        << "\n";
  }
}

json::object report_json(const std::vector<EvalOutcome>& outcomes, json::object about) {
  json::array table;
  for (const TableRow& row : make_table(outcomes)) {
    table.push_back(json::object{{"set", row.set},
                                 {"kind", row.kind},
                                 {"part", row.part},
                                 {"right", row.right},
                                 {"count", row.count},
                                 {"unscored", row.unscored}});
  }
  json::array prompts;
  for (const EvalOutcome& outcome : outcomes) prompts.push_back(outcome_json(outcome));
  about["table"] = std::move(table);
  about["prompts"] = std::move(prompts);
  return about;
}

std::string verdict_lines(const std::vector<EvalOutcome>& outcomes) {
  std::string text = "{\"prompts\":[\n";
  for (size_t i = 0; i < outcomes.size(); ++i) {
    text += json::serialize(json::object{{"id", outcomes[i].item->id}, {"verdict", verdict_name(outcomes[i].verdict)}});
    text += i + 1 < outcomes.size() ? ",\n" : "\n";
  }
  return text + "]}\n";
}

Result<std::map<std::string, AnswerVerdict>> read_baseline(const std::string& file) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(file, error);
  if (error || bytes > kBaselineBytesMax) return Error{"cannot read the baseline " + file, "baseline"};
  std::stringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  const std::optional<json::value> parsed = parse_json(text.str());
  const json::object* root = parsed ? parsed->if_object() : nullptr;
  const json::value* prompts = root ? root->if_contains("prompts") : nullptr;
  if (!prompts || !prompts->is_array()) {
    return Error{file + ": 'prompts' must be a list; it is no result of boreas eval", "prompts"};
  }
  std::map<std::string, AnswerVerdict> verdicts;
  RETURN_IF_ERROR(read_verdicts(file, prompts->get_array(), verdicts));
  return verdicts;
}

BaselineChange compare_baseline(const std::vector<EvalOutcome>& outcomes,
                                const std::map<std::string, AnswerVerdict>& baseline) {
  BaselineChange change;
  for (const EvalOutcome& outcome : outcomes) {
    const auto found = baseline.find(outcome.item->id);
    if (found == baseline.end()) {
      change.unknown.push_back(outcome.item->id);
      continue;
    }
    if (outcome.verdict == AnswerVerdict::kUnscored || found->second == AnswerVerdict::kUnscored) continue;
    ++change.compared;
    if (outcome.verdict == found->second) continue;
    (outcome.verdict == AnswerVerdict::kWrong ? change.newly_wrong : change.newly_right).push_back(outcome.item->id);
  }
  return change;
}

void print_change(std::ostream& out, const BaselineChange& change) {
  out << "compared with the baseline: " << change.compared << " prompts\n";
  print_ids(out, "newly wrong", change.newly_wrong);
  print_ids(out, "newly right", change.newly_right);
  if (!change.unknown.empty()) print_ids(out, "not in the baseline", change.unknown);
}

Status write_file(const std::string& file, const std::string& text) {
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream << text;
  stream.close();
  if (!stream) return Error{"cannot write " + file};
  return Ok{};
}

}  // namespace boreas
