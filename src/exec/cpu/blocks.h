// From a plan to blocks: every row's token range is cut so that at most block_rows tokens run through the layers
// together, rows packed in plan order. Since a token's arithmetic does not depend on its block, any cut gives the same
// bits.
#pragma once

#include <vector>

#include "exec/cpu/state.h"

namespace boreas::cpu {

// feedback: per sequence slot, the token the last plan drew, for rows without tokens of their own.
// One block an element, in the order in which they must run.
std::vector<Block> cut_into_blocks(const StepPlan& plan, std::span<const TokenId> feedback, int32_t block_rows);

// Angles of the block's rows: position * theta^(-2i/dim), frequency rounded once to fp32, product in fp32, cosine and
// sine rounded from double.
void fill_rope(Block& block, const ModelConfig& config);

}  // namespace boreas::cpu
