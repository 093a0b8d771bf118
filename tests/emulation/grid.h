// The machine behind device_emulation.h: blocks of warps of lanes, each lane a fiber, all on one thread. Only the files
// of this folder use it; a test sees run_grid and GridResult.
//
//   Grid -> Block: shared memory and its shadow, named barriers
//             -> Warp: which lanes can go on, meet, have given way, have returned
//                  -> Lane: saved context, operands and result of a meeting, what it waits for
//
// A fiber runs until it meets its warp (shuffle, mma, barrier), gives way (a poll that found nothing) or returns, and
// jumps straight to the next one that can run: first within its warp, then in the warp whose turn comes (grid.cc). A
// warp's meeting is computed once, by the last lane to arrive (warp.cc). Operands and results lie in each lane, so a
// lane may arrive at the next meeting while others have not yet left this one. Whatever fails ends the run: the thread
// jumps back into run_grid and the fibers are dropped as they stand, without unwinding.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/prng.h"

namespace boreas::emulation {

constexpr int32_t kLanes = 32;
constexpr uint32_t kFullWarp = ~0u;
constexpr int32_t kThreadsMax = 1024;                  // of a block
constexpr int32_t kNamedBarriers = 16;                 // 0 is block_sync
constexpr uint32_t kSharedBytesMax = 227 * 1024;       // of a block on sm_90
constexpr uint32_t kBarrierCountMax = (1u << 20) - 1;  // arrivals and bytes of one mbarrier phase

struct GridOptions {
  int32_t blocks = 1;
  int32_t threads = kLanes;         // of a block: a multiple of 32, at most 1024
  uint32_t shared_bytes = 0;        // of a block
  uint64_t seed = 0;                // 0: warps in turn, copies land in order; else random order, warps that starve
  uint64_t clock_per_switch = 100;  // what clock_now gains with every turn of a warp
  int32_t stall_rounds = 2000;      // rounds over all warps without any event that are taken for a deadlock
  uint64_t turns_max = 1ull << 40;  // turns of warps after which the run fails
  bool check_shared = true;         // reading shared words that nobody wrote is an error
  bool check_races = false;         // shared accesses that nothing orders are an error (races.h)
  // Addresses of shared words that are stored and polled without a barrier; they order what was done before them.
  std::vector<uint32_t> polled_words = {};
  uint32_t stack_bytes = 64 * 1024;
};

enum class Outcome {
  kFinished,  // every thread has returned
  kStopped,   // stop_kernel was called
  kDeadlock,  // nobody can go on, or all poll and nothing happens
  kError,     // the kernel broke a rule of the machine
};

struct GridResult {
  Outcome outcome = Outcome::kError;
  std::string message;  // why and where, empty when finished
  uint64_t turns = 0;   // of warps
  uint64_t switches = 0, meetings = 0, copies = 0;
  uint64_t clock = 0;
};

// Runs `kernel` once for every thread and returns when all have returned or the run has failed. One at a time.
GridResult run_grid(const GridOptions& options, const std::function<void()>& kernel);

// Global memory that kernels may read by bulk copies, words and load_constant_32; anything else is an error.
void register_memory(const void* memory, uint64_t bytes, const std::string& name);
void forget_memory();

// ---- for device_emulation.h

enum class Primitive : uint8_t {
  kRunning,  // or not yet begun
  kWarpSync,
  kShuffle,
  kShuffleXor,
  kShuffleDown,
  kReduceMax,
  kAllLanes,
  kBallot,
  kMma,
  kTranspose,
  kBlockSync,
  kNamedBarrier,
  kMbarrierTry,
  kLoadWord,
  kLoadShared,
  kClock,
  kSpinHint,
  kReturned,
};

// A line of the kernel; as the default value of a parameter it names the caller's.
struct Where {
  const char* file = "";
  int32_t line = 0;
  static constexpr Where here(const char* file = __builtin_FILE(), int32_t line = __builtin_LINE()) {
    return {file, line};
  }
};

// What a byte of shared memory holds.
enum Shadow : uint8_t {
  kUnwritten = 0,
  kWritten = 1,
  kBarrierObject = 2,  // of an mbarrier; bit 1 says "hands off" to loads and stores
  kInFlight = 3,       // a bulk copy fills it; until the phase it reports to completes
};

constexpr uint32_t kHandsOff = 0x02020202;  // in four of them

struct Block;
struct Warp;
class RaceChecker;

struct Lane {
  void* context = nullptr;  // where it goes on
  Warp* warp = nullptr;
  Block* block = nullptr;
  int32_t thread = 0;
  int32_t lane = 0;
  Primitive at = Primitive::kRunning;  // where it was last seen waiting
  Where where;
  uint32_t detail[2] = {};  // of kMbarrierTry: barrier, parity; of kNamedBarrier: id, threads
  uint32_t operands[10] = {};
  uint32_t results[4] = {};
};

struct Warp {
  Block* block = nullptr;
  Lane* lanes = nullptr;  // [kLanes]
  int32_t warp = 0;
  // Each lane is in exactly one of the four. The running lane is in `ready`.
  uint32_t ready = kFullWarp, meeting = 0, gave_way = 0, returned = 0;
  uint32_t first = 0;  // lane that is looked at first when one is chosen
  bool starved = false;
};

struct NamedBarrier {
  uint32_t warps = 0;  // that have arrived
  int32_t arrived = 0, threads = 0;
};

struct LandedBytes {
  uint32_t to, bytes, barrier;
};

struct Block {
  int32_t block = 0;
  uint8_t* shared = nullptr;  // [shared_bytes]
  uint8_t* shadow = nullptr;  // Shadow, [shared_bytes]
  uint32_t shared_bytes = 0;
  Warp* warps = nullptr;
  int32_t warps_left = 0, copies_left = 0;
  NamedBarrier barriers[kNamedBarriers];
  std::vector<LandedBytes> landed;     // by copies whose phase has not completed
  std::shared_ptr<RaceChecker> races;  // null: not wanted
};

struct Copy {
  Block* block;
  const void* from;
  uint32_t to, bytes, barrier;
};

struct Grid {
  explicit Grid(const GridOptions& the_options) : options(the_options), random(the_options.seed) {}

