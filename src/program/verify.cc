// verify: walks the program over several unrolled steps in an order that is possible with the smallest ring (producer
// and consumer in lock step: if that does not get stuck, no larger ring and no run-time count does, because every list
// is a bounded FIFO), keeps a vector clock for every lane, and checks every access against the clocks. Only orders that
// the program guarantees enter the clocks: list order, barriers, hops, stream items from producer to consumer, and the
// host's rule of enqueueing. That the ring lets a producer run ahead adds nothing, so the proof holds for every ring.
#include "program/verify_state.h"

namespace boreas {
namespace verification {
namespace {

// Parities of hops and route slots come round every second step at the latest; two rounds after the first make the
// pattern repeat.
constexpr int32_t kUnrolledSteps = 4;

// What an access was to; a message is made of it only when it is needed.
struct What {
  const char* text = "";
  int32_t number = -1;
};

class Verifier {
 public:
  explicit Verifier(const Program& program)
      : program_(program),
        workers_(program.workers()),
        host_lane_(workers_ * kRoles),
        clocks_(host_lane_ + 1, host_lane_ + 1),
        launch_clocks_(kUnrolledSteps, host_lane_ + 1) {
    const size_t lanes = static_cast<size_t>(host_lane_);
    cursor_.resize(lanes);
    step_.resize(lanes);
    done_.resize(lanes);
    for (auto& hop : hops_)
      for (HopHalf& half : hop) init_half(half);
    barriers_.resize(static_cast<size_t>(workers_ * kSlots));
    for (Barrier& barrier : barriers_) barrier.clocks = ClockTable(Barrier::kKept, host_lane_ + 1);
    slots_.resize(static_cast<size_t>(workers_ * kSlots));
    logits_.resize(static_cast<size_t>(workers_));
    kv_.resize(static_cast<size_t>(workers_) * program.config.layers.size() *
               static_cast<size_t>(program.config.kv_heads));
    plans_.resize(static_cast<size_t>(program.device.host_steps_ahead));
    mailbox_reads_.assign(static_cast<size_t>(program.device.host_steps_ahead), Event{});
    samples_left_.assign(kUnrolledSteps, workers_);
    make_hubs();
  }

  Verdict run() {
    while (problem_.empty() && advance()) {
    }
    if (problem_.empty()) report_stuck();
    Verdict verdict;
    verdict.ok = problem_.empty();
    verdict.problem = problem_;
    verdict.tasks_checked = tasks_checked_;
    verdict.accesses_checked = accesses_checked_;
    return verdict;
  }

 private:
  void init_half(HopHalf& half) const { half.epochs.assign(static_cast<size_t>(workers_), 0); }

  static int32_t lane_of(int32_t worker, Role role) { return worker * kRoles + static_cast<int32_t>(role); }
  int64_t epoch_of(int32_t hop, int32_t use, int32_t step) const {
    return int64_t{step} * program_.hop_uses[static_cast<size_t>(hop)] + use + 1;
  }
  HopHalf& half_of(int32_t hop, int64_t epoch) {
    return hops_[static_cast<size_t>(hop)][static_cast<size_t>(epoch & 1)];
  }

  // One sweep over host and lanes; false when nothing moved.
  bool advance() {
    bool moved = advance_host();
    for (int32_t worker = 0; worker < workers_ && problem_.empty(); ++worker)
      for (Role role : {Role::kMessenger, Role::kRouter, Role::kConsumer})
        while (problem_.empty() && try_task(worker, role)) moved = true;
    return moved;
  }

  // The host enqueues step s once it has read the tokens of step s - host_steps_ahead.
  bool advance_host() {
    bool moved = false;
    const int32_t ahead = program_.device.host_steps_ahead;
    while (host_read_ < kUnrolledSteps && host_read_ < launched_ &&
           samples_left_[static_cast<size_t>(host_read_)] == 0) {
      const int32_t token = static_cast<int32_t>(Hop::kToken);
      const int64_t epoch = epoch_of(token, 0, host_read_);
      const Hub* tokens = find_hub(half_of(token, epoch), 0, workers_);
      if (tokens != nullptr && tokens->epoch == epoch)
        ClockTable::join(clocks_.clock(host_lane_), tokens->known.data(), clocks_.width());
      mailbox_reads_[static_cast<size_t>(host_read_ % ahead)] = tick(host_lane_);
      ++host_read_;
      moved = true;
    }
    while (problem_.empty() && launched_ < kUnrolledSteps && launched_ < host_read_ + ahead) {
      Buffer& plan = plans_[static_cast<size_t>(launched_ % ahead)];
      const Event event = tick(host_lane_);
      overwrite(plan, event, {"the plan of step", launched_});
      std::copy_n(clocks_.clock(host_lane_), clocks_.width(), launch_clocks_.clock(launched_));
      ++launched_;
      moved = true;
    }
    return moved;
  }

