#include "exec/cuda/segments.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "base/check.h"

namespace boreas::cuda {
namespace {

// The segment of node `to` is at least that of node `from`, and `rise` more.
struct Edge {
  int32_t from, to, rise;
  bool operator==(const Edge&) const = default;
  auto key() const { return std::tie(from, to, rise); }
};

bool alike(const TaskDesc& a, const TaskDesc& b) {
  return a.op == b.op && a.layer == b.layer && a.wait.hop == b.wait.hop && a.wait.use == b.wait.use &&
         a.publish.hop == b.publish.hop && a.publish.use == b.publish.use && a.arrive == b.arrive &&
         a.stream_item == b.stream_item;
}

// A node is one task of each worker: the same index of the same role's list. A LOAD's is that of the task it feeds.
class Cutter {
 public:
  Cutter(const Program& program, KernelCut cut) : program_(program), cut_(cut) {}

  Result<std::vector<Segment>> run() {
    RETURN_IF_ERROR(check_lists());
    number_nodes();
    for (int32_t worker = 0; worker < program_.workers(); ++worker) add_edges(worker);
    std::sort(edges_.begin(), edges_.end(), [](const Edge& a, const Edge& b) { return a.key() < b.key(); });
    edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());
    choose_segments();
    deal_tasks();
    for (int32_t worker = 0; worker < program_.workers(); ++worker) find_kept(worker);
    return std::move(segments_);
  }

 private:
  std::span<const TaskDesc> list(Role role) const { return program_.list(0, role); }

  Status check_lists() const {
    for (int32_t worker = 1; worker < program_.workers(); ++worker) {
      for (int32_t r = 0; r < kRoles; ++r) {
        const auto first = list(static_cast<Role>(r)), own = program_.list(worker, static_cast<Role>(r));
        if (!std::equal(first.begin(), first.end(), own.begin(), own.end(), alike))
          return Error{"the step cannot be cut into kernels: the " + std::string(role_name(static_cast<Role>(r))) +
                       " tasks of worker " + std::to_string(worker) + " are not those of worker 0"};
      }
    }
    return Ok{};
  }

  int32_t& node(Role role, size_t index) { return nodes_[static_cast<size_t>(role)][index]; }

  void number_nodes() {
    std::vector<int32_t> of_item;
    for (const Role role : {Role::kConsumer, Role::kMessenger, Role::kRouter, Role::kProducer}) {
      const auto tasks = list(role);
      nodes_[static_cast<size_t>(role)].resize(tasks.size());
      for (size_t i = 0; i < tasks.size(); ++i) {
        const size_t item = static_cast<size_t>(tasks[i].stream_item);
        if (role == Role::kProducer && tasks[i].stream_item >= 0) {
          CHECK(item < of_item.size());
          node(role, i) = of_item[item];
          continue;
        }
        node(role, i) = node_count_++;
        if (role == Role::kConsumer && tasks[i].stream_item >= 0) {
          of_item.resize(std::max(of_item.size(), item + 1));
          of_item[item] = node(role, i);
        }
      }
    }
    publishers_.resize(kHops);
    for (int32_t r = 0; r < kRoles; ++r) {
      const auto tasks = list(static_cast<Role>(r));
      for (size_t i = 0; i < tasks.size(); ++i) {
        if (tasks[i].arrive >= 0)
          arrivals_[static_cast<size_t>(tasks[i].arrive)].push_back(node(static_cast<Role>(r), i));
        if (tasks[i].publish.hop < 0) continue;
        std::vector<int32_t>& of_hop = publishers_[static_cast<size_t>(tasks[i].publish.hop)];
        const size_t use = static_cast<size_t>(tasks[i].publish.use);
        of_hop.resize(std::max(of_hop.size(), use + 1), -1);
        of_hop[use] = node(static_cast<Role>(r), i);
      }
    }
  }

  void add_edge(int32_t from, int32_t to, int32_t rise) {
    if (from != to) edges_.push_back({from, to, rise});
  }
  void add_edges(int32_t worker) {
    for (int32_t r = 0; r < kRoles; ++r) {
      const Role role = static_cast<Role>(r);
      const auto tasks = program_.list(worker, role);
      const int32_t rise = role == Role::kConsumer && cut_ == KernelCut::kOps ? 1 : 0;
      for (size_t i = 0; i < tasks.size(); ++i) {
        if (i > 0 && worker == 0) add_edge(node(role, i - 1), node(role, i), rise);
        for (const BarrierWait& wait : tasks[i].barriers)
          if (wait.id >= 0)
            add_edge(arrivals_[static_cast<size_t>(wait.id)].at(static_cast<size_t>(wait.target) - 1), node(role, i),
                     0);
        const HopWait& wait = tasks[i].wait;
        if (wait.hop < 0 || wait.use < 0) continue;  // use -1: of the step before
        const int32_t from = publishers_[static_cast<size_t>(wait.hop)].at(static_cast<size_t>(wait.use));
        CHECK(from >= 0 && from != node(role, i));
        if (worker == 0) add_edge(from, node(role, i), 1);
      }
    }
  }

