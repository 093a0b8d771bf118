#include "grid.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <boost/context/detail/fcontext.hpp>
#include <cstring>

#include "base/check.h"
#include "races.h"

namespace boreas::emulation {
namespace {

namespace context = boost::context::detail;

constexpr uint32_t kPageBytes = 4096;
constexpr int32_t kGuardedThreads = 16384;  // each guard page costs the process a mapping, of 65530
constexpr int32_t kReportLines = 64;

// One mapping for all stacks, touched only as deep as each fiber goes.
class Stacks {
 public:
  Stacks(size_t count, uint32_t bytes) : stride_(bytes + kPageBytes), total_(count * stride_) {
    void* memory = mmap(nullptr, total_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    memory_ = static_cast<uint8_t*>(memory);
    if (count > kGuardedThreads) return;
    for (size_t i = 0; i < count; ++i) CHECK(mprotect(memory_ + i * stride_, kPageBytes, PROT_NONE) == 0);
  }
  ~Stacks() { munmap(memory_, total_); }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  // Tops are spread over the sets of the cache: all lanes of a warp are at the same depth.
  uint8_t* top(size_t index) const { return memory_ + (index + 1) * stride_ - index % kLanes * 128; }
  size_t usable_bytes() const { return stride_ - kPageBytes - kLanes * 128; }

 private:
  size_t stride_, total_;
  uint8_t* memory_ = nullptr;
};

[[noreturn]] void end_run(Outcome outcome, const std::string& message) {
  grid->result.outcome = outcome;
  grid->result.message = message;
  current = nullptr;
  context::jump_fcontext(grid->main_context, nullptr);
  std::abort();
}

// `slot` keeps where the caller goes on.
void jump(Lane& next, void** slot) {
  ++grid->result.switches;
  current = &next;
  const context::transfer_t back = context::jump_fcontext(next.context, slot);
  if (back.data != nullptr) *static_cast<void**>(back.data) = back.fctx;
}

// ---- whose turn it is

// After how many accesses a lane is taken off: of all magnitudes, to hit short windows and long ones.
void draw_preemption() {
  constexpr uint32_t kMagnitudes = 15;
  until_preempted = grid->options.seed == 0 ? INT64_MAX : 1 + grid->random.below(1u << grid->random.below(kMagnitudes));
}

// A pattern of starvation for some rounds: an adversary that leaves some warps, or the copies, behind.
void choose_pattern() {
  Grid& g = *grid;
  enum { kNobody, kSome, kBlock, kWarp, kAllButBlock, kAllButWarp, kPatterns };
  const uint32_t pattern = g.random.below(2) == 0 ? uint32_t{kNobody} : g.random.below(kPatterns);
  const int32_t block = static_cast<int32_t>(g.random.below(static_cast<uint32_t>(g.options.blocks)));
  const int32_t warp = static_cast<int32_t>(g.random.below(static_cast<uint32_t>(g.options.threads / kLanes)));
  g.phase_rounds = 1 + static_cast<int32_t>(g.random.below(30));
  g.hold_copies = g.random.below(4) == 0;
  for (Warp& w : g.warps) {
    const bool of_block = w.block->block == block, of_warp = w.warp == warp;
    w.starved = (pattern == kSome && g.random.below(2) == 0) || (pattern == kBlock && of_block) ||
                (pattern == kWarp && of_warp) || (pattern == kAllButBlock && !of_block) ||
                (pattern == kAllButWarp && !of_warp);
  }
}

void feed_all() {
  for (Warp& warp : grid->warps) warp.starved = false;
  grid->phase_rounds = 0;
  grid->hold_copies = false;
}

std::string lane_mask_text(uint32_t mask) {
  if (mask == kFullWarp) return "all lanes";
  std::string text = "lanes";
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if (mask >> lane & 1) text += (text.size() > 5 ? "," : " ") + std::to_string(lane);
  }
  return text;
}

std::string wait_text(const Lane& lane) {
  std::string text = name_of(lane.at);
  if (lane.at == Primitive::kMbarrierTry) {
    char address[16];
    std::snprintf(address, sizeof address, "0x%x", lane.detail[0]);
    text += " of shared " + std::string(address) + ", parity " + std::to_string(lane.detail[1]) + " (" +
            barrier_text(*lane.block, lane.detail[0]) + ")";
  } else if (lane.at == Primitive::kNamedBarrier) {
    text += " " + std::to_string(lane.detail[0]) + " of " + std::to_string(lane.detail[1]) + " threads";
  }
  return text + " at " + text_of(lane.where);
}

// What every lane waits for, lanes of a warp that wait for the same together.
std::string report() {
  std::string text;
  int32_t lines = 0;
  for (const Warp& warp : grid->warps) {
    uint32_t left = ~warp.returned;
    while (left != 0) {
      const std::string wait = wait_text(warp.lanes[std::countr_zero(left)]);
      uint32_t same = 0;
      for (uint32_t rest = left; rest != 0; rest &= rest - 1) {
        const int32_t lane = std::countr_zero(rest);
        if (wait_text(warp.lanes[lane]) == wait) same |= 1u << lane;
      }
      left &= ~same;
      if (++lines > kReportLines) continue;
      text += "\n  block " + std::to_string(warp.block->block) + " warp " + std::to_string(warp.warp) + " " +
              lane_mask_text(same) + ": " + wait;
    }
  }
  if (lines > kReportLines) text += "\n  and " + std::to_string(lines - kReportLines) + " more";
  return text;
}

void land_any() {
  land_copy(grid->options.seed == 0 ? 0 : grid->random.below(static_cast<uint32_t>(grid->copies.size())));
}

// All warps once, those that have returned left out. Ends the run when it cannot go on.
void begin_round() {
  Grid& g = *grid;
  g.order.erase(std::remove_if(g.order.begin(), g.order.end(), [](const Warp* w) { return w->returned == kFullWarp; }),
                g.order.end());
  if (g.order.empty()) end_run(Outcome::kFinished, "");
  const bool runnable =
      std::any_of(g.order.begin(), g.order.end(), [](const Warp* w) { return w->ready | w->gave_way; });
  g.quiet_rounds = events == g.events_before ? g.quiet_rounds + 1 : 0;
  if (g.quiet_rounds > 1 || !runnable) {
    feed_all();
    if (!g.copies.empty()) {
      land_any();
    } else if (!runnable) {
      end_run(Outcome::kDeadlock, "deadlock: nobody can go on" + report());
    } else if (g.quiet_rounds > g.options.stall_rounds) {
      end_run(Outcome::kDeadlock,
              "deadlock: " + std::to_string(g.quiet_rounds) + " rounds of polling in vain" + report());
    }
  } else if (g.options.seed != 0 && --g.phase_rounds < 0) {
    choose_pattern();
  }
  g.events_before = events;
  g.position = 0;
  if (g.options.seed == 0) return;
  for (size_t i = g.order.size(); i > 1; --i) {
    std::swap(g.order[i - 1], g.order[g.random.below(static_cast<uint32_t>(i))]);
  }
}

void perhaps_land_copy() {
  Grid& g = *grid;
  if (g.copies.empty() || g.hold_copies) return;
  if (g.options.seed == 0 ? g.result.turns % 4 == 0 : g.random.below(4) == 0) land_any();
}

Lane& next_of(const Warp& warp) {
  const int32_t lane = std::countr_zero(std::rotr(warp.ready, static_cast<int>(warp.first)));
  return warp.lanes[(static_cast<uint32_t>(lane) + warp.first) % kLanes];
}

// The first lane of the warp whose turn comes.
Lane& next_turn() {
  Grid& g = *grid;
  while (true) {
    if (g.position == g.order.size()) begin_round();
    Warp& warp = *g.order[g.position++];
    if (warp.starved || (warp.ready | warp.gave_way) == 0) continue;
    warp.ready |= warp.gave_way;
    warp.gave_way = 0;
    g.result.clock += g.options.clock_per_switch;
    if (++g.result.turns > g.options.turns_max) end_run(Outcome::kError, "more turns than turns_max" + report());
    if (g.options.seed != 0) warp.first = g.random.below(kLanes);
    perhaps_land_copy();
    return next_of(warp);
  }
}

void return_from_kernel(Lane& self) {
  Warp& warp = *self.warp;
  const uint32_t bit = 1u << self.lane;
  self.at = Primitive::kReturned;
  if (warp.meeting != 0) {
    const Lane& other = warp.lanes[std::countr_zero(warp.meeting)];
    fail(std::string("returns where ") + place_of(other) + " waits in " + name_of(other.at), other.where);
  }
  warp.ready &= ~bit;
  warp.returned |= bit;
  ++events;
  if (warp.returned == kFullWarp && --warp.block->warps_left == 0) check_no_copies(*warp.block);
}

void run_fiber(context::transfer_t from) {
  *static_cast<void**>(from.data) = from.fctx;
  Lane& self = *current;
  try {
    (*grid->kernel)();
  } catch (...) {
    fail("the kernel threw an exception", {});
  }
  return_from_kernel(self);
  leave(self);
  std::abort();
}

}  // namespace

const char* name_of(Primitive at) {
  constexpr const char* kNames[] = {"running",    "warp_sync",     "shuffle",      "shuffle_xor", "shuffle_down",
                                    "reduce_max", "all_lanes",     "ballot",       "mma_bf16",    "transpose_8x8",
                                    "block_sync", "named_barrier", "mbarrier_try", "load_word",   "load_shared_32",
                                    "clock_now",  "spin_hint",     "returned"};
  static_assert(std::size(kNames) == static_cast<size_t>(Primitive::kReturned) + 1);
  return kNames[static_cast<size_t>(at)];
}

std::string place_of(const Lane& lane) {
  return "block " + std::to_string(lane.block->block) + " warp " + std::to_string(lane.warp->warp) + " lane " +
         std::to_string(lane.lane);
}

std::string text_of(const Where& where) {
  const char* slash = std::strrchr(where.file, '/');
  return std::string(slash != nullptr ? slash + 1 : where.file) + ":" + std::to_string(where.line);
}

void fail(const std::string& message, const Where& where) {
  end_run(Outcome::kError, (where.line > 0 ? text_of(where) + ": " : "") + place_of(*current) + ": " + message);
}

void fail_run(const std::string& message) { end_run(Outcome::kError, message); }

void stop(const Where& where) {
  end_run(Outcome::kStopped, text_of(where) + ": " + place_of(*current) + ": stop_kernel");
}

void leave(Lane& self) {
  bool stay = self.warp->ready != 0;
  if (stay && --until_preempted <= 0) {  // some lanes of the warp stay behind
    draw_preemption();
    stay = false;
  }
  Lane& next = stay ? next_of(*self.warp) : next_turn();
  if (&next != &self) jump(next, &self.context);
}

void give_way(Primitive at, const Where& where) {
  Lane& self = *current;
  self.at = at;
  self.where = where;
  polls = 0;
  self.warp->ready &= ~(1u << self.lane);
  self.warp->gave_way |= 1u << self.lane;
  leave(self);
}

void preempt(const Where& where) {
  draw_preemption();
  Lane& self = *current;
  self.at = Primitive::kRunning;
  self.where = where;
  Lane& next = next_turn();
  if (&next != &self) jump(next, &self.context);
}

GridResult run_grid(const GridOptions& options, const std::function<void()>& kernel) {
  CHECK(grid == nullptr);
  CHECK(options.blocks > 0 && options.threads > 0 && options.threads % kLanes == 0 && options.threads <= kThreadsMax);
  CHECK(options.shared_bytes <= kSharedBytesMax);
  const size_t warps = static_cast<size_t>(options.threads / kLanes);
  const size_t blocks = static_cast<size_t>(options.blocks);
  Grid g(options);
  g.kernel = &kernel;
  g.blocks.resize(blocks);
  g.warps.resize(blocks * warps);
  g.lanes.resize(g.warps.size() * kLanes);
  const Stacks stacks(g.lanes.size(), options.stack_bytes);
  std::vector<uint8_t> shared(blocks * options.shared_bytes, 0xff);
  std::vector<uint8_t> shadow(blocks * options.shared_bytes, kUnwritten);
  for (size_t i = 0; i < blocks; ++i) {
    Block& block = g.blocks[i];
    block.block = static_cast<int32_t>(i);
    block.shared_bytes = options.shared_bytes;
    block.shared = shared.data() + i * options.shared_bytes;
    block.shadow = shadow.data() + i * options.shared_bytes;
    if (options.check_races) block.races = std::make_shared<RaceChecker>(options);
    block.warps = &g.warps[i * warps];
    block.warps_left = static_cast<int32_t>(warps);
  }
  for (size_t i = 0; i < g.warps.size(); ++i) {
    g.warps[i].block = &g.blocks[i / warps];
    g.warps[i].lanes = &g.lanes[i * kLanes];
    g.warps[i].warp = static_cast<int32_t>(i % warps);
    g.order.push_back(&g.warps[i]);
  }
  for (size_t i = 0; i < g.lanes.size(); ++i) {
    Lane& lane = g.lanes[i];
    lane.context = context::make_fcontext(stacks.top(i), stacks.usable_bytes(), run_fiber);
    lane.warp = &g.warps[i / kLanes];
    lane.block = lane.warp->block;
    lane.lane = static_cast<int32_t>(i % kLanes);
    lane.thread = lane.warp->warp * kLanes + lane.lane;
  }
  grid = &g;
  polls = 0;
  events = 1;
  draw_preemption();
  jump(next_turn(), &g.main_context);
  current = nullptr;
  grid = nullptr;
  return g.result;
}

}  // namespace boreas::emulation
