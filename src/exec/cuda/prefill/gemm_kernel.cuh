// The body of every matrix product of prefill: Y^T = W X^T by wgmma, 128 rows of W by up to 256 tokens a tile, one
// persistent block an SM. gemm.cu launches it. W's fragments go from shared memory to registers as they lie (they are
// the A operand), X's rows are the B operand.
//
//   warpgroup 0  producer  fills a ring of stages (K steps of 64): weights by bulk copies, dealt out over the threads
//                          of four warps, since a warp issues its own one by one; X by tensor copies, or, where a list
//                          names the tokens, by the threads' own copies of 16 bytes
//   1, 2         consumer  64 of the 128 rows each, all tokens: loads A of the next block while MMAs of this one run
//
// A stage is full when its bytes have landed (threads' own copies report by an arrival for each producer thread), empty
// when all eight consumer warps have said so after waiting for its MMAs: a consumer lets a stage go when it has the
// next one. The sum of an element is one chain over K in ascending order, the same for every width of a tile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "exec/cuda/prefill/gemm_params.h"
#include "exec/cuda/prefill/gemm_schedule.h"
#include "exec/cuda/prefill/gemm_tile.h"
#include "exec/cuda/prefill/numbers.cuh"
#ifdef BOREAS_EMULATE_DEVICE
#include <gemm_emulation.h>
#else
#include "exec/cuda/prefill/gemm_ptx.cuh"
#endif

namespace boreas::cuda {

// The ring as one role walks through it.
struct GemmRing {
  uint32_t base;  // of shared memory
  int32_t stages, stage_bytes;
  int32_t stage = 0;
  uint32_t parity = 0;

  BOREAS_DEVICE GemmRing(const GemmParams& params, uint32_t shared)
      : base(shared), stages(params.stages), stage_bytes(gemm_stage_bytes(params.width)) {}
  BOREAS_DEVICE uint32_t full_of(int32_t which) const {
    return base + kGemmBarriers + static_cast<uint32_t>(which) * 8;
  }
  BOREAS_DEVICE uint32_t full() const { return full_of(stage); }
  BOREAS_DEVICE uint32_t empty() const { return full() + kGemmStagesMax * 8; }
  BOREAS_DEVICE uint32_t weights() const { return base + static_cast<uint32_t>(stage * stage_bytes); }
  BOREAS_DEVICE uint32_t tokens() const { return weights() + kGemmWeightBytes; }
  BOREAS_DEVICE void advance() {
    stage = stage + 1 == stages ? 0 : stage + 1;
    parity ^= stage == 0 ? 1u : 0u;
  }
};

// ---- producer

// What a thread copies of a tile's rows, K step after K step. Neighbouring copies go to different warps.
struct WeightCopy {
  const std::byte* from;
  uint32_t step, shared, bytes;

  BOREAS_DEVICE WeightCopy(const GemmTile& tile, const std::byte* weights, int32_t thread) {
    const int32_t index = thread % 32 * kGemmProducerWarps + thread / 32;
    const GemmCopy copy = index < tile.copy_count ? tile.copies[index] : GemmCopy{};
    from = weights + copy.source;
    step = copy.step;
    shared = copy.shared;
    bytes = copy.bytes;
  }
  BOREAS_DEVICE void next(uint32_t stage, uint32_t barrier) {
    if (bytes > 0) bulk_copy(stage + shared, from, bytes, barrier);
    from += step;
  }
};
static_assert(kGemmCopiesMax == kGemmProducerWarps * 32);

// Rows of X that a list names: thread t copies bytes 16 (t % 8) .. + 15 of a step's 128 of tokens t / 8, + 16, + 32,
// ...
class TokenCopies {
 public:
  static constexpr int32_t kEach = kGemmWidthMax / 16;

  BOREAS_DEVICE explicit TokenCopies(int32_t thread)
      : column_bytes_(thread % 8 * 16),
        to_(static_cast<uint32_t>(thread / 8 * kGemmStepRowBytes + (thread % 8 ^ thread / 8 % 8) * 16)),
        token_(thread / 8) {}

