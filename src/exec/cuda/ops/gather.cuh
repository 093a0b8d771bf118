// GATHER on the device: words of hop qkv, attention or inner into their slots.
#pragma once

#include "exec/cuda/ops/op.cuh"

namespace boreas::cuda {

template <class C>
struct Body<C, Op::kGather> {
  static BOREAS_DEVICE void run(Worker<C>& w, const Task& task) {
    const HopWait wait = task.wait();
    const uint32_t epoch = hop_epoch(w.params, wait.hop, wait.use);
    switch (static_cast<Slot>(task.arg(GatherOp::kSlot))) {
      case Slot::kQkv:
        w.wait_own_publication(wait);
        gather_qkv(w, epoch);
        break;
      case Slot::kAttention:  // published by this very role before
        pause_clocks(w.params.poll_delay[wait.hop]);
        gather_attention(w, epoch);
        break;
      case Slot::kInnerFirst:
        w.wait_own_publication(wait, w.params.whole_inner != 0);  // else they came while others were still at work
        if constexpr (!C::kOneRow) gather_part(w, epoch, task, true);
        break;
      default:
        if (!C::kOneRow && task.arg(GatherOp::kFirstVectors) > 0) {
          gather_part(w, epoch, task, false);
          break;
        }
        w.wait_own_publication(wait);
        gather_inner(w, epoch, w.params.layers[task.layer()].router == kNoRouter);
    }
  }

 private:
  // Words a thread has in flight: all of a row's, where none is missing; else as far as registers go.
  static constexpr int32_t batch(int32_t row_words, bool complete) {
    const int32_t all = ceil_div_32(row_words, kMessengerThreads), most = complete ? 8 : 4;
    return all < most ? all : most;
  }

  // [worker][row][words]: q, k and v slices of the group's workers become [row][(queries + 2) * head_dim]. The words of
  // a group lie together; eight rows have 14 a thread.
  static BOREAS_DEVICE void gather_qkv(Worker<C>& w, uint32_t epoch) {
    constexpr int32_t kAhead = C::kOneRow ? 2 : 7;
    const Range writers = w.group().workers;
    const int32_t total = writers.count * w.rows() * C::kQkvWords;
    const Word* half =
        hop_half(w.params, static_cast<int32_t>(Hop::kQkv), epoch) + writers.first * w.rows() * C::kQkvWords;
    BOREAS_NO_UNROLL
    for (int32_t first = w.messenger_thread(); first < total; first += kMessengerThreads * kAhead) {
      Word words[kAhead];
      await_words(w.params, w.at, words, static_cast<int32_t>(Hop::kQkv), epoch, [&](int32_t k) -> const Word* {
        const int32_t i = first + k * kMessengerThreads;
        return i < total && (C::kEvenGroups || is_published(w, i)) ? half + i : nullptr;
      });
      w.at.mark(Moment::kGot);
      BOREAS_UNROLL
      for (int32_t k = 0; k < kAhead; ++k) {
        const int32_t i = first + k * kMessengerThreads;
        if (i >= total) break;
        store_qkv(w, i, words[k]);
      }
    }
  }
  // Of word i of a group: whose, which row's, and its first value.
  struct QkvWord {
    int32_t index, row, value;
    BOREAS_DEVICE QkvWord(const Worker<C>& w, int32_t i) : value(i % C::kQkvWords * kWordHalves) {
      const auto [its_index, its_row] = w.by_rows(i / C::kQkvWords);
      index = its_index, row = its_row;
    }
  };
  static BOREAS_DEVICE bool is_published(const Worker<C>& w, int32_t i) {
    const int32_t writers = w.group().workers.count;
    const QkvWord word(w, i);
    return word.value < C::q_slice(writers, word.index).count + 2 * C::kv_slice(writers, word.index).count;
  }
  static BOREAS_DEVICE void store_qkv(const Worker<C>& w, int32_t i, const Word& word) {
    const int32_t writers = w.group().workers.count;
    const QkvWord from(w, i);
    const Range q = C::q_slice(writers, from.index), kv = C::kv_slice(writers, from.index);
    BOREAS_UNROLL
    for (int32_t k = 0; k < 3; ++k) {  // slices are even: a pair stays together
      const int32_t value = from.value + 2 * k;
      int32_t to = q.first + value;
      if (value >= q.count) to = C::kHeadQueryWidth + kv.first + value - q.count;
      if (value >= q.count + kv.count) to += kHeadDim - kv.count;
      store_shared_32_if(value < q.count + 2 * kv.count, w.slot(Slot::kQkv) + (from.row * C::kQkvWidth + to) * 2,
                         word.payload[k]);
    }
  }