  Event tick(int32_t lane) { return {lane, ++clocks_.clock(lane)[lane]}; }

  const TaskDesc* next_task(int32_t worker, Role role) {
    const size_t lane = static_cast<size_t>(lane_of(worker, role));
    const std::span<const TaskDesc> list = program_.list(worker, role);
    if (cursor_[lane] == list.size()) {
      if (list.empty() || step_[lane] + 1 >= kUnrolledSteps) return nullptr;
      ++step_[lane];
      cursor_[lane] = 0;
    }
    return step_[lane] < launched_ ? &list[cursor_[lane]] : nullptr;
  }

  bool try_task(int32_t worker, Role role) {
    const TaskDesc* task = next_task(worker, role);
    const int32_t lane = lane_of(worker, role);
    if (task == nullptr || !ready(worker, *task, step_[static_cast<size_t>(lane)])) return false;
    if (role == Role::kConsumer && task->stream_item >= 0) {
      const TaskDesc* load = next_task(worker, Role::kProducer);
      const int32_t producer = lane_of(worker, Role::kProducer);
      if (load == nullptr || load->stream_item != task->stream_item ||
          !ready(worker, *load, step_[static_cast<size_t>(producer)]))
        return false;
      execute(worker, Role::kProducer, *load);
      ClockTable::join(clocks_.clock(lane), clocks_.clock(producer), clocks_.width());
    }
    execute(worker, role, *task);
    return true;
  }

  bool ready(int32_t worker, const TaskDesc& task, int32_t step) {
    for (const BarrierWait& wait : task.barriers) {
      if (wait.id < 0) continue;
      if (barrier(worker, wait.id).arrivals < absolute_target(worker, wait, step)) return false;
    }
    if (task.wait.hop < 0) return true;
    const int64_t epoch = epoch_of(task.wait.hop, task.wait.use, step);
    if (epoch <= 0) return true;
    const HopHalf& half = half_of(task.wait.hop, epoch);
    for (int32_t writer = task.wait.first; writer < task.wait.first + task.wait.count; ++writer)
      if (half.epochs[static_cast<size_t>(writer)] < epoch) return false;
    return true;
  }

  Barrier& barrier(int32_t worker, int32_t id) { return barriers_[static_cast<size_t>(worker * kSlots + id)]; }
  int64_t absolute_target(int32_t worker, const BarrierWait& wait, int32_t step) {
    return int64_t{step} * arrivals_per_step(worker, wait.id) + wait.target;
  }
  int32_t arrivals_per_step(int32_t worker, int32_t id) {
    if (arrivals_per_step_.empty()) count_arrivals();
    return arrivals_per_step_[static_cast<size_t>(worker * kSlots + id)];
  }
  void count_arrivals() {
    arrivals_per_step_.assign(static_cast<size_t>(workers_ * kSlots), 0);
    for (int32_t worker = 0; worker < workers_; ++worker)
      for (int32_t role = 0; role < kRoles; ++role)
        for (const TaskDesc& task : program_.list(worker, static_cast<Role>(role)))
          if (task.arrive >= 0) ++arrivals_per_step_[static_cast<size_t>(worker * kSlots + task.arrive)];
  }