  BOREAS_DEVICE void begin_tile(const GemmParams& params, const GemmWork& work) {
    width_ = work.width;
    wanted_ = work.tokens - token_;
    x_ = reinterpret_cast<const std::byte*>(params.x) + column_bytes_;
    BOREAS_UNROLL
    for (int32_t i = 0; i < kEach; ++i)
      row_bytes_[i] = 16 * i < wanted_ ? static_cast<uint32_t>(params.gather[work.row + token_ + 16 * i]) *
                                             static_cast<uint32_t>(params.x_row_bytes)
                                       : 0;
  }
  // The stage's barrier hears of it from the copies themselves, thread by thread.
  BOREAS_DEVICE void next(uint32_t stage, uint32_t barrier) {
    opaque(x_);  // else every row gets a pointer of its own, and they do not fit into the registers
    BOREAS_UNROLL
    for (int32_t i = 0; i < kEach; ++i)
      if (i / 4 < width_)
        copy_16_or_zeros(stage + to_ + static_cast<uint32_t>(i * 16 * kGemmStepRowBytes), x_ + row_bytes_[i],
                         16 * i < wanted_ ? 16 : 0);
    x_ += kGemmStepRowBytes;
    copies_arrive(barrier);
  }

 private:
  const std::byte* x_ = nullptr;  // this thread's 16 bytes of the K step in row 0
  int32_t column_bytes_;
  uint32_t to_;
  int32_t token_;
  int32_t width_ = 0, wanted_ = 0;  // of the tile: steps of tokens; wanted ones from this thread's first on
  uint32_t row_bytes_[kEach];       // where the rows begin
};

template <bool kGather>
BOREAS_DEVICE void gemm_produce(const GemmParams& params, const GemmSchedule& schedule, uint32_t base, int32_t works) {
  const int32_t thread = thread_index(), lane = thread % 32, warp = thread / 32;
  GemmRing ring(params, base);
  ring.parity = 1;  // the first pass over the ring waits for nobody
  TokenCopies token_copies(thread);
  BOREAS_NO_UNROLL
  for (int32_t index = block_index(); index < works; index += params.blocks) {
    const GemmWork work = work_at(schedule, params.groups, params.row_tiles, params.width, index);
    const GemmTile& tile = params.tiles[work.row_tile];
    WeightCopy weight_copy(tile, params.weights + work.group * params.group_stride, thread);
    const int32_t token_bytes = kGather ? 0 : work.width * kGemmBoxBytes;
    const uint32_t bytes = static_cast<uint32_t>(tile.bytes + token_bytes);
    if (kGather) token_copies.begin_tile(params, work);
    BOREAS_NO_UNROLL
    for (int32_t k_step = 0; k_step < params.k_steps; ++k_step) {
      prefill::wait_mbarrier(ring.empty(), ring.parity);
      if (thread == 0) mbarrier_arrive_expect(ring.full(), bytes);  // before or after what others' copies bring
      if (!kGather && lane == 0 && warp < work.width)
        tensor_copy(ring.tokens() + static_cast<uint32_t>(warp * kGemmBoxBytes), params.tensor_map,
                    k_step * kGemmStepColumns, work.row + warp * kGemmWidthStep, ring.full());
      if (kGather) token_copies.next(ring.tokens(), ring.full());
      weight_copy.next(ring.weights(), ring.full());
      ring.advance();
    }
  }
}

// ---- consumer

// Where a lane finds its two rows of A, g and g + 8 of its warp's 16, in a stage.
template <bool kRowLoads>
struct FragmentLane {
  uint32_t first, second;            // of the first block
  uint32_t first_step, second_step;  // to the other block
  bool tall;                         // kRowLoads: the first row's tile, else the fragment is one
  bool second_tall;

