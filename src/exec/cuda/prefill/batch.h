// What one prefill computes: packed ranges of tokens of several sequences, and the tables that its kernels read. Host
// integer math, tested without a GPU. device_executor.cc cuts plans into batches, the device uploads their tables.
//
// A token's arithmetic depends on its own sequence alone, so any cut and any packing gives the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "exec/cuda/page_tables.h"
#include "exec/executor.h"

namespace boreas::cuda {

// Tokens of one sequence at ascending positions, from `position` on. Their pages lie where `pages` says.
struct PrefillRange {
  std::span<const TokenId> tokens;  // not empty
  int32_t position = 0;
  PageTables::Place pages;
};

struct PrefillBatch {
  std::vector<PrefillRange> ranges;
  int32_t tokens = 0;  // of all ranges
  int32_t pages = 0;   // from the sequence's first to the range's last one, of all ranges
};

// Of a row that is no decode row: how many of its tokens a prefill computes. The last token of a prompt is left to the
// decode kernel, which has its logits; rows that want all logits, and rows of one token, are decode rows.
int32_t prefill_tokens_of(const StepRow& row);

// Ranges in order, cut where a batch is full. pages_max: at least those of the longest sequence.
std::vector<PrefillBatch> cut_into_batches(std::span<const PrefillRange> ranges, int32_t tokens_max, int32_t pages_max);

// One token as kernels see it.
struct PrefillToken {
  int32_t token, position;
  int32_t page_full, page_sliding;  // index in page_tables of the page that holds its own position
};
static_assert(sizeof(PrefillToken) == 16);

// Neighbouring tokens of one sequence whose queries share K and V on chip.
struct AttentionItem {
  int32_t token_first, token_count;  // in the batch
  int32_t position;                  // of the first
  // Page p of the sequence is unfolded at place `unfolded_full` + p, in sliding layers at `unfolded_sliding` + p.
  int32_t unfolded_full, unfolded_sliding;
};
static_assert(sizeof(AttentionItem) == 20);

// A page that some token of the batch sees in full or in sliding layers, and where it is unfolded.
struct UnfoldedPage {
  int32_t page_table;  // index in page_tables
  int32_t place;
  int32_t positions;  // that are there; what lies beyond them counts as zero
};

struct PrefillTables {
  std::vector<PrefillToken> tokens;
  std::vector<AttentionItem> items;         // of at most tokens_per_item tokens; those with the most keys first
  std::vector<UnfoldedPage> full, sliding;  // places 0, 1, ... of each
};
// window: visible keys of sliding layers, as PageTables.
PrefillTables make_prefill_tables(const PrefillBatch& batch, int32_t tokens_per_item, int32_t window);

}  // namespace boreas::cuda
