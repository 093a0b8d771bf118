#include "eval_likelihood.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <mutex>
#include <numeric>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "eval_score.h"

namespace boreas {

namespace json = boost::json;

namespace {

constexpr uintmax_t kTextBytesMax = uintmax_t{1} << 28;

Result<ScoredText> read_text(const std::string& line, const Tokenizer& tokenizer) {
  const std::optional<json::value> parsed = parse_json(line);
  const json::object* object = parsed ? parsed->if_object() : nullptr;
  ScoredText text;
  for (const char* key : {"id", "prompt", "answer"}) {
    const json::value* value = object ? object->if_contains(key) : nullptr;
    if (!value || !value->is_string()) return Error{std::string("'") + key + "' must be a string", key};
    const std::string_view content = value->get_string();
    if (key == std::string_view("id")) {
      text.id = content;
      continue;
    }
    if (key == std::string_view("answer")) text.answer_from = text.tokens.size();
    ASSIGN_OR_RETURN(const std::vector<TokenId> ids, tokenizer.encode(content, {false, true}));
    text.tokens.insert(text.tokens.end(), ids.begin(), ids.end());
  }
  if (text.tokens.size() < 2) return Error{"the text has less than two tokens", "answer"};
  return text;
}

// Page ids of pages first .. last in a pool of so many, which a long text goes round and round.
std::vector<PageId> pages_of(int64_t first, int64_t last, int32_t pool) {
  std::vector<PageId> pages;
  for (int64_t page = first; page <= last; ++page) {
    pages.emplace_back(static_cast<int32_t>(pool > 0 ? page % pool : 0));
  }
  return pages;
}

// Runs one range of the text and appends what its tokens but the first score.
Status score_range(Executor& executor, std::span<const TokenId> tokens, int32_t begin, int32_t end,
                   std::vector<float>& logprobs) {
  const ExecutorInfo& info = executor.info();
  const int64_t last_page = (end - 1) / kPagePositions;
  const int64_t first_page = info.window > 0 ? std::max(0, begin - info.window + 1) / kPagePositions : 0;
  const std::vector<PageId> full = pages_of(0, last_page, info.pages_full);
  const std::vector<PageId> sliding = pages_of(first_page, last_page, info.pages_sliding);
  StepRow row;
  row.position = begin;
  row.tokens = tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  row.full_pages = full;
  row.sliding_pages = sliding;
  row.sliding_first = static_cast<int32_t>(first_page);
  row.logits = LogitsWanted::kAll;
  row.prompt_top_logprobs = info.vocab_size;
  StepPlan plan;
  plan.rows.push_back(row);
  ASSIGN_OR_RETURN(const StepTicket ticket, executor.submit(plan));
  ASSIGN_OR_RETURN(const StepResult result, executor.wait(ticket));
  const size_t vocab = static_cast<size_t>(info.vocab_size);
  for (const SampledToken& token : result.rows.at(0).prompt_logprobs) {
    if (token.corrupted) return Error{"the executor's logits hold no numbers"};
    if (token.top.size() != vocab) {
      return Error{"this executor gives only " + std::to_string(token.top.size()) + " of " + std::to_string(vocab) +
                   " log-probabilities a position; a divergence needs all"};
    }
    const size_t at = logprobs.size();
    logprobs.resize(at + vocab);
    for (const TokenLogprob& one : token.top) logprobs[at + static_cast<size_t>(one.id)] = one.logprob;
  }
  return Ok{};
}

LikelihoodFigures summarise(const std::vector<PositionFigures>& positions) {
  LikelihoodFigures figures;
  figures.positions = static_cast<int64_t>(positions.size());
  if (positions.empty()) return figures;
  std::vector<double> kl;
  for (const PositionFigures& position : positions) {
    kl.push_back(position.kl);
    figures.top1_equal += position.top1_equal ? 1 : 0;
    figures.nll_here += position.nll_here;
    figures.nll_oracle += position.nll_oracle;
  }
  std::sort(kl.begin(), kl.end());
  const double count = static_cast<double>(positions.size());
  figures.kl_mean = std::accumulate(kl.begin(), kl.end(), 0.0) / count;
  figures.kl_p99 = kl[std::min(kl.size() - 1, kl.size() * 99 / 100)];
  figures.kl_max = kl.back();
  figures.top1_equal /= count;
  figures.nll_here /= count;
  figures.nll_oracle /= count;
  return figures;
}

// What is compared of one text, position by position.
Result<std::vector<PositionFigures>> compare_text(const ScoredText& text, const Oracle& oracle,
                                                  const std::vector<float>& here) {
  ASSIGN_OR_RETURN(const std::vector<float> logits, oracle(text));
  const size_t vocab = here.size() / (text.tokens.size() - 1);
  if (logits.size() != vocab * text.tokens.size()) {
    return Error{"the oracle gives " + std::to_string(logits.size()) + " logits for " + text.id + ", expected " +
                 std::to_string(vocab * text.tokens.size())};
  }
  std::vector<PositionFigures> positions;
  for (size_t i = 0; i + 1 < text.tokens.size(); ++i) {
    positions.push_back(compare_position(std::span(logits).subspan(i * vocab, vocab),
                                         std::span(here).subspan(i * vocab, vocab), text.tokens[i + 1]));
  }
  return positions;
}

void print_line(std::ostream& out, const char* name, const LikelihoodFigures& figures) {
  std::ostringstream text;
  text << std::left << std::setw(10) << name << std::right << std::setw(10) << figures.positions << std::scientific
       << std::setprecision(3) << std::setw(12) << figures.kl_mean << std::setw(12) << figures.kl_p99 << std::fixed
       << std::setprecision(2) << std::setw(9) << 100 * figures.top1_equal << " %" << std::setprecision(5)
       << std::setw(11) << figures.nll_here << std::setw(11) << figures.nll_oracle << "\n";
  out << text.str();
}

json::object figures_json(const LikelihoodFigures& figures) {
  return json::object{{"positions", figures.positions},   {"kl_mean", figures.kl_mean},
                      {"kl_p99", figures.kl_p99},         {"kl_max", figures.kl_max},
                      {"top1_equal", figures.top1_equal}, {"nll_here", figures.nll_here},
                      {"nll_oracle", figures.nll_oracle}};
}

}  // namespace

Result<std::vector<ScoredText>> read_scored_texts(const std::string& file, const Tokenizer& tokenizer,
                                                  int64_t tokens_max) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(file, error);
  if (error || bytes > kTextBytesMax) return Error{"cannot read the texts in " + file, "text"};
  std::vector<ScoredText> texts;
  std::ifstream stream(file, std::ios::binary);
  int64_t number = 0, tokens = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (trim(line).empty()) continue;
    Result<ScoredText> text = read_text(line, tokenizer);
    if (!text.ok()) {
      return Error{file + ", line " + std::to_string(number) + ": " + text.error().message, text.error().param};
    }
    const int64_t count = static_cast<int64_t>(text->tokens.size());
    if (tokens_max > 0 && !texts.empty() && tokens + count > tokens_max) continue;
    tokens += count;
    texts.push_back(std::move(*text));
  }
  if (texts.empty()) return Error{file + " holds no texts", "text"};
  return texts;
}

