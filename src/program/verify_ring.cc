// What a consumer learns of its producer by taking an item from the ring; for verify.cc.
//
// Only chunks that every step has teach anything: experts and pages may be none. And the producer may be several warps
// that issue chunks in turn: one that has no chunk in an item may lag behind in an earlier one. But any `producers`
// chunks in a row take one of each warp, and chunks of run-time counts in between only add to them. So after a task has
// taken its item, all items before the last `producers` certain chunks are loaded, and their tasks done by every warp.
#include "program/verify_state.h"
#include "program/weight_tiles.h"

namespace boreas::verification {

std::vector<int32_t> loads_known_done(std::span<const TaskDesc> consumer, int32_t producers) {
  std::vector<int32_t> known(consumer.size(), 0);
  std::vector<int32_t> chunks_before;  // [items], certain ones
  int32_t chunks = 0;
  size_t done = 0;
  for (size_t i = 0; i < consumer.size(); ++i) {
    const TaskDesc& task = consumer[i];
    if (task.stream_item < 0) continue;
    chunks_before.push_back(chunks);
    if (static_cast<StreamCount>(task.stream_count) != StreamCount::kOne || task.stream_unit_pieces == 0) continue;
    chunks += static_cast<int32_t>(chunks_of_pieces(task.stream_unit_pieces));
    while (done + 1 < chunks_before.size() && chunks - chunks_before[done + 1] >= producers) ++done;
    known[i] = static_cast<int32_t>(done);
  }
  return known;
}

}  // namespace boreas::verification
