// Body of sample: see program/ops/sample.h; exec/sampling.h does the drawing.
#include "exec/cpu/state.h"

namespace boreas::cpu {

void run_kSample(OpContext& context, const TaskDesc& task) {
  const int32_t workers = task.args[SampleOp::kWorkers];
  Shared& shared = context.shared;
  const size_t vocab = static_cast<size_t>(context.config().vocab_size);
  for (size_t i = static_cast<size_t>(context.worker.id); i < shared.block.samples.size();
       i += static_cast<size_t>(workers)) {
    const BlockSample& sample = shared.block.samples[i];
    const std::span<const float> logits{shared.logits.data() + static_cast<size_t>(sample.logits_row) * vocab, vocab};
    const Sampler& sampler = shared.samplers[static_cast<size_t>(sample.slot)];
    shared.sampled[i] = sample.forced_token >= 0
                            ? score_token(logits, sample.forced_token, sampler.params.top_logprobs)
                            : sample_token(logits, sampler.params, sampler.penalties, sample.mask, sample.position);
  }
}

}  // namespace boreas::cpu