Result<std::vector<float>> executor_logprobs(Executor& executor, std::span<const TokenId> tokens) {
  const ExecutorInfo& info = executor.info();
  const int32_t count = static_cast<int32_t>(tokens.size());
  const int32_t range = std::min(info.tokens_max, 2048);
  const bool fits = count <= info.context_max &&
                    (info.pages_full == 0 || (count + kPagePositions - 1) / kPagePositions <= info.pages_full) &&
                    (info.window == 0 || (info.window + range) / kPagePositions + 2 <= info.pages_sliding ||
                     (count + kPagePositions - 1) / kPagePositions <= info.pages_sliding);
  if (!fits || range < 2) {
    return Error{"a text of " + std::to_string(count) + " tokens does not fit the executor's memory"};
  }
  SequenceSpec spec;
  spec.prompt = tokens;
  spec.sampling.temperature = 0;
  executor.open_sequence(0, spec);
  std::vector<float> logprobs;
  Status status = Ok{};
  // Each range but the first begins with the last token of the one before, whose successor it scores.
  for (int32_t begin = 0; begin + 1 < count && status.ok();) {
    const int32_t end = std::min(count, begin + range);
    status = score_range(executor, tokens, begin, end, logprobs);
    begin = end - 1;
  }
  executor.close_sequence(0);
  if (!status.ok()) return status.error();
  return logprobs;
}

