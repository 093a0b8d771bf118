// EngineCore: the engine without its thread. A synchronous machine: requests are added, step() runs one step, events
// come out through the sinks. The Engine's thread drives it, simulation drives it with a virtual clock; between them
// all is a function of (calls, clock, executor). Not thread-safe; sinks must not call back into it.
//
//   step():  deadlines -> fork choices -> admit -> build plan -> submit -> apply the oldest result
//
// Up to steps_in_flight_max plans are submitted before the oldest is read. A row of such a plan feeds on the token that
// the plan before it samples; if that token turns out to be the last, the extra row's result is dropped. Whatever a
// plan's spans point to (page tables, slots) stays until the plan has been applied.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "engine/batcher.h"
#include "engine/engine.h"
#include "engine/host_pages.h"
#include "engine/limits.h"
#include "engine/page_ledger.h"
#include "engine/sequence.h"
#include "engine/step_pacer.h"
#include "exec/executor.h"

namespace boreas {

class EngineCore {
 public:
  // A sequence that must wait for pages is overtaken by at most so many later ones each time it waits: a large request
  // does not block small ones, and they do not starve it.
  static constexpr int32_t kBypassMax = 32;

  EngineCore(Executor& executor, const EngineOptions& options, const Clock& clock);
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  const EngineLimits& limits() const { return limits_; }

  // The request must not be one that never_fits().
  void add(RequestId id, Request request, EventSink sink);
  void cancel(RequestId id, int32_t choice = -1, FinishReason reason = FinishReason::kAbort);
  void abort_all();
  void step();

  bool idle() const { return sequences_left_ == 0 && in_flight_.empty(); }
  bool healthy() const { return fault_.empty(); }
  const std::string& fault() const { return fault_; }
  int64_t events() const { return events_; }  // sent so far
  EngineStats stats() const;
  int32_t requests_waiting() const { return requests_waiting_; }  // of which no choice runs
  int64_t requests_started() const { return requests_started_; }  // so far; also those that ended before

  // For tests: every request that is not forgotten, and the pools.
  const std::unordered_map<RequestId, std::unique_ptr<RequestState>>& requests() const { return requests_; }
  const PageLedger& ledger() const { return ledger_; }
  const HostPages& host_pages() const { return host_pages_; }

 private:
  struct PlannedRow {
    Sequence* sequence = nullptr;
    int32_t end = 0;  // position after the range
    bool samples = false;
    bool scores = false;
  };
  // Beside the plan: what apply() and the pacer need to know of it.
  struct InFlight {
    StepTicket ticket = 0;
    StepPlan plan;
    std::vector<PlannedRow> rows;  // beside plan.rows
    std::vector<TokenId> tokens;   // what the rows' token spans point to; reserved, so it never moves
    int32_t decode_rows = 0;
    int32_t prefill_tokens = 0;
  };

  // core.cc: life of a request
  void start_waiting(Sequence& sequence);
  void finish(Sequence& sequence, FinishReason reason, TokenEvent event);
  void fail_request(RequestState& request, const std::string& error);
  void fault(const std::string& message);
  void send(RequestState& request, TokenEvent event, const Sequence& sequence);
  void forget_if_done(RequestState& request);
  void forget_done();
  void mark_started(RequestState& request);
  void count_waiting(RequestState& request, bool waits);
  void expire_deadlines();

  // core_admit.cc: who runs
  struct PagesLeft {
    int32_t full = 0;
    int32_t sliding = 0;
  };
  void fork_choices();
  void fork(const Sequence& leader);
  void admit();
  PagesLeft pages_left() const;
  bool take_pages(Sequence& sequence, PagesLeft& left, std::vector<NodeId>& hit);
  void start_running(Sequence& sequence, const std::vector<NodeId>& hit);
  void count_start(Sequence& sequence);
  void open_slot(Sequence& sequence);
  void stop_running(Sequence& sequence);
  void preempt(Sequence& sequence);
  void make_room();
  bool release_waiting_holder();

  // core_cache.cc: what is taken from the prefix cache and given to it
  PageText page_text(const Sequence& sequence, int32_t index, std::vector<TokenId>& buffer) const;
  int32_t hit_pages_max(const Sequence& sequence) const;
  void find_prefix(Sequence& sequence);
  std::vector<NodeId> usable_prefix(Sequence& sequence);
  static int32_t exact_pages(const Sequence& sequence);
  void open_path(Sequence& sequence);
  void adopt_prefix(Sequence& sequence, const std::vector<NodeId>& hit);
  void publish_pages(Sequence& sequence, int32_t end);
  void verify_pages(Sequence& sequence, int32_t end);

  // core_swap.cc: to host memory and back
  bool swap_out(Sequence& sequence);
  bool save_page(PagePoolKind kind, PageId page, SwappedPages::Page& saved);
  void swap_in(Sequence& sequence);
  bool restore_pages(Sequence& sequence, const SwappedPages& swapped, const std::vector<bool>& full_missing,
                     const std::vector<bool>& sliding_missing);
  int32_t swapped_pages_in_use(const Sequence& sequence) const;
  void drop_swapped(Sequence& sequence);

  // core_step.cc: one step
  bool submit_next();
  bool build_plan(InFlight& step);  // false: results in flight must be applied first
  bool may_run(const Sequence& sequence) const;
  BatchCandidate candidate(const Sequence& sequence) const;
  BatchBudget budget_for(const std::vector<BatchCandidate>& candidates, bool paced) const;
  bool cover(Sequence& sequence, int32_t start, int32_t end);
  void add_chunk(InFlight& step, Sequence& sequence, int32_t tokens);
  static LogitsWanted wanted_at_first(const Sequence& sequence, int32_t end);
  void add_row(InFlight& step, Sequence& sequence, int32_t start, int32_t end);
  void drain_in_flight();
  void retire_oldest();
  void count_times(const InFlight& step, const StepResult& result);
  void apply(InFlight& step, StepResult& result);
  void apply_row(const PlannedRow& planned, RowResult& result);
  bool apply_prompt_scores(const PlannedRow& planned, RowResult& result);
  void apply_token(Sequence& sequence, SampledToken token);

  Executor& executor_;
  const Clock& clock_;
  const EngineLimits limits_;
  PageLedger ledger_;
  HostPages host_pages_;
  StepPacer pacer_;

  std::unordered_map<RequestId, std::unique_ptr<RequestState>> requests_;
  std::multimap<int64_t, RequestId> deadlines_;
  WaitingQueue waiting_;
  std::vector<Sequence*> running_;  // ordered by RunsBefore
  std::vector<int32_t> slots_free_;
  std::vector<RequestId> done_;  // to be forgotten at the end of the call
  std::deque<std::unique_ptr<InFlight>> in_flight_;
  std::vector<std::unique_ptr<InFlight>> spare_;

  uint64_t arrivals_ = 0;
  uint64_t writers_ = 0;
  int64_t sequences_left_ = 0;
  int32_t requests_waiting_ = 0;
  int64_t requests_started_ = 0;
  int64_t events_ = 0;
  std::string fault_;
  EngineStats counters_;  // gauges are filled in by stats()
};

}  // namespace boreas