  // Moves segments up (or down, with `latest`) until all edges hold; the program has been proved to have no cycle.
  template <class Fixed>
  void settle(std::vector<int32_t>& segment, bool latest, const Fixed& fixed) const {
    bool moved = true;
    for (int32_t pass = 0; moved; ++pass) {
      CHECK(pass <= node_count_);
      moved = false;
      for (const Edge& edge : edges_) {
        int32_t& from = segment[static_cast<size_t>(edge.from)];
        int32_t& to = segment[static_cast<size_t>(edge.to)];
        if (to >= from + edge.rise || fixed(latest ? edge.from : edge.to)) continue;
        (latest ? from : to) = latest ? to - edge.rise : from + edge.rise;
        moved = true;
      }
    }
  }
  void choose_segments() {
    const size_t count = static_cast<size_t>(node_count_);
    const auto none = [](int32_t) { return false; };
    std::vector<int32_t> earliest(count, 0);
    settle(earliest, false, none);
    const int32_t last = *std::max_element(earliest.begin(), earliest.end());
    segment_of_.assign(count, last);
    settle(segment_of_, true, none);
    std::vector<bool> early(count, false);
    for (const int32_t n : nodes_[static_cast<size_t>(Role::kRouter)]) {
      early[static_cast<size_t>(n)] = true;
      segment_of_[static_cast<size_t>(n)] = 0;
    }
    settle(segment_of_, false, [&](int32_t n) { return !early[static_cast<size_t>(n)]; });
    segments_.resize(static_cast<size_t>(last) + 1);
  }

  int32_t segment(Role role, size_t index) { return segment_of_[static_cast<size_t>(node(role, index))]; }
  void deal_tasks() {
    for (int32_t r = 0; r < kRoles; ++r) {
      const Role role = static_cast<Role>(r);
      const auto tasks = list(role);
      size_t next = 0;
      for (size_t s = 0; s < segments_.size(); ++s) {
        Range& own = segments_[s].tasks[static_cast<size_t>(r)];
        own.first = static_cast<int32_t>(next);
        for (; next < tasks.size() && segment(role, next) == static_cast<int32_t>(s); ++next) {
          const TaskDesc& task = tasks[next];
          ++own.count;
          for (size_t later = s + 1; task.arrive >= 0 && later < segments_.size(); ++later)
            ++segments_[later].arrivals[static_cast<size_t>(task.arrive)];
          if (static_cast<Op>(task.op) == Op::kAttention)
            segments_[s].pools |= program_.config.layers[static_cast<size_t>(task.layer)].sliding ? 2 : 1;
        }
      }
      CHECK(next == tasks.size());
    }
  }

  // ---- what outlives a segment
  // Writes to each place in their order, as segments; they are all of one role.
  void find_writes(int32_t worker, std::array<std::vector<int32_t>, kKeptPlaces>& writes) {
    for (int32_t r = 0; r < kRoles; ++r) {
      const Role role = static_cast<Role>(r);
      const auto tasks = program_.list(worker, role);
      for (size_t i = 0; i < tasks.size(); ++i)
        for_places(tasks[i], &task_writes, [&](int32_t place) {
          CHECK(role == writer_of(place));
          writes[static_cast<size_t>(place)].push_back(segment(role, i));
        });
    }
  }
  template <class Visit>
  static void for_places(const TaskDesc& task, void (*accesses_of)(const TaskDesc&, AccessList&), const Visit& visit) {
    AccessList accesses;
    accesses_of(task, accesses);
    for (int32_t i = 0; i < accesses.size; ++i)
      if (accesses.items[i].space == Space::kSlot) visit(accesses.items[i].id);
    const Op op = static_cast<Op>(task.op);
    const bool writes = accesses_of == &task_writes;
    if (op == Op::kTopK || (op == Op::kSample && !writes)) visit(kKeptExperts);
    if (op == (writes ? Op::kFilter : Op::kSample)) visit(kKeptBest);
  }

  void find_kept(int32_t worker) {
    std::array<std::vector<int32_t>, kKeptPlaces> writes;
    find_writes(worker, writes);
    for (int32_t r = 0; r < kRoles; ++r) {
      const Role role = static_cast<Role>(r);
      const auto tasks = program_.list(worker, role);
      // How many writes a task knows of: its role's own before it, or as many as its role has waited for.
      std::array<int32_t, kKeptPlaces> known{};
      if (role == Role::kMessenger) known[kKeptExperts] = static_cast<int32_t>(writes[kKeptExperts].size());
      for (size_t i = 0; i < tasks.size(); ++i) {
        for (const BarrierWait& wait : tasks[i].barriers)
          if (wait.id >= 0 && writer_of(wait.id) != role) known[static_cast<size_t>(wait.id)] = wait.target;
        for_places(tasks[i], &task_reads, [&](int32_t place) {
          const int32_t write = known[static_cast<size_t>(place)] - 1;
          if (write < 0) return;  // the number of experts begins at zero
          keep(place, writes[static_cast<size_t>(place)].at(static_cast<size_t>(write)), segment(role, i), role);
        });
        for_places(tasks[i], &task_writes, [&](int32_t place) { ++known[static_cast<size_t>(place)]; });
      }
    }
  }
  void keep(int32_t place, int32_t written, int32_t read, Role reader) {
    CHECK(written <= read);
    if (written == read) return;
    segments_[static_cast<size_t>(written)].saved |= 1u << place;
    segments_[static_cast<size_t>(read)].restored |= 1u << place;
    segments_[static_cast<size_t>(read)].waiting |= 1u << static_cast<int32_t>(reader);
  }