  // ---- a task runs: its waits enter the clock, its accesses are checked, its signals leave with the clock.
  void execute(int32_t worker, Role role, const TaskDesc& task) {
    const int32_t lane = lane_of(worker, role);
    const int32_t step = step_[static_cast<size_t>(lane)];
    int32_t* clock = clocks_.clock(lane);
    current_ = {worker, role, cursor_[static_cast<size_t>(lane)]};
    if (cursor_[static_cast<size_t>(lane)] == 0) ClockTable::join(clock, launch_clocks_.clock(step), clocks_.width());
    join_waits(worker, task, step, clock);
    const Event event = tick(lane);
    AccessList reads, writes;
    task_reads(task, reads);
    task_writes(task, writes);
    for (int32_t i = 0; i < reads.size && problem_.empty(); ++i) check_read(worker, step, event, task, reads.items[i]);
    for (int32_t i = 0; i < writes.size && problem_.empty(); ++i)
      check_write(worker, step, event, task, writes.items[i]);
    accesses_checked_ += reads.size + writes.size;
    ++tasks_checked_;
    if (task.publish.hop >= 0) publish(worker, step, event, task.publish);
    if (task.arrive >= 0) {
      Barrier& signal = barrier(worker, task.arrive);
      std::copy_n(clock, clocks_.width(), signal.clocks.clock(static_cast<int32_t>(signal.arrivals % Barrier::kKept)));
      ++signal.arrivals;
    }
    ++cursor_[static_cast<size_t>(lane)];
    ++done_[static_cast<size_t>(lane)];
  }

  void join_waits(int32_t worker, const TaskDesc& task, int32_t step, int32_t* clock) {
    for (const BarrierWait& wait : task.barriers) {
      if (wait.id < 0) continue;
      Barrier& signal = barrier(worker, wait.id);
      const int64_t target = absolute_target(worker, wait, step);
      // An arrival that is no longer kept contributes nothing: fewer orders, a stricter proof.
      if (target > 0 && target > signal.arrivals - Barrier::kKept)
        ClockTable::join(clock, signal.clocks.clock(static_cast<int32_t>((target - 1) % Barrier::kKept)),
                         clocks_.width());
    }
    if (task.wait.hop < 0) return;
    const int64_t epoch = epoch_of(task.wait.hop, task.wait.use, step);
    if (epoch <= 0) return;
    const Hub* hub = find_hub(half_of(task.wait.hop, epoch), task.wait.first, task.wait.count);
    if (hub->epoch == epoch) ClockTable::join(clock, hub->known.data(), clocks_.width());
  }

  // Every range of writers that some task waits for has a hub in either half.
  static Hub* find_hub(HopHalf& half, int32_t first, int32_t count) {
    for (Hub& hub : half.hubs)
      if (hub.first == first && hub.count == count) return &hub;
    return nullptr;
  }

  void make_hubs() {
    const std::vector<int32_t> zeros(static_cast<size_t>(clocks_.width()), 0);
    for (const TaskDesc& task : program_.tasks) {
      if (task.wait.hop < 0) continue;
      for (HopHalf& half : hops_[static_cast<size_t>(task.wait.hop)])
        if (find_hub(half, task.wait.first, task.wait.count) == nullptr)
          half.hubs.push_back({task.wait.first, task.wait.count, -1, 0, zeros, zeros, -1, zeros});
    }
  }

  void publish(int32_t worker, int32_t step, const Event& event, const HopPublish& signal) {
    const int64_t epoch = epoch_of(signal.hop, signal.use, step);
    HopHalf& half = half_of(signal.hop, epoch);
    half.epochs[static_cast<size_t>(worker)] = epoch;
    for (Hub& hub : half.hubs) {
      if (worker < hub.first || worker >= hub.first + hub.count) continue;
      if (hub.epoch != epoch) {
        hub.epoch = epoch;
        hub.published = 0;
        std::fill(hub.known.begin(), hub.known.end(), 0);
        std::fill(hub.writes.begin(), hub.writes.end(), 0);
      }
      ++hub.published;
      hub.writes[static_cast<size_t>(event.lane)] = event.index;
      ClockTable::join(hub.known.data(), clocks_.clock(event.lane), clocks_.width());
    }
    if (static_cast<Hop>(signal.hop) == Hop::kToken) --samples_left_[static_cast<size_t>(step)];
  }