  GridOptions options;
  const std::function<void()>* kernel = nullptr;
  std::vector<Block> blocks;
  std::vector<Warp> warps;
  std::vector<Lane> lanes;
  std::vector<Copy> copies;  // issued, not landed
  Prng random;
  void* main_context = nullptr;
  GridResult result;

  // Turns of warps, by rounds; see grid.cc.
  std::vector<Warp*> order;
  size_t position = 0;
  int32_t phase_rounds = 0;  // left of this pattern of starvation
  bool hold_copies = false;
  uint64_t events_before = 0;
  int32_t quiet_rounds = 0;
};

inline Grid* grid = nullptr;
inline Lane* current = nullptr;
// Whatever another lane might wait for: stores, arrivals, landed copies. All lanes poll and it stands still: deadlock.
inline uint64_t events = 0;
inline uint32_t polls = 0;  // since a lane last gave way
inline int64_t until_preempted = 0;

const char* name_of(Primitive at);
std::string place_of(const Lane& lane);  // "block 1 warp 2 lane 3"
std::string text_of(const Where& where);

[[noreturn]] void fail(const std::string& message, const Where& where);  // the current lane broke a rule
[[noreturn]] void fail_run(const std::string& message);                  // what no lane is to blame for
[[noreturn]] void stop(const Where& where);
// The current lane waits for the others of its warp at `at`, its operands set; on return its results are.
void meet(Primitive at, const Where& where);
// Lets others run for a while.
void give_way(Primitive at, const Where& where);
// Takes the current lane off in the middle of its work, to go on in its warp's next turn.
void preempt(const Where& where);
// Before whatever others can see or disturb: a seeded run takes the lane off now and then.
inline void touch(const Where& where) {
  if (--until_preempted <= 0) preempt(where);
}
// Hands the thread to the next lane; the caller has taken `self` out of `ready`.
void leave(Lane& self);

// For the race checker, where there is one.
void check_race(uint32_t address, uint32_t bytes, bool load, const Where& where);
void note_word(bool load);

void check_memory(const void* address, uint32_t bytes, const char* what, const Where& where);
[[noreturn]] void bad_shared_access(uint32_t address, uint32_t bytes, const char* what, const Where& where);

void barrier_init(uint32_t barrier, uint32_t arrivals, const Where& where);
void barrier_arrive(uint32_t barrier, uint32_t bytes, const Where& where);
bool barrier_passed(uint32_t barrier, uint32_t parity, const Where& where);
std::string barrier_text(const Block& block, uint32_t barrier);
void issue_copy(const Copy& copy, const Where& where);
void land_copy(size_t index);
void check_no_copies(const Block& block);  // before its last thread returns

}  // namespace boreas::emulation
