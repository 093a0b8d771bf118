#include "exec/cuda/program_set.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "base/check.h"
#include "exec/cuda/segments.h"
#include "exec/cuda/weight_layout.h"

namespace boreas::cuda {
namespace {

constexpr int64_t kRingAlign = 1024, kPartialAlign = 128;
constexpr int64_t kTableAlign = 256;
// A piece owns one page in so many positions: by so many a list's entry more is needed.
constexpr int32_t kListPositions = kAttentionPieces * kLayoutPagePositions;

int64_t align_up(int64_t bytes, int64_t to) { return ceil_div(bytes, to) * to; }

}  // namespace

PageListSizes page_list_sizes(const ModelConfig& config, int32_t workers, int32_t context_max) {
  const int32_t pieces = slice_max(kAttentionPieces, workers / config.kv_heads);
  const auto entries = [&](int64_t pages) { return static_cast<int32_t>(pieces * ceil_div(pages, kAttentionPieces)); };
  const int64_t pages = ceil_div(context_max, kLayoutPagePositions);
  // A window of w positions touches one page more than it could fill, when it begins in the middle of one.
  const int64_t reachable =
      std::min(pages, (config.window - 1 + kLayoutPagePositions - 1) / kLayoutPagePositions + int64_t{1});
  return {config.full_layers() > 0 ? entries(pages) : 0, config.sliding_layers() > 0 ? entries(reachable) : 0};
}

ProgramSet::Entry ProgramSet::lay_out(const Program& program, const CompiledShape& shape, bool spares) const {
  Entry entry;
  entry.rows_max = program.rows_max;
  entry.task_count = program.tasks.size();
  for (size_t i = 0; i < kSlots; ++i) entry.slot_offset[i] = static_cast<uint32_t>(program.slots[i].offset);
  entry.ring_chunks = program.ring_chunks;
  entry.producers = program.producers;
  const int64_t ring = align_up(program.slot_bytes, kRingAlign);
  const int64_t scratch = ring + int64_t{program.ring_chunks} * kStreamChunkBytes;
  entry.ring_offset = static_cast<uint32_t>(ring);
  const int32_t rows = program.rows_max, pages = lists_.full + lists_.sliding, least = partial_bytes(rows);
  entry.scratch = shape.scratch_map(static_cast<uint32_t>(scratch), rows, pages, least);
  if (const int64_t spare = program.device.slot_ring_bytes - entry.scratch.end; spares && spare > 0) {
    const int64_t half = std::min<int64_t>(least + spare / 2 / kPartialAlign * kPartialAlign, kPartialBytesMax);
    entry.scratch = shape.scratch_map(static_cast<uint32_t>(scratch), rows, pages, static_cast<int32_t>(half));
  }
  entry.shared_bytes = entry.scratch.end;
  return entry;
}

// Lists grow with the context and the rows; with many rows what slots and the smallest ring leave may hold only those
// of a shorter context. All launch sizes must be able to serve any sequence, so the tightest one decides.
Status ProgramSet::shorten_lists(const ModelConfig& config, const CompiledShape& shape,
                                 const std::vector<Program>& programs) {
  for (const Program& program : programs) {
    const int64_t room = program.device.slot_ring_bytes;
    const auto needed = [&] { return static_cast<int64_t>(lay_out(program, shape, false).shared_bytes); };
    while (room > 0 && needed() > room) {
      const int32_t shorter = (context_max_ - 1) / kListPositions * kListPositions;
      if (shorter == 0) {
        return Error{"a program of " + std::to_string(program.rows_max) + " rows needs " + std::to_string(needed()) +
                     " bytes of shared memory, " + program.device.name + " has " + std::to_string(room) + ": slots " +
                     std::to_string(program.slot_bytes) + ", ring " +
                     std::to_string(int64_t{program.ring_chunks} * kStreamChunkBytes) + ", scratch " +
                     std::to_string(needed() - lay_out(program, shape, false).scratch.full)};
      }
      context_max_ = shorter;
      lists_ = page_list_sizes(config, shape.workers, context_max_);
    }
  }
  return Ok{};
}

Result<ProgramSet> ProgramSet::compile(const ModelConfig& config, const DeviceSpec& machine, const CompiledShape& shape,
                                       int32_t context_max, std::optional<KernelCut> cut) {
  DeviceSpec spec = machine;
  spec.ring_chunks_max = std::min(spec.ring_chunks_max, kStagesMax);
  ProgramSet set;
  set.context_max_ = context_max;
  set.workers_ = shape.workers;
  set.ring_chunks_min_ = static_cast<int32_t>(align_up(spec.ring_chunks_min, kConsumerGroups));
  set.lists_ = page_list_sizes(config, shape.workers, context_max);
  std::vector<Program> programs;
  for (int32_t rows = 1; rows <= kRowsMax; ++rows) {
    ASSIGN_OR_RETURN(Program program, boreas::compile(config, spec, rows));
    CHECK(programs.empty() || program.hop_uses == programs.front().hop_uses);  // all sizes share the epochs
    programs.push_back(std::move(program));
  }
  RETURN_IF_ERROR(set.shorten_lists(config, shape, programs));
  for (size_t i = 0; i < kHops; ++i) set.hop_uses_[i] = static_cast<uint32_t>(programs.front().hop_uses[i]);
  const auto append = [&set](const auto& values) {
    const int64_t at = align_up(static_cast<int64_t>(set.image_.size()), kTableAlign);
    const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
    set.image_.resize(static_cast<size_t>(at));
    set.image_.insert(set.image_.end(), bytes.begin(), bytes.end());
    return at;
  };
  const WeightLayout layout = lay_out_weights(config);
  for (Program& program : programs) {
    address_loads(config, layout, program.list_first, program.tasks);
    Entry entry = set.lay_out(program, shape, true);
    entry.tasks = append(program.tasks);
    entry.list_first = append(program.list_first);
    if (cut) {
      ASSIGN_OR_RETURN(const std::vector<Segment> segments, cut_into_segments(program, *cut));
      entry.segments = segment_params(program, segments, entry.slot_offset, entry.scratch);
    }
    set.entries_.push_back(entry);
  }
  set.bytes_ = static_cast<int64_t>(set.image_.size());
  return set;
}

Status ProgramSet::upload(Device& device) {
  ASSIGN_OR_RETURN(const DeviceMemory memory, device.allocate(image_.size(), "programs"));
  device_ = memory.device;
  RETURN_IF_ERROR(device.copy_in(device_, image_));
  image_ = {};
  return Ok{};
}

const ProgramSet::Entry& ProgramSet::entry_of(int32_t rows) const {
  CHECK(rows >= 1 && rows <= entries_.back().rows_max);
  return *std::find_if(entries_.begin(), entries_.end(),
                       [rows](const Entry& candidate) { return candidate.rows_max >= rows; });
}

size_t ProgramSet::tasks_max() const {
  size_t most = 0;
  for (const Entry& entry : entries_) most = std::max(most, entry.task_count);
  return most;
}

int64_t ProgramSet::kept_bytes() const {
  int64_t most = 0;
  for (const Entry& entry : entries_)
    if (!entry.segments.empty()) most = std::max(most, int64_t{entry.segments.front().kept_bytes} * workers_);
  return most;
}

void ProgramSet::set_kept(std::byte* device) {
  for (Entry& entry : entries_)
    for (SegmentParams& segment : entry.segments) segment.kept = reinterpret_cast<uint8_t*>(device);
}

size_t ProgramSet::select(int32_t rows, const CudaTuning& tuning, StepParams& params) const {
  CHECK(device_ != nullptr);
  const Entry& entry = entry_of(rows);
  params.tasks = reinterpret_cast<const TaskDesc*>(device_ + entry.tasks);
  params.list_first = reinterpret_cast<const int32_t*>(device_ + entry.list_first);
  std::memcpy(params.slot_offset, entry.slot_offset, sizeof(entry.slot_offset));
  std::memcpy(params.hop_uses, hop_uses_, sizeof(hop_uses_));
  params.ring_offset = entry.ring_offset;
  params.scratch = entry.scratch;
  // A ring of fewer stages is the beginning of the program's, by the rules of program/pipeline.h. The program's proof
  // covers it: it asks of no ring how far it lets producers ahead (program/verify.cc). And what a consumer learns of
  // `producers` warps by taking their chunks it learns of fewer all the sooner (program/verify_ring.cc).
  params.ring_chunks = std::clamp(tuning.ring_chunks_max / kConsumerGroups * kConsumerGroups, ring_chunks_min_,
                                  std::max(ring_chunks_min_, entry.ring_chunks));
  params.producers = std::clamp(tuning.producers_max, 1, entry.producers);
  CHECK(params.ring_chunks % params.producers == 0);  // program/pipeline.h, rule 3
  const CudaTuning::Credits& credits = tuning.credits_for(rows);
  for (size_t i = 0; i < kStreams; ++i) params.credits[i] = std::clamp(credits[i], 1, params.ring_chunks);
  params.page_list_full = lists_.full;
  params.page_list_sliding = lists_.sliding;
  return entry.shared_bytes;
}

}  // namespace boreas::cuda