  // ---- accesses
  void check_read(int32_t worker, int32_t step, const Event& event, const TaskDesc& task, const Access& access) {
    switch (access.space) {
      case Space::kSlot:
        read_buffer(slots_[slot_index(worker, access.id)], event, {"slot", access.id});
        break;
      case Space::kHop:
        read_hop(step, event, access);
        break;
      case Space::kLogits:
        for (int32_t i = access.first; i < access.first + access.count; ++i)
          read_buffer(logits_[static_cast<size_t>(i)], event, {"the logits slice of worker", i});
        break;
      case Space::kPlan:
        read_buffer(plans_[static_cast<size_t>(step % program_.device.host_steps_ahead)], event, {"the plan", -1});
        break;
      case Space::kKv:
        for (int32_t head = access.first; head < access.first + access.count; ++head)
          read_kv(worker, event, task, head);
        break;
      case Space::kMailbox:
        break;
    }
  }

  void check_write(int32_t worker, int32_t step, const Event& event, const TaskDesc& task, const Access& access) {
    switch (access.space) {
      case Space::kSlot:
        overwrite(slots_[slot_index(worker, access.id)], event, {"slot", access.id});
        break;
      case Space::kHop:
        write_hop(worker, step, event, access);
        break;
      case Space::kLogits:
        overwrite(logits_[static_cast<size_t>(worker)], event, {"the own logits slice", -1});
        break;
      case Space::kKv:
        for (int32_t head = access.first; head < access.first + access.count; ++head)
          kv_[kv_index(worker, task.layer, head)].write = event;
        break;
      case Space::kMailbox:
        if (step >= program_.device.host_steps_ahead)
          require(event, mailbox_reads_[static_cast<size_t>(step % program_.device.host_steps_ahead)],
                  "overwrites the mailbox before the host read it");
        break;
      case Space::kPlan:
        break;
    }
  }

  // Slots that share memory are one buffer.
  size_t slot_index(int32_t worker, int32_t slot) const {
    int32_t canonical = slot;
    for (int32_t i = 0; i < slot; ++i) {
      const SlotSpec& a = program_.slots[static_cast<size_t>(i)];
      const SlotSpec& b = program_.slots[static_cast<size_t>(slot)];
      if (a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes) canonical = std::min(canonical, i);
    }
    return static_cast<size_t>(worker * kSlots + canonical);
  }
  size_t kv_index(int32_t worker, int32_t layer, int32_t head) const {
    return (static_cast<size_t>(worker) * program_.config.layers.size() + static_cast<size_t>(layer)) *
               static_cast<size_t>(program_.config.kv_heads) +
           static_cast<size_t>(head);
  }

  void read_buffer(Buffer& buffer, const Event& event, What what) {
    require(event, buffer.write, "reads %s without being ordered after its write", what);
    buffer.add_read(event);
  }

  void overwrite(Buffer& buffer, const Event& event, What what) {
    require(event, buffer.write, "overwrites %s without being ordered after its last write", what);
    for (const Event& read : buffer.reads)
      require(event, read, "overwrites %s without being ordered after a read of it", what);
    buffer.write = event;
    buffer.reads.clear();
  }

  // The producer streams rows of earlier steps: their append must be over. This step's own rows the consumer takes from
  // its slot.
  void read_kv(int32_t worker, const Event& event, const TaskDesc& task, int32_t head) {
    require(event, kv_[kv_index(worker, task.layer, head)].write,
            "reads KV rows without being ordered after their append");
  }

  void read_hop(int32_t step, const Event& event, const Access& access) {
    const int64_t epoch = epoch_of(access.id, access.use, step);
    if (epoch <= 0) return;  // the words of before the first step
    Hub* hub = find_hub(half_of(access.id, epoch), access.first, access.count);
    if (hub == nullptr || hub->epoch != epoch || hub->published != access.count) {
      fail(std::string("reads hop ") + hop_name(access.id) + " at epoch " + std::to_string(epoch) +
           ", but not all its words hold that epoch: one is missing or overwritten");
      return;
    }
    require_all(event, hub->writes, "reads hop %s without being ordered after its publication", access.id);
    if (hub->read_epoch != epoch) std::fill(hub->reads.begin(), hub->reads.end(), 0);
    hub->read_epoch = epoch;
    hub->reads[static_cast<size_t>(event.lane)] = event.index;
  }

