// Body of out_proj: see program/ops/out_proj.h.
#include "exec/cpu/products.h"

namespace boreas::cpu {

void run_kOutProj(OpContext& context, const TaskDesc& task) {
  const Range own{task.args[OutProjOp::kFirst], task.args[OutProjOp::kCount]};
  const TensorView& output = context.shared.model->weights().at(WeightRole::kOutput, task.layer);
  multiply_rows(context, output, own, rows_of(context, context.worker.attention, context.config().query_width()),
                context.worker.projected);
}

}  // namespace boreas::cpu
