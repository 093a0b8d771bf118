// What a task touches, as plain data: the contract headers in ops/ say it for each op, verify.cc proves that the order
// of the program suffices for it. Fixed-size, so that device code may include it.
#pragma once

#include <cstdint>

#include "program/task.h"

namespace boreas {

enum class Space : int32_t {
  kSlot,     // id: Slot, of the task's own worker
  kHop,      // id: Hop, use; reads: words of writers [first, first + count); writes: the own word
  kKv,       // id: layer, KV heads [first, first + count); the pages of the own worker's pieces
  kLogits,   // fp32 logits: reads: slices of workers [first, first + count); writes: the own slice
  kPlan,     // the step's plan in host-visible memory (token ids, positions, page tables, sampling parameters)
  kMailbox,  // the step's drawn tokens for the host: the own worker's rows
};

struct Access {
  Space space = Space::kSlot;
  int32_t id = 0;
  int32_t use = 0;
  int32_t first = 0;
  int32_t count = 0;
};

struct AccessList {
  static constexpr int32_t kMax = 8;
  Access items[kMax];
  int32_t size = 0;

  constexpr void slot(int32_t slot_id) { items[size++] = {Space::kSlot, slot_id, 0, 0, 1}; }
  constexpr void slot(Slot slot_id) { slot(static_cast<int32_t>(slot_id)); }
  constexpr void hop_read(const HopWait& wait) {
    items[size++] = {Space::kHop, wait.hop, wait.use, wait.first, wait.count};
  }
  constexpr void hop_write(const HopPublish& publish) { items[size++] = {Space::kHop, publish.hop, publish.use, 0, 1}; }
  constexpr void kv(int32_t layer, int32_t head_first, int32_t head_count) {
    items[size++] = {Space::kKv, layer, 0, head_first, head_count};
  }
  constexpr void logits(int32_t first, int32_t count) { items[size++] = {Space::kLogits, 0, 0, first, count}; }
  constexpr void plan() { items[size++] = {Space::kPlan, 0, 0, 0, 1}; }
  constexpr void mailbox() { items[size++] = {Space::kMailbox, 0, 0, 0, 1}; }
};

}  // namespace boreas
