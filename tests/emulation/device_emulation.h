// A CPU in the place of a Hopper GPU: every function of the kernel's ptx.cuh by the same name and with the same
// meaning, so that the kernel's source runs under a host compiler, thread by thread (BOREAS_EMULATE_DEVICE; ptx.cuh
// includes this file then). Tests call run_grid (grid.h), which makes blocks x threads fibers on one operating-system
// thread:
//
//   register_memory(weights.data(), weights.size(), "weights");
//   const GridResult result = run_grid({.blocks = 4, .threads = 640, .shared_bytes = 65536, .seed = 7}, [&] { ... });
//   ASSERT_EQ(result.outcome, Outcome::kFinished) << result.message;
//
// What is as on the chip: warp collectives wait for all 32 lanes; mbarrier phases, arrivals and bytes; bulk copies land
// at any later time in any order; nothing is ordered but by what the kernel waits for. Shared addresses are offsets
// into the block's buffer. The order of everything follows from the seed: same seed, same run.
// What is stricter: a rule of the machine that is broken ends the run with a message that names rule, thread and line:
// lanes of a warp that meet at different collectives or return early, misaligned or foreign addresses, mbarriers used
// before init or given too many arrivals, shared bytes read before they were written or while a copy fills them,
// a deadlock (with what every lane waits for).
// What is not modelled: weak memory order (stores are seen at once, fences do nothing), torn words, registers, caches.
// Numbers: mma_bf16 adds its products in ascending k in fp32, one rounding each; exp2_approximate is std::exp2. Both
// differ from the chip in last bits.
// The kernel's frames must not own memory: a run that fails drops them without unwinding.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "exec/cuda/step_params.h"
#include "grid.h"

#define BOREAS_DEVICE inline
#define BOREAS_DEVICE_COLD inline
#define BOREAS_UNROLL
#define BOREAS_NO_UNROLL