  BOREAS_DEVICE FragmentLane(const GemmTile& tile, int32_t row, int32_t lane) {
    const uint32_t column = static_cast<uint32_t>(lane % 4 * 16);
    const GemmSlot low = tile.slots[row + lane / 4], high = tile.slots[row + lane / 4 + 8];
    tall = low.step == kTallStep;
    second_tall = high.step == kTallStep;
    first = low.shared + column;
    first_step = low.step;
    second = !kRowLoads && tall ? first + kTallStep / 2 : high.shared + column;
    second_step = high.step;
  }

  // A of the two MMAs of a block of 32 columns. Tall tiles lie as registers; of short ones a lane has 16 bytes a row.
  BOREAS_DEVICE void load(uint32_t* a, uint32_t stage, uint32_t block) const {
    const uint32_t at = stage + first + block * first_step, at_second = stage + second + block * second_step;
    if constexpr (kRowLoads) {
      load_row(a, at, tall);
      load_row(a + 1, at_second, second_tall);
    } else {
      const Vec4 p = load_shared_128(at), q = load_shared_128(at_second);
      a[0] = p.x;
      a[1] = tall ? p.y : q.x;
      a[2] = p.z;
      a[3] = tall ? p.w : q.z;
      a[4] = tall ? q.x : p.y;
      a[5] = q.y;
      a[6] = tall ? q.z : p.w;
      a[7] = q.w;
    }
  }

 private:
  BOREAS_DEVICE static void load_row(uint32_t* a, uint32_t at, bool tall_row) {
    a[0] = load_shared_32(at);
    a[2] = load_shared_32(at + 8);
    a[4] = load_shared_32(at + (tall_row ? kTallStep / 2 : 4));
    a[6] = load_shared_32(at + (tall_row ? kTallStep / 2 + 8 : 12));
  }
};

// Everything a consumer thread knows beside its sums.
struct GemmConsumer {
  const GemmParams& params;
  GemmRing ring;
  int32_t half, warp, lane;  // half of the tile's rows = warpgroup; warp of it
  int32_t store_part = 0;    // of the staging, where fp32 goes next

  BOREAS_DEVICE uint32_t staging() const {
    return ring.base + kGemmStaging + static_cast<uint32_t>(half * kGemmStagingBytes);
  }
  BOREAS_DEVICE int32_t thread() const { return warp * 32 + lane; }
  BOREAS_DEVICE void meet() const { named_barrier(1 + half, 128); }
};

// Sums of a thread: of the widest tile; narrower ones use the first.
using GemmSums = float[kGemmWidthMax / 2];

// One block of 32 columns: its MMAs are issued behind those of the block before, which then are waited for.
template <int kWidth, class Fragments>
BOREAS_DEVICE void multiply_block(const GemmConsumer& c, const Fragments& fragments, GemmSums& sums, uint32_t (&a)[8],
                                  uint32_t block) {
  fragments.load(a, c.ring.weights(), block);
  const uint64_t b = descriptor_of(c.ring.tokens()) + 2 * kDescriptorK * block;
  wgmma_fence();
  wgmma(reinterpret_cast<float(&)[kWidth / 2]>(sums), a, b);
  wgmma(reinterpret_cast<float(&)[kWidth / 2]>(sums), a + 4, b + kDescriptorK);
  wgmma_commit();
  wgmma_wait<1>();
}

template <int kWidth, bool kGather, class Fragments>
BOREAS_DEVICE void multiply_tile(GemmConsumer& c, const Fragments& fragments, GemmSums& sums) {
  uint32_t a[2][8], previous = 0;
  BOREAS_NO_UNROLL
  for (int32_t k_step = 0; k_step < c.params.k_steps; ++k_step) {
    prefill::wait_mbarrier(c.ring.full(), c.ring.parity);
    if constexpr (kGather) fence_async_proxy();  // threads' copies are not the engine's; MMAs read like the engine
    multiply_block<kWidth>(c, fragments, sums, a[0], 0);
    mbarrier_arrive_if(k_step > 0 && c.lane == 0, previous);  // the stage before: all of its MMAs are done
    multiply_block<kWidth>(c, fragments, sums, a[1], 1);
    previous = c.ring.empty();
    c.ring.advance();
  }
  wgmma_wait<0>();
  BOREAS_UNROLL
  for (int32_t i = 0; i < kWidth / 2; ++i) opaque(sums[i]);
  mbarrier_arrive_if(c.lane == 0, previous);
}

// A tile as a consumer thread sees it.
template <bool kRowLoads>
struct GemmTask {
  GemmWork work;
  FragmentLane<kRowLoads> fragments;
  int32_t column, columns;  // of Y, of its half