  void write_hop(int32_t worker, int32_t step, const Event& event, const Access& access) {
    const int64_t epoch = epoch_of(access.id, access.use, step);
    HopHalf& half = half_of(access.id, epoch);
    const int64_t before = half.epochs[static_cast<size_t>(worker)];
    if (before != 0 && before != epoch - 2)
      fail(std::string("publishes hop ") + hop_name(access.id) + " at epoch " + std::to_string(epoch) + " over epoch " +
           std::to_string(before));
    for (const Hub& hub : half.hubs)
      if (hub.read_epoch == before && worker >= hub.first && worker < hub.first + hub.count)
        require_all(event, hub.reads, "overwrites its word of hop %s without being ordered after a read of it",
                    access.id);
  }

  void require_all(const Event& later, const std::vector<int32_t>& required, const char* text, int32_t hop) {
    const int32_t lane = ClockTable::first_uncovered(clocks_.clock(later.lane), required.data(), clocks_.width());
    if (lane >= 0) unordered({lane, required[static_cast<size_t>(lane)]}, text, {hop_name(hop), -1});
  }

  // ---- verdicts
  void require(const Event& later, const Event& earlier, const char* text, What what = What()) {
    if (!ClockTable::covers(clocks_.clock(later.lane), earlier)) unordered(earlier, text, what);
  }

  void unordered(const Event& earlier, const char* text, What what) {
    std::string message = text;
    const size_t mark = message.find("%s");
    std::string name = what.text;
    if (name == "slot") name += std::string(" ") + slot_name(what.number);
    else if (what.number >= 0) name += " " + std::to_string(what.number);
    if (mark != std::string::npos) message.replace(mark, 2, name);
    fail(message + " (" + describe_event(earlier) + ")");
  }

  std::string describe_event(const Event& event) const {
    if (event.lane == host_lane_) return "host";
    const Role role = static_cast<Role>(event.lane % kRoles);
    const size_t length = program_.list(event.lane / kRoles, role).size();
    return describe_task(program_, event.lane / kRoles, role, static_cast<size_t>(event.index - 1) % length);
  }

  void fail(const std::string& message) {
    if (problem_.empty())
      problem_ = describe_task(program_, current_.worker, current_.role, current_.index) + " " + message;
  }

  void report_stuck() {
    for (int32_t worker = 0; worker < workers_; ++worker) {
      for (int32_t role = 0; role < kRoles; ++role) {
        const size_t lane = static_cast<size_t>(lane_of(worker, static_cast<Role>(role)));
        const size_t length = program_.list(worker, static_cast<Role>(role)).size();
        if (done_[lane] == length * kUnrolledSteps) continue;
        problem_ = "deadlock: " + describe_task(program_, worker, static_cast<Role>(role), cursor_[lane] % length) +
                   " of step " + std::to_string(done_[lane] / length) + " never runs";
        return;
      }
    }
  }

  struct Current {
    int32_t worker = 0;
    Role role = Role::kConsumer;
    size_t index = 0;
  };

  const Program& program_;
  int32_t workers_;
  int32_t host_lane_;
  ClockTable clocks_;
  ClockTable launch_clocks_;
  std::vector<size_t> cursor_;
  std::vector<int32_t> step_;
  std::vector<size_t> done_;
  std::array<std::array<HopHalf, 2>, kHops> hops_;
  std::vector<Barrier> barriers_;
  std::vector<int32_t> arrivals_per_step_;
  std::vector<Buffer> slots_;
  std::vector<Buffer> logits_;
  std::vector<Buffer> kv_;
  std::vector<Buffer> plans_;
  std::vector<Event> mailbox_reads_;
  std::vector<int32_t> samples_left_;
  int32_t launched_ = 0;
  int32_t host_read_ = 0;
  int64_t tasks_checked_ = 0;
  int64_t accesses_checked_ = 0;
  Current current_;
  std::string problem_;
};

}  // namespace
}  // namespace verification

Verdict verify(const Program& program) {
  Verdict verdict;
  verdict.problem = verification::check_structure(program);
  if (!verdict.problem.empty()) return verdict;
  return verification::Verifier(program).run();
}

Result<Program> compile(const ModelConfig& config, const DeviceSpec& device, int32_t rows_max) {
  ASSIGN_OR_RETURN(Program program, place(lower(config), device, rows_max));
  const Verdict verdict = verify(program);
  if (!verdict.ok) return Error{"the program does not verify: " + verdict.problem};
  return program;
}

}  // namespace boreas
