// What the engine core remembers of a request: plain data. A sequence is one choice of a request; the core runs
// sequences, and a request ends when all of its sequences have.
//
//   kHeld --(the first choice has computed the shared prompt pages)--> kWaiting --> kRunning --> kFinished
//                                                                          ^--preempted-'
// A preempted sequence either has its pages in host memory (swapped) or has none and computes them again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/host_pages.h"
#include "engine/limits.h"
#include "engine/page_ledger.h"

namespace boreas {

struct RequestState;

enum class SequenceState : uint8_t { kHeld, kWaiting, kRunning, kFinished };

// What a preempted sequence needs to go on where it was. Owns its host pages.
struct SwappedPages {
  struct Page {
    HostPageId host;
    uint64_t version = 0;  // of the cached page with this content, if there was one: it may still be there
  };
  struct PathNode {
    NodeId node;
    uint64_t serial = 0;
  };
  std::vector<Page> full;     // by page index
  std::vector<Page> sliding;  // from sliding_first on
  int32_t sliding_first = 0;
  std::vector<PathNode> path;
};

// The longest run of cached pages from the beginning of its text that a waiting sequence was last seen to have: where
// the next look starts.
struct PrefixMatch {
  NodeId node = kNoNode;
  uint64_t serial = 0;
  int32_t pages = 0;
};

struct Sequence {
  RequestState* request = nullptr;
  int32_t choice = 0;
  SequenceState state = SequenceState::kHeld;
  int32_t slot = -1;  // of the executor, while running (and until the last row in flight has come back)
  std::vector<TokenId> output;
  SequencePages pages;
  int32_t computed = 0;           // positions whose keys and values are computed or in flight
  int32_t rows_in_flight = 0;     // plans submitted and not yet applied that have a row of this sequence
  int32_t samples_in_flight = 0;  // of those, rows that bring a token
  int64_t sampled_in_step = -1;   // the newest of those rows
  int32_t bypassed = 0;           // younger sequences that started while this one had to wait for pages
  bool preempted = false;         // waits for the second time
  bool exact = true;              // the pages it took from the cache are what it would have computed alone
  PrefixMatch match;
  int32_t pages_wanted = 0;  // full pages, when it last did not fit
  int64_t next_look_step = 0;
  std::unique_ptr<SwappedPages> swapped;
  bool constraint_made = false;
  std::unique_ptr<TokenConstraint> constraint;

  int32_t prompt_length() const;
  int32_t known_length() const;  // prompt and generated tokens
  TokenId token_at(int32_t position) const;
  bool has_scored_prompt() const;  // log-probabilities of its tokens were asked for
  bool scores_prompt() const;      // its prefill also brings prompt log-probabilities
  // Its prompt takes scored tokens' arithmetic, as slow and shared with nobody, also when it is computed again.
  bool computes_as_scored(const EngineLimits& limits) const;
  // The first position of its next range. Scoring starts one token early: the logits that score a slice's first token
  // come from the token before it.
  int32_t range_start() const {
    return scores_prompt() && computed < prompt_length() ? std::max(computed - 1, 0) : computed;
  }
  // Where long ranges end: the prompt, and after preemption also generated tokens if the executor has one arithmetic.
  int32_t prefill_end(const EngineLimits& limits) const;
  // Most positions it can ever have.
  int32_t length_max(const EngineLimits& limits) const;
};

struct RequestState {
  RequestId id;
  Request request;
  EventSink sink;
  uint64_t arrival = 0;
  bool started = false;        // a choice has run, or all have ended
  int32_t sequences_left = 0;  // not finished
  int32_t sequences_running = 0;
  int32_t share_end = 0;  // choices share pages of positions before it; 0: none
  int32_t cached_tokens = 0;
  std::vector<uint64_t> page_hashes;                     // of the whole pages of the prompt, for the prefix cache
  std::vector<SampledToken> prompt_logprobs;             // entry i is of prompt token i + 1
  std::vector<Sequence> sequences;                       // one a choice; never resized
  std::multimap<int64_t, RequestId>::iterator deadline;  // valid with request.deadline_ns > 0
};

// Who goes first: lower priority value, earlier arrival, lower choice. Also the order in which preempted sequences
// return; the reverse is the order of preemption.
struct RunsBefore {
  bool operator()(const Sequence* a, const Sequence* b) const;
};
using WaitingQueue = std::set<Sequence*, RunsBefore>;

}  // namespace boreas