namespace boreas::emulation {

// Calls that a loop may poll with: after `patience` of them the others get a turn.
inline void count_poll(uint32_t patience, Primitive at, const Where& where) {
  if (++polls >= patience) give_way(at, where);
}

// The bytes at an address that a load (or store) may touch. Of every word that is loaded somebody must have written a
// part, unless it is only `moved`; the rest may be padding and holds 0xff.
template <uint32_t kBytes>
inline uint8_t* shared_bytes_at(uint32_t address, bool load, const Where& where, bool moved = false) {
  touch(where);
  const Block& block = *current->block;
  bool allowed = address % kBytes == 0 && address < block.shared_bytes && kBytes <= block.shared_bytes - address;
  for (uint32_t i = 0; allowed && i < kBytes; i += 4) {
    uint32_t shadow = 0;
    std::memcpy(&shadow, block.shadow + address + i, kBytes < 4 ? kBytes : 4);
    allowed = (shadow & kHandsOff) == 0 && (!load || moved || shadow != 0 || !grid->options.check_shared);
  }
  if (!allowed) bad_shared_access(address, kBytes, load ? "load" : "store", where);
  if (block.races != nullptr) check_race(address, kBytes, load, where);
  return block.shared + address;
}
template <uint32_t kBytes, class T>
inline T load_shared(uint32_t address, const Where& where) {
  T value;
  static_assert(sizeof value == kBytes);
  std::memcpy(&value, shared_bytes_at<kBytes>(address, true, where), kBytes);
  return value;
}
template <uint32_t kBytes>
inline void store_shared(uint32_t address, const void* value, const Where& where) {
  std::memcpy(shared_bytes_at<kBytes>(address, false, where), value, kBytes);
  std::memset(current->block->shadow + address, kWritten, kBytes);
  ++events;
}

inline uint32_t meet_with(Primitive at, uint32_t value, int32_t argument, const Where& where) {
  Lane& lane = *current;
  lane.operands[0] = value;
  lane.operands[1] = static_cast<uint32_t>(argument);
  meet(at, where);
  return lane.results[0];
}
inline uint32_t bf16_of(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return 0x7fff;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

}  // namespace boreas::emulation

namespace boreas::cuda {

using emulation::Where;

struct Vec2 {
  uint32_t x, y;
};
struct Vec4 {
  uint32_t x, y, z, w;
};

inline int32_t thread_index() { return emulation::current->thread; }
inline int32_t block_index() { return emulation::current->block->block; }
inline void warp_sync(Where where = Where::here()) { emulation::meet(emulation::Primitive::kWarpSync, where); }

inline void named_barrier(int32_t id, int32_t threads, Where where = Where::here()) {
  emulation::current->detail[0] = static_cast<uint32_t>(id);
  emulation::current->detail[1] = static_cast<uint32_t>(threads);
  emulation::meet(emulation::Primitive::kNamedBarrier, where);
}
inline void block_sync(Where where = Where::here()) {
  emulation::current->detail[0] = 0;
  emulation::current->detail[1] = static_cast<uint32_t>(emulation::grid->options.threads);
  emulation::meet(emulation::Primitive::kBlockSync, where);
}

template <int N>
inline void registers_increase() {
  static_assert(N % 8 == 0 && N >= 24 && N <= 256, "setmaxnreg");
}
template <int N>
inline void registers_decrease() {
  static_assert(N % 8 == 0 && N >= 24 && N <= 256, "setmaxnreg");
}
inline void opaque(int32_t&) {}

// ---- shared memory
inline uint32_t shared_base() { return 0; }

inline Vec4 load_shared_128(uint32_t address, Where where = Where::here()) {
  return emulation::load_shared<16, Vec4>(address, where);
}
inline Vec2 load_shared_64(uint32_t address, Where where = Where::here()) {
  return emulation::load_shared<8, Vec2>(address, where);
}
inline uint32_t load_shared_32(uint32_t address, Where where = Where::here()) {
  emulation::count_poll(1u << 16, emulation::Primitive::kLoadShared, where);
  return emulation::load_shared<4, uint32_t>(address, where);
}
inline void store_shared_32(uint32_t address, uint32_t value, Where where = Where::here()) {
  emulation::store_shared<4>(address, &value, where);
}
inline void store_shared_16(uint32_t address, uint32_t value, Where where = Where::here()) {
  const uint16_t half = static_cast<uint16_t>(value);
  emulation::store_shared<2>(address, &half, where);
}
inline void load_shared_128_if(bool wanted, uint32_t address, Vec4& v, Where where = Where::here()) {
  if (wanted) v = load_shared_128(address, where);
}
inline void load_shared_64_if(bool wanted, uint32_t address, uint32_t& x, uint32_t& y, Where where = Where::here()) {
  if (!wanted) return;
  const Vec2 v = load_shared_64(address, where);
  x = v.x;
  y = v.y;
}
inline void load_shared_128_if(bool wanted, uint32_t address, uint32_t step, Vec4 (&v)[4],
                               Where where = Where::here()) {
  for (uint32_t i = 0; i < 4; ++i) load_shared_128_if(wanted, address + i * step, v[i], where);
}
inline void store_shared_32_if(bool wanted, uint32_t address, uint32_t value, Where where = Where::here()) {
  if (wanted) store_shared_32(address, value, where);
}
inline uint32_t load_shared_8(uint32_t address, Where where = Where::here()) {
  return emulation::load_shared<1, uint8_t>(address, where);
}
inline void store_byte(uint32_t address, int32_t value, Where where = Where::here()) {
  const uint8_t byte = static_cast<uint8_t>(value);
  emulation::store_shared<1>(address, &byte, where);
}
inline float load_shared_float(uint32_t address, Where where = Where::here()) {
  return std::bit_cast<float>(load_shared_32(address, where));
}
inline void load_shared_float_if(bool wanted, uint32_t address, float& v, Where where = Where::here()) {
  if (wanted) v = load_shared_float(address, where);
}
inline void store_shared_float(uint32_t address, float value, Where where = Where::here()) {
  store_shared_32(address, std::bit_cast<uint32_t>(value), where);
}

// ---- mbarriers
inline void mbarrier_init(uint32_t barrier, uint32_t arrivals, Where where = Where::here()) {
  emulation::barrier_init(barrier, arrivals, where);
}
inline void mbarrier_init_done() {}
inline void mbarrier_arrive_expect(uint32_t barrier, uint32_t bytes, Where where = Where::here()) {
  emulation::barrier_arrive(barrier, bytes, where);
}
inline void mbarrier_arrive(uint32_t barrier, Where where = Where::here()) {
  emulation::barrier_arrive(barrier, 0, where);
}
inline void mbarrier_arrive_if(bool wanted, uint32_t barrier, Where where = Where::here()) {
  if (wanted) mbarrier_arrive(barrier, where);
}
// Asked again after the others had a turn, as the chip suspends for a while.
inline bool mbarrier_try(uint32_t barrier, uint32_t parity, Where where = Where::here()) {
  if (emulation::barrier_passed(barrier, parity, where)) return true;
  emulation::current->detail[0] = barrier;
  emulation::current->detail[1] = parity;
  emulation::give_way(emulation::Primitive::kMbarrierTry, where);
  return emulation::barrier_passed(barrier, parity, where);
}

inline bool mbarrier_is_past(uint32_t barrier, uint32_t parity, Where where = Where::here()) {
  return emulation::barrier_passed(barrier, parity, where);
}

// ---- bulk copies
inline uint64_t evict_first_policy() { return 1; }
inline void bulk_copy(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier, uint64_t /*policy*/,
                      Where where = Where::here()) {
  emulation::issue_copy({emulation::current->block, from, to, bytes, barrier}, where);
}
inline void fence_async_proxy() {}

// ---- from kernel to kernel of a step cut into several: here one begins when the one before is done, and copies to
// shared memory are done at once.
inline void launch_dependents() {}
inline void dependency_wait() {}
template <uint32_t kBytes>
inline void copy_to_shared(uint32_t to, const void* from, const Where& where) {
  emulation::check_memory(from, kBytes, "copy to shared memory", where);
  emulation::store_shared<kBytes>(to, from, where);
}
template <uint32_t kBytes>
inline void copy_from_shared(void* to, uint32_t from, const Where& where) {
  emulation::check_memory(to, kBytes, "copy from shared memory", where);
  std::memcpy(to, emulation::shared_bytes_at<kBytes>(from, true, where, true), kBytes);
}
inline void copy_16_to_shared(uint32_t to, const void* from, Where where = Where::here()) {
  copy_to_shared<16>(to, from, where);
}
inline void copies_done() {}
inline void copy_4_to_shared(uint32_t to, const void* from, Where where = Where::here()) {
  copy_to_shared<4>(to, from, where);
}
inline void copy_16_from_shared(void* to, uint32_t from, Where where = Where::here()) {
  copy_from_shared<16>(to, from, where);
}
inline void copy_4_from_shared(void* to, uint32_t from, Where where = Where::here()) {
  copy_from_shared<4>(to, from, where);
}
inline void prefetch_l2(const void* from, Where where = Where::here()) {
  emulation::check_memory(from, 1, "prefetch", where);
}

// ---- hop words
inline void store_word(Word* to, uint32_t a, uint32_t b, uint32_t c, uint32_t epoch, Where where = Where::here()) {
  emulation::check_memory(to, sizeof(Word), "store_word", where);
  emulation::touch(where);
  if (emulation::current->block->races != nullptr) emulation::note_word(false);
  *to = {{a, b, c}, epoch};
  ++emulation::events;
}
inline Word load_word(const Word* from, Where where = Where::here()) {
  emulation::check_memory(from, sizeof(Word), "load_word", where);
  emulation::count_poll(64, emulation::Primitive::kLoadWord, where);
  emulation::touch(where);
  if (emulation::current->block->races != nullptr) emulation::note_word(true);
  return *from;
}
inline void load_word_if(bool wanted, const Word* from, Word& word, Where where = Where::here()) {
  if (wanted) word = load_word(from, where);
}
inline float load_float(const float* from, Where where = Where::here()) {
  emulation::check_memory(from, sizeof *from, "load_float", where);
  return *from;
}
inline void load_floats(const float* from, float (&values)[4], Where where = Where::here()) {
  emulation::check_memory(from, sizeof values, "load_floats", where);
  std::memcpy(values, from, sizeof values);
}
inline void fence_gpu() {}
inline void fence_system() {}
inline bool claim(uint32_t* word) {
  const bool free = *word == 0;
  if (free) *word = 1;
  ++emulation::events;
  return free;
}
inline void raise_to(uint32_t* word, uint32_t value) {
  if (*word < value) *word = value;
  ++emulation::events;
}
inline void store_release_system(uint32_t* to, uint32_t value) {
  *to = value;
  ++emulation::events;
}
inline uint32_t load_acquire_system(const uint32_t* from) { return *from; }

// ---- within a warp
inline uint32_t shuffle(uint32_t value, int32_t lane, Where where = Where::here()) {
  return emulation::meet_with(emulation::Primitive::kShuffle, value, lane, where);
}
inline uint32_t shuffle_xor(uint32_t value, int32_t mask, Where where = Where::here()) {
  return emulation::meet_with(emulation::Primitive::kShuffleXor, value, mask, where);
}
inline float shuffle_xor(float value, int32_t mask, Where where = Where::here()) {
  return std::bit_cast<float>(shuffle_xor(std::bit_cast<uint32_t>(value), mask, where));
}
inline uint32_t shuffle_down(uint32_t value, int32_t distance, Where where = Where::here()) {
  return emulation::meet_with(emulation::Primitive::kShuffleDown, value, distance, where);
}
inline float shuffle_down(float value, int32_t distance, Where where = Where::here()) {
  return std::bit_cast<float>(shuffle_down(std::bit_cast<uint32_t>(value), distance, where));
}
inline uint32_t reduce_max(uint32_t value, Where where = Where::here()) {
  return emulation::meet_with(emulation::Primitive::kReduceMax, value, 0, where);
}
inline bool all_lanes(bool value, Where where = Where::here()) {
  return emulation::meet_with(emulation::Primitive::kAllLanes, value, 0, where) != 0;
}
inline uint32_t ballot(bool value, Where where = Where::here()) {
  return emulation::meet_with(emulation::Primitive::kBallot, value, 0, where);
}
inline int32_t bits_set(uint32_t value) { return std::popcount(value); }
inline int32_t lowest_bit(uint32_t value) { return std::countr_zero(value); }
inline void mma_bf16(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1,
                     Where where = Where::here()) {
  emulation::Lane& lane = *emulation::current;
  const uint32_t inputs[6] = {a0, a1, a2, a3, b0, b1};
  std::memcpy(lane.operands, inputs, sizeof inputs);
  std::memcpy(lane.operands + 6, d, sizeof d);
  emulation::meet(emulation::Primitive::kMma, where);
  std::memcpy(d, lane.results, sizeof d);
}
inline uint32_t transpose_8x8(uint32_t value, Where where = Where::here()) {
  return emulation::meet_with(emulation::Primitive::kTranspose, value, 0, where);
}

// ---- numbers
inline uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }
inline float float_of(uint32_t bits) { return std::bit_cast<float>(bits); }
inline float exp2_approximate(float x) {
  const float y = std::exp2(x);
  return y < 0x1p-126f ? 0.0f : y;
}
inline float reciprocal_square_root(float x) { return 1.0f / std::sqrt(x); }
inline float multiply_add(float a, float b, float c) { return std::fma(a, b, c); }
inline uint32_t pack_bf16(float low, float high) { return emulation::bf16_of(low) | emulation::bf16_of(high) << 16; }

// ---- time, faults
inline uint64_t clock_now(Where where = Where::here()) {
  emulation::count_poll(16, emulation::Primitive::kClock, where);
  return ++emulation::grid->result.clock;
}
inline uint32_t clock_coarse(Where where = Where::here()) {
  return static_cast<uint32_t>(clock_now(where) / kCoarseClocks);
}
inline uint32_t clock_low(Where where = Where::here()) { return static_cast<uint32_t>(clock_now(where)); }
inline uint32_t processor_index() { return static_cast<uint32_t>(block_index()); }
inline uint64_t global_nanoseconds(Where where = Where::here()) { return clock_now(where); }
inline void spin_hint(Where where = Where::here()) { emulation::give_way(emulation::Primitive::kSpinHint, where); }
[[noreturn]] inline void stop_kernel(Where where = Where::here()) { emulation::stop(where); }

inline uint32_t load_constant_32(const void* from, Where where = Where::here()) {
  uint32_t value;
  emulation::check_memory(from, sizeof value, "load_constant_32", where);
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace boreas::cuda
