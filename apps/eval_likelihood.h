// How close an executor's distributions are to an oracle's on given text (teacher-forced: every token is the text's
// own): Kullback-Leibler divergence, agreement on the likeliest token, negative log likelihood. Used by `boreas eval
// --likelihood`.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <functional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "exec/executor.h"
#include "text/text.h"

namespace boreas {

struct ScoredText {
  std::string id;
  std::vector<TokenId> tokens;  // at least two
  size_t answer_from = 0;       // index of the first token of the answer
};

// Lines {"id", "prompt", "answer"}, tokenised apart as a server and its model do. Error: names file, line and field.
// tokens_max: texts that would lead beyond so many tokens in all are left out, but never the first; 0: none is.
Result<std::vector<ScoredText>> read_scored_texts(const std::string& file, const Tokenizer& tokenizer,
                                                  int64_t tokens_max);

// Logits of every position of a text, [tokens, vocab_size]. Called from several threads.
using Oracle = std::function<Result<std::vector<float>>(const ScoredText& text)>;

// The transformers oracle's logits as tools/make_golden/likelihood.py writes them. Error: a file is missing, is not of
// the size it must have, or was made for other tokens.
Result<Oracle> read_oracle_folder(const std::string& folder, int32_t vocab_size);

// Log-probabilities of all tokens behind every token of a text but its last, [tokens - 1, vocab_size], through one
// sequence of the executor, which must have no other open. Error: the text does not fit, or the executor does not give
// all log-probabilities.
Result<std::vector<float>> executor_logprobs(Executor& executor, std::span<const TokenId> tokens);

struct LikelihoodFigures {
  int64_t positions = 0;
  double kl_mean = 0, kl_p99 = 0, kl_max = 0;  // of the oracle's distribution from ours, nats
  double top1_equal = 0;                       // share of positions
  double nll_here = 0, nll_oracle = 0;         // mean, nats a token
};
struct LikelihoodResult {
  LikelihoodFigures all, answers;  // of all tokens but each text's first; of the answers' alone
};

Result<LikelihoodResult> measure_likelihood(Executor& executor, const std::vector<ScoredText>& texts,
                                            const Oracle& oracle, int32_t threads);

void print_likelihood(std::ostream& out, const LikelihoodResult& result);
boost::json::object likelihood_json(const LikelihoodResult& result);

// One position: what `oracle` (logits) and `here` (log-probabilities) say, and the token that follows.
struct PositionFigures {
  double kl = 0;
  bool top1_equal = false;
  double nll_here = 0, nll_oracle = 0;
};
PositionFigures compare_position(std::span<const float> oracle, std::span<const float> here, TokenId following);

}  // namespace boreas