PositionFigures compare_position(std::span<const float> oracle, std::span<const float> here, TokenId following) {
  const auto top = [](std::span<const float> values) { return std::max_element(values.begin(), values.end()); };
  // Also of `here`: log-probabilities rounded to floats sum to 1 only nearly, which could make a divergence negative.
  const auto log_sum = [&](std::span<const float> values) {
    const double largest = *top(values);
    double sum = 0;
    for (const float value : values) sum += std::exp(value - largest);
    return largest + std::log(sum);
  };
  const double oracle_sum = log_sum(oracle), here_sum = log_sum(here);
  PositionFigures figures;
  for (size_t i = 0; i < oracle.size(); ++i) {
    const double logprob = oracle[i] - oracle_sum;
    figures.kl += std::exp(logprob) * (logprob - (here[i] - here_sum));
  }
  figures.top1_equal = top(oracle) - oracle.begin() == top(here) - here.begin();
  const size_t next = static_cast<size_t>(following);
  figures.nll_here = here_sum - here[next];
  figures.nll_oracle = oracle_sum - oracle[next];
  return figures;
}

Result<LikelihoodResult> measure_likelihood(Executor& executor, const std::vector<ScoredText>& texts,
                                            const Oracle& oracle, int32_t threads) {
  std::vector<PositionFigures> all, answers;
  const size_t group = static_cast<size_t>(std::max(threads, 1));  // texts whose distributions are held at once
  for (size_t begin = 0; begin < texts.size(); begin += group) {
    const size_t end = std::min(texts.size(), begin + group);
    std::vector<std::vector<float>> here;
    for (size_t i = begin; i < end; ++i) {
      ASSIGN_OR_RETURN(std::vector<float> logprobs, executor_logprobs(executor, texts[i].tokens));
      here.push_back(std::move(logprobs));
    }
    std::vector<Result<std::vector<PositionFigures>>> compared(end - begin, std::vector<PositionFigures>{});
    std::vector<std::thread> workers;
    for (size_t i = begin; i < end; ++i) {
      workers.emplace_back([&, i] { compared[i - begin] = compare_text(texts[i], oracle, here[i - begin]); });
    }
    for (std::thread& worker : workers) worker.join();
    for (size_t i = begin; i < end; ++i) {
      const Result<std::vector<PositionFigures>>& text = compared[i - begin];
      if (!text.ok()) return text.error();
      all.insert(all.end(), text->begin(), text->end());
      // Position p scores token p + 1.
      const size_t first = std::max<size_t>(texts[i].answer_from, 1) - 1;
      answers.insert(answers.end(), text->begin() + static_cast<std::ptrdiff_t>(std::min(first, text->size())),
                     text->end());
    }
  }
  return LikelihoodResult{summarise(all), summarise(answers)};
}

void print_likelihood(std::ostream& out, const LikelihoodResult& result) {
  out << "           positions     KL mean      KL p99      top-1        NLL NLL oracle\n";
  print_line(out, "all", result.all);
  print_line(out, "answers", result.answers);
  out << std::flush;
}

json::object likelihood_json(const LikelihoodResult& result) {
  return json::object{{"all", figures_json(result.all)}, {"answers", figures_json(result.answers)}};
}

}  // namespace boreas