  const Program& program_;
  KernelCut cut_;
  int32_t node_count_ = 0;
  std::vector<int32_t> nodes_[kRoles];            // by role and index
  std::vector<int32_t> arrivals_[kSlots];         // nodes that arrive at a barrier, in order
  std::vector<std::vector<int32_t>> publishers_;  // by hop and use
  std::vector<Edge> edges_;
  std::vector<int32_t> segment_of_;  // by node
  std::vector<Segment> segments_;
};

constexpr uint32_t kKeptAlign = 128;
constexpr uint32_t kBestRowBytes = 128;  // drawing.cuh: a part a messenger warp

uint32_t align_up(int64_t bytes, uint32_t to) { return static_cast<uint32_t>((bytes + to - 1) / to) * to; }

// Where places lie in shared memory and in the memory that keeps them.
class KeptLayout {
 public:
  KeptLayout(const Program& program, uint32_t places, std::span<const uint32_t, kSlots> slot_offset,
             const ScratchMap& scratch) {
    for (int32_t place = 0; place < kKeptPlaces; ++place) {
      if ((places >> place & 1) == 0) continue;
      const int32_t parity = place - static_cast<int32_t>(Slot::kRoute);
      if (place == kKeptExperts) add(place, scratch.experts, sizeof(uint32_t));
      else if (place == kKeptBest)
        add(place, scratch.partials, kBestRowBytes * static_cast<uint32_t>(program.rows_max));
      else
        add(place, slot_offset[static_cast<size_t>(place)],
            align_up(program.slots[static_cast<size_t>(place)].bytes, 16));
      if (parity == 0 || parity == 1)
        add(place, scratch.routes + static_cast<uint32_t>(parity) * scratch.route_bytes, scratch.route_bytes);
    }
  }
  static_assert(static_cast<int32_t>(Slot::kRouteOdd) == static_cast<int32_t>(Slot::kRoute) + 1);

  uint32_t bytes() const { return bytes_; }
  int32_t fill(uint32_t places, KeptRange (&ranges)[kKeptRangesMax]) const {
    int32_t count = 0;
    for (int32_t place = 0; place < kKeptPlaces; ++place) {
      if ((places >> place & 1) == 0) continue;
      for (const KeptRange& range : ranges_[static_cast<size_t>(place)]) ranges[count++] = range;
    }
    return count;
  }

 private:
  void add(int32_t place, uint32_t shared, uint32_t bytes) {
    ranges_[static_cast<size_t>(place)].push_back({shared, bytes_, bytes, static_cast<int32_t>(writer_of(place))});
    bytes_ += align_up(bytes, kKeptAlign);
  }
  std::array<std::vector<KeptRange>, kKeptPlaces> ranges_;
  uint32_t bytes_ = 0;
};

}  // namespace

Result<std::vector<Segment>> cut_into_segments(const Program& program, KernelCut cut) {
  return Cutter(program, cut).run();
}

std::vector<SegmentParams> segment_params(const Program& program, std::span<const Segment> segments,
                                          std::span<const uint32_t, kSlots> slot_offset, const ScratchMap& scratch) {
  uint32_t places = 0;
  for (const Segment& segment : segments) places |= segment.restored | segment.saved;
  const KeptLayout layout(program, places, slot_offset, scratch);
  SegmentParams common{};
  common.kept_bytes = layout.bytes();
  for (int32_t r = 0; r < kRoles; ++r) {
    const int32_t first = program.list_first[static_cast<size_t>(r)];
    common.lists[r] = {first, program.list_first[static_cast<size_t>(r) + 1] - first};
  }
  common.worker_tasks = program.list_first[kRoles];
  std::vector<SegmentParams> all;
  for (const Segment& segment : segments) {
    SegmentParams& params = all.emplace_back(common);
    std::copy(segment.tasks.begin(), segment.tasks.end(), params.tasks);
    std::copy(segment.arrivals.begin(), segment.arrivals.end(), params.arrivals);
    params.waiting = segment.waiting;
    params.pools = segment.pools;
    params.restored = layout.fill(segment.restored, params.restore);
    params.saved = layout.fill(segment.saved, params.save);
  }
  return all;
}

}  // namespace boreas::cuda
