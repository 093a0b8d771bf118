// See blocks.h.
#include "exec/cpu/blocks.h"

#include <algorithm>
#include <cmath>

namespace boreas::cpu {
namespace {

// Tokens [offset, offset + count) of a plan row become rows of the block.
void add_piece(Block& block, const StepRow& row, int32_t plan_row, std::span<const TokenId> tokens, int32_t offset,
               int32_t count) {
  const int32_t sequence = static_cast<int32_t>(block.sequences.size());
  block.sequences.push_back(
      {row.slot, row.full_pages, row.sliding_pages, row.sliding_first, plan_row, block.rows(), count});
  for (int32_t i = offset; i < offset + count; ++i) {
    const bool last = i + 1 == static_cast<int32_t>(tokens.size());
    if (row.logits == LogitsWanted::kAll || (last && row.logits == LogitsWanted::kLast)) {
      if (last) {
        BlockSample sample;
        sample.logits_row = static_cast<int32_t>(block.logits_rows.size());
        sample.slot = row.slot;
        sample.plan_row = plan_row;
        sample.position = int64_t{row.position} + static_cast<int64_t>(tokens.size());
        sample.forced_token = row.forced_token;
        sample.mask = row.mask.get();
        block.samples.push_back(sample);
      }
      block.logits_rows.push_back(block.rows());
    }
    block.tokens.push_back(tokens[static_cast<size_t>(i)]);
    block.positions.push_back(row.position + i);
    block.sequence_of.push_back(sequence);
  }
}

}  // namespace

std::vector<Block> cut_into_blocks(const StepPlan& plan, std::span<const TokenId> feedback, int32_t block_rows) {
  std::vector<Block> blocks(1);
  for (size_t r = 0; r < plan.rows.size(); ++r) {
    const StepRow& row = plan.rows[r];
    const std::span<const TokenId> tokens =
        row.tokens.empty() ? feedback.subspan(static_cast<size_t>(row.slot), 1) : row.tokens;
    const int32_t total = static_cast<int32_t>(tokens.size());
    for (int32_t offset = 0; offset < total;) {
      if (blocks.back().rows() == block_rows) blocks.emplace_back();
      const int32_t count = std::min(total - offset, block_rows - blocks.back().rows());
      add_piece(blocks.back(), row, static_cast<int32_t>(r), tokens, offset, count);
      offset += count;
    }
  }
  return blocks;
}

void fill_rope(Block& block, const ModelConfig& config) {
  const size_t pairs = static_cast<size_t>(config.head_dim) / 2;
  block.rope_cos.resize(block.tokens.size() * pairs);
  block.rope_sin.resize(block.tokens.size() * pairs);
  for (size_t i = 0; i < pairs; ++i) {
    const float frequency =
        static_cast<float>(std::pow(config.rope_theta, -2.0 * static_cast<double>(i) / config.head_dim));
    for (size_t row = 0; row < block.tokens.size(); ++row) {
      const float angle = static_cast<float>(block.positions[row]) * frequency;
      block.rope_cos[row * pairs + i] = static_cast<float>(std::cos(static_cast<double>(angle)));
      block.rope_sin[row * pairs + i] = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  }
}

}  // namespace boreas::cpu