  static BOREAS_DEVICE void gather_attention(Worker<C>& w, uint32_t epoch) {
    constexpr int32_t kPerRow = C::kWorkers * C::kAttentionWords;
    constexpr int32_t kSlice = C::kEvenOutputs ? C::kOutputSliceMax : 0;
    const uint32_t slot = w.slot(Slot::kAttention);
    const auto slice_of = [](int32_t writer) {
      const typename C::Group group = C::group_of(writer);
      Range slice = C::output_slice(group.workers.count, writer - group.workers.first);
      slice.first += group.head * C::kHeadQueryWidth;
      return slice;
    };
    gather_words<kMessengerThreads, batch(kPerRow, C::kEvenOutputs), C::kEvenOutputs ? kPerRow : 0>(
        w.params, w.at, w.messenger_thread(), w.rows() * kPerRow, static_cast<int32_t>(Hop::kAttention), epoch,
        [&](int32_t i) -> int32_t {
          const int32_t first = i % C::kAttentionWords * kWordHalves;
          return first < slice_of(i % kPerRow / C::kAttentionWords).count ? i : -1;
        },
        [&](int32_t i, int32_t, const Word& word) {
          const Range slice = slice_of(i % kPerRow / C::kAttentionWords);
          const int32_t first = i % C::kAttentionWords * kWordHalves;
          store_activations<kSlice>(slot, w.rows(), i / kPerRow, slice.first + first, slice.count - first, word);
        });
  }

  // Inner vectors in two parts: the sorted choices' one after the other, [vector][width].
  static BOREAS_DEVICE void gather_part(Worker<C>& w, uint32_t epoch, const Task& task, bool first_part) {
    constexpr int32_t kWidth = C::kExpertWidth, kWords = C::kExpertWords, kPerVector = C::kWorkers * kWords;
    constexpr int32_t kAhead = 8, kEven = C::even_slice(kWidth);
    const int32_t parity = w.route_parity(task.arg(GatherOp::kRouteSlot));
    const int32_t all = w.rows() * C::kExpertsPerToken, first = task.arg(GatherOp::kFirstVectors);
    const int32_t cut = first < all ? first : all, end = (first_part ? cut : all) * kPerVector;
    const uint32_t slot = w.slot(first_part ? Slot::kInnerFirst : Slot::kInner) - (first_part ? 0 : cut * kWidth * 2);
    const Word* half = hop_half(w.params, static_cast<int32_t>(Hop::kInner), epoch);
    // Values in a word of a vector, none below zero.
    const auto count_of = [](int32_t from) {
      return C::slice_of(kWidth, from / kWords).count - from % kWords * kWordHalves;
    };
    // Word i is of vector i / kPerVector; there each vector's words are dealt out one thread further.
    const auto word_of = [](int32_t i) {
      const int32_t vector = i / kPerVector;
      return VectorWord{vector, (i + vector) % kPerVector};
    };
    BOREAS_NO_UNROLL
    for (int32_t begin = (first_part ? 0 : cut) * kPerVector + w.messenger_thread(); begin < end;
         begin += kMessengerThreads * 32) {
      const int32_t left = ceil_div_32(end - begin, kMessengerThreads);
      uint32_t missing = low_bits(left);
      if constexpr (kEven == 0)
        for (int32_t k = 0; k < left && k < 32; ++k)
          if (count_of(word_of(begin + k * kMessengerThreads).word) <= 0) missing &= ~(1u << k);
      gather_as_they_come<kAhead>(
          w.params, w.at, missing, static_cast<int32_t>(Hop::kInner), epoch,
          [&](int32_t k) {
            const auto [vector, from] = word_of(begin + k * kMessengerThreads);
            return half + w.sorted_choice(parity, vector < all ? vector : all - 1) * kPerVector + from;
          },
          [&](bool there, int32_t k, const Word& word) {
            const auto [vector, from] = word_of(begin + k * kMessengerThreads);
            const int32_t value = C::slice_of(kWidth, from / kWords).first + from % kWords * kWordHalves;
            store_values<kEven != 0 && kEven % 2 == 0>(slot + (vector * kWidth + value) * 2, count_of(from), word,
                                                       there);
          });
      w.at.mark(Moment::kGot);
    }
  }
  struct VectorWord {
    int32_t vector, word;
  };

  // Vectors (row, choice) or rows one after the other, [vector][width].
  static BOREAS_DEVICE void gather_inner(Worker<C>& w, uint32_t epoch, bool dense) {
    if (dense) gather_vectors<C::kDenseWidth, C::kDenseWords, 1>(w, epoch);
    else gather_vectors<C::kExpertWidth, C::kExpertWords, C::kExpertsPerToken>(w, epoch);
  }
  template <int32_t kWidth, int32_t kWords, int32_t kVectors>
  static BOREAS_DEVICE void gather_vectors(Worker<C>& w, uint32_t epoch) {
    constexpr int32_t kPerVector = C::kWorkers * kWords;
    const uint32_t slot = w.slot(Slot::kInner);
    constexpr int32_t kOfRow = kVectors * kPerVector;
    constexpr bool kEven = C::even_slice(kWidth) > 0;
    gather_words<kMessengerThreads, batch(kOfRow, kEven), kEven ? kOfRow : 0>(
        w.params, w.at, w.messenger_thread(), w.rows() * kOfRow, static_cast<int32_t>(Hop::kInner), epoch,
        [&](int32_t i) -> int32_t {
          const Range slice = C::slice_of(kWidth, i % kPerVector / kWords);
          return i % kWords * kWordHalves < slice.count ? i : -1;
        },
        [&](int32_t i, int32_t, const Word& word) {
          const Range slice = C::slice_of(kWidth, i % kPerVector / kWords);
          const int32_t first = i % kWords * kWordHalves;
          const uint32_t to = slot + (i / kPerVector * kWidth + slice.first + first) * 2;
          store_values<C::even_slice(kWidth) % 2 == 0 && C::even_slice(kWidth) != 0>(to, slice.count - first, word);
        });
  }
};

}  // namespace boreas::cuda