  BOREAS_DEVICE GemmTask(const GemmConsumer& c, const GemmSchedule& schedule, int32_t index)
      : work(work_at(schedule, c.params.groups, c.params.row_tiles, c.params.width, index)),
        fragments(c.params.tiles[work.row_tile], c.half * kGemmHalfRows + c.warp * 16, c.lane),
        column(c.params.tiles[work.row_tile].column[c.half]),
        columns(c.params.tiles[work.row_tile].columns[c.half]) {}
};

// ---- epilogues: sums[4 j + i] is row g (i < 2) or g + 8 of the warp's 16, token 8 j + 2 (lane % 4) + i % 2.

// 32 tokens by a tensor copy, which must not touch tokens of others: all of them are wanted.
template <class Task>
BOREAS_DEVICE void store_floats_staged(GemmConsumer& c, const Task& task, const float* sums, int32_t token_first) {
  const int32_t g = c.lane / 4, token = c.lane % 4 * 2;
  const uint32_t part = c.staging() + static_cast<uint32_t>(c.store_part * kGemmStorePartBytes);
  const uint32_t box = part + static_cast<uint32_t>(c.warp / 2 * kGemmStoreBytes + token * 128 + g % 4 * 4);
  if (c.thread() == 0) stores_wait_read<kGemmStoreParts - 1>();
  c.meet();  // what this part held before has been read
  BOREAS_UNROLL
  for (int32_t i = 0; i < 4; ++i) {
    const int32_t unit = c.warp % 2 * 4 + i / 2 * 2 + g / 4;
    const uint32_t at = box + static_cast<uint32_t>(i % 2 * 128 + (unit ^ (token + i % 2)) * 16);
    BOREAS_UNROLL
    for (int32_t j = 0; j < kGemmStoreTokens / 8; ++j)
      store_shared_sum(at + static_cast<uint32_t>(j * 8 * 128), sums[4 * j + i]);
  }
  fence_async_proxy();
  c.meet();  // all is staged
  if (c.thread() == 0) {
    for (int32_t i = 0; i < 2; ++i)
      tensor_store(c.params.y_map, task.column + i * kGemmStoreColumns, task.work.row + token_first,
                   part + static_cast<uint32_t>(i * kGemmStoreBytes));
    stores_commit();
  }
  c.store_part ^= 1;
}

template <class Task>
BOREAS_DEVICE void store_floats_singly(const GemmConsumer& c, const Task& task, const float* sums,
                                       int32_t token_first) {
  const int32_t row = c.warp * 16 + c.lane / 4, token = token_first + c.lane % 4 * 2;
  float* const y = static_cast<float*>(c.params.y) + int64_t{task.work.row} * c.params.columns + task.column + row;
  BOREAS_UNROLL
  for (int32_t j = 0; j < kGemmStoreTokens / 8; ++j) {
    BOREAS_UNROLL
    for (int32_t i = 0; i < 2; ++i) {
      const int32_t at = token + 8 * j + i;
      const bool wanted = at < task.work.tokens;
      if (wanted && row < task.columns) y[int64_t{at} * c.params.columns] = sums[4 * j + i];
      if (wanted && row + 8 < task.columns) y[int64_t{at} * c.params.columns + 8] = sums[4 * j + 2 + i];
    }
  }
}

template <class Task>
BOREAS_DEVICE void store_floats(GemmConsumer& c, const Task& task, const GemmSums& sums) {
  BOREAS_UNROLL
  for (int32_t first = 0; first < kGemmWidthMax; first += kGemmStoreTokens) {
    if (first >= task.work.tokens) return;
    if (task.columns == kGemmHalfRows && first + kGemmStoreTokens <= task.work.tokens)
      store_floats_staged(c, task, sums + first / 2, first);
    else store_floats_singly(c, task, sums + first / 2, first);
  }
}

// Staged rows of kUnits 16-byte units, one a token, to Y: neighbouring threads store neighbouring bytes.
template <int32_t kUnits, class Task, class Place>
BOREAS_DEVICE void store_staged(const GemmConsumer& c, const Task& task, int32_t token_first, int32_t tokens,
                                Place place) {
  const int32_t unit = c.thread() % kUnits;
  if (unit * 8 >= task.columns) return;
  const int32_t end = least(tokens, task.work.tokens - token_first);
  bf16* const y = static_cast<bf16*>(c.params.y) + task.column + unit * 8;
  for (int32_t token = c.thread() / kUnits; token < end; token += 128 / kUnits) {
    const Vec4 v = load_shared_128(place(token, unit));
    store_global_128(y + int64_t{task.work.row + token_first + token} * c.params.columns, v);
  }
}

template <class Task>
BOREAS_DEVICE void store_halves(const GemmConsumer& c, const Task& task, const GemmSums& sums) {
  constexpr int32_t kTokens = 128;  // staged at a time
  const auto place = [&c](int32_t token, int32_t unit) {
    return c.staging() + static_cast<uint32_t>(token * 128 + (unit ^ token % 8) * 16);
  };
  const uint32_t own = place(c.lane / 16 * 8 + c.lane % 8, c.warp * 2 + c.lane / 8 % 2);
  BOREAS_UNROLL
  for (int32_t first = 0; first < kGemmWidthMax; first += kTokens) {
    if (first >= task.work.tokens) return;
    c.meet();  // nobody reads what was staged before
    BOREAS_UNROLL
    for (int32_t pair = 0; pair < kTokens / 16; ++pair) {
      const float* const s = sums + first / 2 + 8 * pair;
      if (first + 16 * pair < task.work.tokens)
        store_transposed(own + static_cast<uint32_t>(pair * 16 * 128), pack_bf16(s[0], s[1]), pack_bf16(s[2], s[3]),
                         pack_bf16(s[4], s[5]), pack_bf16(s[6], s[7]));
    }
    c.meet();  // all is staged
    store_staged<8>(c, task, first, kTokens, place);
  }
}

constexpr float kGemmLog2E = 1.4426950408889634f;
BOREAS_DEVICE float gemm_swiglu(float gate, float up) {
  return gate * reciprocal_approximate(1.0f + exp2_approximate(-gate * kGemmLog2E)) * up;
}

// Rows g and g + 8 are gate and up of one column, in odd rows the other way round (slot_is_gate).
template <class Task>
BOREAS_DEVICE void store_swiglu(const GemmConsumer& c, const Task& task, const GemmSums& sums) {
  const bool swapped = c.lane / 4 % 2 != 0;
  const auto place = [&c](int32_t token, int32_t unit) {
    return c.staging() + static_cast<uint32_t>(token * 64 + (unit ^ token / 2 % 4) * 16);
  };
  const auto pair = [&](int32_t j) {
    const float* const s = sums + 4 * j;
    return pack_bf16(gemm_swiglu(swapped ? s[2] : s[0], swapped ? s[0] : s[2]),
                     gemm_swiglu(swapped ? s[3] : s[1], swapped ? s[1] : s[3]));
  };
  const uint32_t own = place(c.lane, c.warp);
  c.meet();  // nobody reads what was staged before
  BOREAS_UNROLL
  for (int32_t j = 0; j < kGemmWidthMax / 8; j += 4)
    if (8 * j < task.work.tokens)
      store_transposed(own + static_cast<uint32_t>(j * 8 * 64), pair(j), pair(j + 1), pair(j + 2), pair(j + 3));
  c.meet();  // all is staged
  store_staged<4>(c, task, 0, kGemmWidthMax, place);
}

template <GemmResult kResult, bool kGather, bool kRowLoads>
BOREAS_DEVICE void gemm_consume(const GemmParams& params, const GemmSchedule& schedule, uint32_t base, int32_t works) {
  const int32_t thread = thread_index() - 128, begin = block_index();
  GemmConsumer c{params, GemmRing(params, base), thread / 128, thread / 32 % 4, thread % 32};
  if (begin >= works) return;
  GemmTask<kRowLoads> next(c, schedule, begin);
  BOREAS_NO_UNROLL
  for (int32_t index = begin; index < works; index += params.blocks) {
    const GemmTask<kRowLoads> task = next;
    if (index + params.blocks < works) next = GemmTask<kRowLoads>(c, schedule, index + params.blocks);
    GemmSums sums;
    BOREAS_UNROLL
    for (float& sum : sums) sum = 0.0f;
    if (task.work.width == 4) multiply_tile<256, kGather>(c, task.fragments, sums);
    else if (task.work.width == 3) multiply_tile<192, kGather>(c, task.fragments, sums);
    else if (task.work.width == 2) multiply_tile<128, kGather>(c, task.fragments, sums);
    else multiply_tile<64, kGather>(c, task.fragments, sums);
    if constexpr (kResult == GemmResult::kFloats) store_floats(c, task, sums);
    else if constexpr (kResult == GemmResult::kHalves) store_halves(c, task, sums);
    else store_swiglu(c, task, sums);
  }
  if (kResult == GemmResult::kFloats && c.thread() == 0) stores_wait();
}

// ---- the kernel

BOREAS_DEVICE void begin_gemm(const GemmParams& params, GemmSchedule& schedule, uint32_t base, int32_t full_arrivals) {
  const int32_t thread = thread_index();
  if (thread == 0) {
    for (int32_t stage = 0; stage < kGemmStagesMax; ++stage) {
      mbarrier_init(base + kGemmBarriers + static_cast<uint32_t>(stage) * 8, static_cast<uint32_t>(full_arrivals));
      mbarrier_init(base + kGemmBarriers + static_cast<uint32_t>(kGemmStagesMax + stage) * 8, kGemmConsumerWarps);
    }
    mbarrier_init_done();
  }
  if (thread <= params.groups)
    schedule.first[thread] = params.first != nullptr ? params.first[thread] : thread * params.tokens;
  block_sync();
  if (thread < params.groups) cut_group(schedule, thread, params.width);
  block_sync();
  if (thread < params.groups) place_group(schedule, params.groups, thread);
  block_sync();
}

// Registers a thread, by role: what a warpgroup gives up is what the two others gain.
constexpr int32_t kGemmRegisters = 168;  // at the start: 65536 over the threads, rounded down to 8
template <bool kGather>
struct GemmRegisters {
  static constexpr int32_t kProducer = kGather ? 56 : 40, kConsumer = kGather ? 224 : 232;
  static_assert(kProducer + 2 * kConsumer <= 3 * kGemmRegisters, "the second to ask would wait for ever");
};

// One block of the kernel. kGather: X's rows are those that params.gather lists. kRowLoads: rows of tall tiles may be
// computed by any slots.
template <GemmResult kResult, bool kGather, bool kRowLoads>
BOREAS_DEVICE void run_gemm(const GemmParams& params) {
  const uint32_t raw = shared_base(), base = (raw + kGemmAlign - 1) / kGemmAlign * kGemmAlign;
  auto& schedule = *static_cast<GemmSchedule*>(shared_pointer(base + kGemmScheduleAt));
  begin_gemm(params, schedule, base, kGather ? 1 + kGemmProducerWarps * 32 : 1);
  const int32_t works = work_count(schedule, params.groups, params.row_tiles);
  if (thread_index() < kGemmProducerWarps * 32) {
    registers_decrease<GemmRegisters<kGather>::kProducer>();
    gemm_produce<kGather>(params, schedule, base, works);
  } else {
    registers_increase<GemmRegisters<kGather>::kConsumer>();
    gemm_consume<kResult, kGather, kRowLoads>(params, schedule, base, works);
  }
}

}  // namespace boreas::cuda
