// The door of exec/fake: an Executor without a model, for simulation and API tests. Deterministic. It owns real page
// memory: every position of a page stores which token at which position was written and a hash of everything that the
// token read through the page tables, as attention would. The next token depends on all of it, so a wrong, stale or
// missing page changes the text.
//
//   sliding entry(p) = hash(token, p, all full entries before p)
//   full entry(p)    = hash(token, p, sliding entries of the window that ends at p)
//   logits(p)        = hash(all full entries up to p, sliding entries of the window)
//
// Steps are computed in wait(), so spans of a plan that die too early are found by a sanitizer.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "exec/executor.h"

namespace boreas {

// A written text: the token with this index of the output. -1: let the hash decide.
using FakeScript = std::function<TokenId(std::span<const TokenId> prompt, int32_t output_index)>;

struct FakeOptions {
  int32_t vocab_size = 64;
  int32_t context_max = 4096;
  int32_t window = 128;  // 0: no sliding pool
  int32_t sequence_slots = 8;
  int32_t rows_max = 8;
  int32_t tokens_max = 512;
  int32_t pages_full = 512;
  int32_t pages_sliding = 128;
  int32_t steps_in_flight_max = 1;
  // False: a range of one token computes other bits than a longer one, and so do tokens whose logits are or were
  // wanted, as a decode kernel beside a prefill kernel does.
  bool one_arithmetic = true;
  // True: logits over the vocabulary and sample_token(), all sampling parameters count. False: one hash picks the
  // token; of the parameters only seed, choice and temperature 0 count, and the mask; costs nothing a vocabulary entry.
  bool full_logits = true;
  // False: pages are neither looked at nor written and penalties not counted, for measurements of what is around an
  // executor. Needs a script.
  bool reads = true;
  FakeScript script;              // overrides both, except where a mask forbids its token
  int64_t step_ns = 0;            // latency of a step, from its submission or the end of the step before
  int64_t token_ns = 0;           // and of each of its tokens
  VirtualClock* clock = nullptr;  // advanced by the latency; null: wait() sleeps
  // What a step says that it read; without step_bytes nothing is counted.
  int64_t step_bytes = 0, position_bytes = 0;  // and of each position that a row's last token sees
  int32_t row_experts = 0;
};

struct FakeFaults {
  int64_t submit_error_step = -1;  // submit() of this step (counted from 0) and all later calls fail
  int64_t wait_error_step = -1;    // wait() for it does
  int64_t slow_step = -1;          // takes slow_ns longer
  int64_t slow_ns = 0;
  int64_t swap_error_call = -1;  // this call of save_page() or restore_page() and all later calls of any kind fail
  std::function<bool(int64_t step, const StepRow& row)> corrupt_row;  // true: NaN among the row's logits
};

class FakeExecutor final : public Executor {
 public:
  explicit FakeExecutor(const FakeOptions& options);

  void set_faults(FakeFaults faults) { faults_ = std::move(faults); }
  int64_t steps() const { return steps_submitted_; }
  int64_t tokens_computed() const { return tokens_computed_; }
  // Entries read through a page table that hold another position than the table says. 0 in a right engine.
  int64_t wrong_reads() const { return wrong_reads_; }
  // Entries, or whole pages, read by a sequence that hold another token than its text has there. 0 in a right engine,
  // also where cached pages of another arithmetic change what is generated.
  int64_t wrong_texts() const { return wrong_texts_; }
  int32_t open_slots() const;
  // Whether the page was written with exactly these tokens at the positions from first_position on.
  bool page_holds(PagePoolKind pool, PageId page, int32_t first_position, std::span<const TokenId> tokens) const;

  const ExecutorInfo& info() const override { return info_; }
  void open_sequence(int32_t slot, const SequenceSpec& spec) override;
  void close_sequence(int32_t slot) override;
  Result<StepTicket> submit(const StepPlan& plan) override;
  Result<StepResult> wait(StepTicket ticket) override;
  Status save_page(PagePoolKind pool, PageId page, std::span<std::byte> out) override;
  Status restore_page(PagePoolKind pool, PageId page, std::span<const std::byte> in) override;
  Status copy_page(PagePoolKind pool, PageId from, PageId to) override;

 private:
  struct Entry {
    TokenId token = -1;
    int32_t position = -1;
    uint64_t hash = 0;
  };
  struct Page {
    Entry entries[kPagePositions];
    uint64_t digest = 0;  // sum over entries, so that reading a whole page costs one word
    uint64_t text = 0;    // the same over tokens alone
  };
  struct Slot {
    bool open = false;
    SamplingParams sampling;
    std::vector<TokenId> prompt;
    std::vector<TokenId> text;         // prompt and output, as far as known
    std::vector<uint64_t> page_texts;  // of its whole pages, as Page::text
    PenaltyState penalties;
    TokenId last_sampled = -1;
    int64_t sampled_step = -1;
  };
  using Time = std::chrono::steady_clock::time_point;
  struct Pending {
    StepTicket ticket = 0;
    StepPlan plan;
    Time submitted;
    bool done = false;
    StepResult result;
  };

  void check_plan(const StepPlan& plan) const;
  void run_pending();
  StepResult run_step(int64_t step, const StepPlan& plan);
  RowResult run_row(int64_t step, const StepRow& row);
  uint64_t run_token(const StepRow& row, Slot& slot, TokenId token, int32_t position, bool decode);
  SampledToken outcome(int64_t step, const StepRow& row, Slot& slot, uint64_t read_hash, int32_t position);
  SampledToken pick_direct(const StepRow& row, const Slot& slot, uint64_t read_hash, TokenId given) const;
  TokenId scripted(const StepRow& row, const Slot& slot, int32_t position) const;
  std::vector<float> logits_of(uint64_t read_hash) const;
  uint64_t read(const std::vector<Page>& pool, const Slot& slot, std::span<const PageId> table, int32_t table_first,
                int32_t begin, int32_t end);
  Status swap_fault();
  void write(std::vector<Page>& pool, PageId page, int32_t position, const Entry& entry);
  std::vector<Page>& pool_of(PagePoolKind pool) { return pool == PagePoolKind::kFull ? full_ : sliding_; }
  const std::vector<Page>& pool_of(PagePoolKind pool) const { return pool == PagePoolKind::kFull ? full_ : sliding_; }

  FakeOptions options_;
  ExecutorInfo info_;
  FakeFaults faults_;
  std::vector<Page> full_;
  std::vector<Page> sliding_;
  std::vector<Slot> slots_;
  std::deque<Pending> pending_;
  int64_t steps_submitted_ = 0;
  int64_t tokens_computed_ = 0;
  int64_t wrong_reads_ = 0;
  int64_t wrong_texts_ = 0;
  int64_t swap_calls_ = 0;
  bool failed_ = false;
  Time step_end_;  // of the last step that was waited for
};

}  // namespace boreas
