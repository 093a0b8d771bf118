// verify: walks the program over several unrolled steps in an order that is possible with the smallest ring (producer
// and consumer in lock step: if that does not get stuck, no larger ring and no run-time count does, because every list
// is a bounded FIFO), keeps a vector clock for every lane, and checks every access against the clocks. Only orders that
// the program guarantees enter the clocks: list order, barriers, hops, stream items that are never empty, and the
// host's rule of enqueueing. That the ring holds a producer back, that a launch may wait for the one before, and that a
// step's experts and pages may be many are not used; so the proof holds for every ring, for overlapping launches and
// for every run-time count from 0 on.
//
// A clock that holds in this one walk holds in every execution: each wait names one signal, and whatever satisfies it
// (that word, or a later one of the same writer) comes after that signal.
#include "program/verify_state.h"

namespace boreas {
namespace verification {
namespace {

class Verifier {
 public:
  explicit Verifier(const Program& program)
      : program_(program),
        workers_(program.workers()),
        ahead_(program.device.host_steps_ahead),
        host_lane_(workers_ * kRoles),
        clocks_(static_cast<size_t>(host_lane_) + 1, host_lane_ + 1),
        launch_clocks_(kUnrolledSteps, host_lane_ + 1),
        token_clocks_(kUnrolledSteps, host_lane_ + 1),
        plan_reads_(static_cast<size_t>(ahead_), host_lane_ + 1),
        logits_reads_(static_cast<size_t>(workers_), host_lane_ + 1),
        barrier_clocks_(static_cast<size_t>(workers_ * kSlots), host_lane_ + 1),
        kv_reads_(2 * kv_buffers(), host_lane_ + 1),
        kv_writes_(2 * kv_buffers(), host_lane_ + 1),
        lanes_(static_cast<size_t>(host_lane_)),
        barriers_(static_cast<size_t>(workers_ * kSlots)),
        arrivals_per_step_(static_cast<size_t>(workers_ * kSlots)),
        slots_(static_cast<size_t>(workers_ * kSlots)),
        overlaps_(overlapping_slots(program)),
        logits_writes_(static_cast<size_t>(workers_)),
        plans_(static_cast<size_t>(ahead_)),
        mailbox_reads_(static_cast<size_t>(ahead_)) {
    samples_left_.fill(workers_);
    make_hubs();
    for (int32_t worker = 0; worker < workers_; ++worker) prepare_worker(worker);
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
  struct Lane {
    std::span<const TaskDesc> list;
    size_t cursor = 0;
    int32_t step = 0;
    size_t done = 0;
    std::vector<int32_t> loads_done;  // of the consumer's lane: see loads_known_done
  };

  // ---- before the walk
  size_t kv_buffers() const { return program_.config.layers.size() * static_cast<size_t>(program_.config.kv_heads); }

  void make_hubs() {
    size_t hubs = 0;
    for (auto& hop : hops_)
      for (HopHalf& half : hop) half.begin(workers_);
    for (const TaskDesc& task : program_.tasks) {
      if (task.wait.hop < 0) continue;
      for (HopHalf& half : hops_[static_cast<size_t>(task.wait.hop)]) {
        if (half.find(task.wait) != nullptr) continue;
        half.hubs.push_back({task.wait.first, task.wait.count, 0, 0, hubs, 0, hubs + 1});
        hubs += 2;
      }
    }
    hub_clocks_ = ClockTable(hubs, host_lane_ + 1);
  }

  void prepare_worker(int32_t worker) {
    for (int32_t role = 0; role < kRoles; ++role) {
      Lane& lane = lanes_[static_cast<size_t>(worker * kRoles + role)];
      lane.list = program_.list(worker, static_cast<Role>(role));
      for (const TaskDesc& task : lane.list)
        if (task.arrive >= 0) ++arrivals_per_step_[static_cast<size_t>(worker * kSlots + task.arrive)];
    }
    Lane& consumer = lanes_[static_cast<size_t>(lane_of(worker, Role::kConsumer))];
    consumer.loads_done = loads_known_done(consumer.list, program_.producers);
  }

  // ---- the walk
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
    for (int32_t worker = 0; worker < workers_ && problem_.empty(); ++worker) {
      bool ran = true;
      while (ran) {
        ran = false;
        for (Role role : {Role::kMessenger, Role::kRouter, Role::kProducer, Role::kConsumer})
          while (problem_.empty() && try_task(worker, role)) ran = true;
        moved = moved || ran;
      }
    }
    return moved;
  }

  // The host enqueues step s once it has read the tokens of step s - host_steps_ahead.
  bool advance_host() {
    bool moved = false;
    ClockValue* clock = clocks_.clock(static_cast<size_t>(host_lane_));
    while (host_read_ < launched_ && samples_left_[static_cast<size_t>(host_read_)] == 0) {
      ClockTable::join(clock, token_clocks_.clock(static_cast<size_t>(host_read_)), clocks_.width());
      mailbox_reads_[static_cast<size_t>(host_read_ % ahead_)] = tick(host_lane_);
      ++host_read_;
      moved = true;
    }
    while (problem_.empty() && launched_ < kUnrolledSteps && launched_ < host_read_ + ahead_) {
      const size_t plan = static_cast<size_t>(launched_ % ahead_);
      const Event event = tick(host_lane_);
      require_all(event, plan_reads_.clock(plan), "overwrites %s without being ordered after a read of it",
                  {"the plan of step", launched_ - ahead_});
      plans_[plan] = event;
      std::copy_n(clock, clocks_.width(), launch_clocks_.clock(static_cast<size_t>(launched_)));
      ++launched_;
      moved = true;
    }
    return moved;
  }

  Event tick(int32_t lane) { return {lane, ++clocks_.clock(static_cast<size_t>(lane))[lane]}; }

  const TaskDesc* next_task(Lane& lane) const {
    if (lane.cursor == lane.list.size()) {
      if (lane.list.empty() || lane.step + 1 >= kUnrolledSteps) return nullptr;
      ++lane.step;
      lane.cursor = 0;
    }
    return lane.step < launched_ ? &lane.list[lane.cursor] : nullptr;
  }

  bool try_task(int32_t worker, Role role) {
    Lane& lane = lanes_[static_cast<size_t>(lane_of(worker, role))];
    const TaskDesc* task = next_task(lane);
    if (task == nullptr || !ready(worker, *task, lane.step)) return false;
    if (role == Role::kProducer && task->stream_item >= 0) return false;  // together with its consumer
    int32_t loads_done = 0;
    if (role == Role::kConsumer && task->stream_item >= 0) {
      Lane& producer = lanes_[static_cast<size_t>(lane_of(worker, Role::kProducer))];
      const TaskDesc* load = next_task(producer);
      if (load == nullptr || load->stream_item != task->stream_item || !ready(worker, *load, producer.step))
        return false;
      loads_done = lane.loads_done[lane.cursor];
      if (loads_done > 0) loads_done += lane.step * static_cast<int32_t>(producer.list.size());
      execute(worker, Role::kProducer, *load, 0);
    }
    execute(worker, role, *task, loads_done);
    return true;
  }

  bool ready(int32_t worker, const TaskDesc& task, int32_t step) {
    for (const BarrierWait& wait : task.barriers)
      if (wait.id >= 0 && barrier(worker, wait.id).arrivals < absolute_target(worker, wait, step)) return false;
    if (task.wait.hop < 0) return true;
    const int64_t epoch = epoch_of(task.wait.hop, task.wait.use, step);
    const Hub* hub = half_of(task.wait.hop, epoch).find(task.wait);
    return epoch <= 0 || hub->epoch > epoch || (hub->epoch == epoch && hub->published == hub->count);
  }

  size_t own(int32_t worker, int32_t slot) const { return static_cast<size_t>(worker * kSlots + slot); }
  Barrier& barrier(int32_t worker, int32_t id) { return barriers_[own(worker, id)]; }
  int64_t absolute_target(int32_t worker, const BarrierWait& wait, int32_t step) const {
    return int64_t{step} * arrivals_per_step_[own(worker, wait.id)] + wait.target;
  }

  // ---- a task runs: its waits enter the clock, its accesses are checked, its signals leave with the clock.
  // loads_done: of the own worker's producer, over all steps, known through the ring. Of the producer's clock only its
  // own component is taken: what it knew of others the consumer waits for itself, or the proof fails.
  void execute(int32_t worker, Role role, const TaskDesc& task, int32_t loads_done) {
    const int32_t lane_index = lane_of(worker, role);
    Lane& lane = lanes_[static_cast<size_t>(lane_index)];
    const int32_t step = lane.step;
    ClockValue* clock = clocks_.clock(static_cast<size_t>(lane_index));
    current_ = {worker, role, lane.cursor};
    if (lane.cursor == 0) ClockTable::join(clock, launch_clocks_.clock(static_cast<size_t>(step)), clocks_.width());
    const Event event = tick(lane_index);
    const int32_t late =
        static_cast<Op>(task.op) == Op::kDown ? DownOp::late_barrier(task.args[DownOp::kFirstVectors]) : -1;
    reads_.size = writes_.size = 0;
    task_reads(task, reads_);
    task_writes(task, writes_);
    for (const bool begins : {true, false}) {
      join_waits(worker, task, step, event, late, begins);
      for (const Access& read : std::span(reads_.items, static_cast<size_t>(reads_.size)))
        if ((read.space == Space::kSlot && read.id == late) != begins) check_read(worker, step, event, task, read);
    }
    for (int32_t i = 0; i < writes_.size; ++i) check_write(worker, step, event, task, writes_.items[i]);
    accesses_checked_ += reads_.size + writes_.size;
    ++tasks_checked_;
    // Words that come while the task is at work tell no more than that it has begun.
    const bool early = static_cast<Op>(task.op) == Op::kUpGate && task.args[UpGateOp::kFirstVectors] > 0;
    if (task.publish.hop >= 0 && early) publish(worker, step, event, task.publish, event.index - 1);
    // Chunks arrive while the task is at work: what they tell counts for what comes after it.
    ClockValue& loads = clock[lane_of(worker, Role::kProducer)];
    if (role == Role::kConsumer) loads = std::max(loads, static_cast<ClockValue>(loads_done));
    if (task.publish.hop >= 0 && !early) publish(worker, step, event, task.publish, event.index);
    if (task.arrive >= 0) arrive(worker, event, task.arrive);
    ++lane.cursor;
    ++lane.done;
  }

  // What comes before the task begins, or the one barrier `late` that its body waits for.
  void join_waits(int32_t worker, const TaskDesc& task, int32_t step, const Event& event, int32_t late, bool begins) {
    ClockValue* clock = clocks_.clock(static_cast<size_t>(event.lane));
    for (const BarrierWait& wait : task.barriers) {
      if (wait.id < 0 || (wait.id == late) == begins) continue;
      Barrier& signal = barrier(worker, wait.id);
      if (signal.arrivals != absolute_target(worker, wait, step))
        fail(std::string("waits for an arrival at barrier ") + slot_name(wait.id) + " that later ones may hide");
      ClockTable::join(clock, barrier_clocks_.clock(own(worker, wait.id)), clocks_.width());
      signal.waits.push_back(event);
    }
    if (task.wait.hop < 0 || !begins) return;
    const int64_t epoch = epoch_of(task.wait.hop, task.wait.use, step);
    if (epoch > 0) half_of(task.wait.hop, epoch).learn(worker, epoch, task.wait, clock, hub_clocks_);
  }

  // A barrier is waited for by parity where it is made of hardware: it must not run a full parity ahead of a waiter.
  void arrive(int32_t worker, const Event& event, int32_t id) {
    Barrier& signal = barrier(worker, id);
    for (const Event& wait : signal.waits)
      require(event, wait, "arrives at barrier %s without being ordered after a wait for the arrival before",
              {slot_name(id), -1});
    signal.waits.clear();
    ++signal.arrivals;
    std::copy_n(clocks_.clock(static_cast<size_t>(event.lane)), clocks_.width(),
                barrier_clocks_.clock(own(worker, id)));
  }

  // known: the publisher's event of which its words tell.
  void publish(int32_t worker, int32_t step, const Event& event, const HopPublish& signal, int32_t known) {
    const int64_t epoch = epoch_of(signal.hop, signal.use, step);
    ClockValue* clock = clocks_.clock(static_cast<size_t>(event.lane));
    clock[event.lane] = static_cast<ClockValue>(known);
    half_of(signal.hop, epoch).publish(worker, epoch, event, clock, hub_clocks_);
    clock[event.lane] = static_cast<ClockValue>(event.index);
  }

  // ---- accesses
  void check_read(int32_t worker, int32_t step, const Event& event, const TaskDesc& task, const Access& access) {
    switch (access.space) {
      case Space::kSlot:
        read_slot(worker, {step, task.layer}, event, access.id);
        break;
      case Space::kHop:
        read_hop(step, event, task.wait);
        break;
      case Space::kLogits:
        for (int32_t i = access.first; i < access.first + access.count; ++i) {
          require(event, logits_writes_[static_cast<size_t>(i)], "reads %s without being ordered after its write",
                  {"the logits slice of worker", i});
          logits_reads_.clock(static_cast<size_t>(i))[event.lane] = static_cast<ClockValue>(event.index);
        }
        break;
      case Space::kPlan: {
        const size_t plan = static_cast<size_t>(step % ahead_);
        require(event, plans_[plan], "reads %s without being ordered after its write", {"the plan of step", step});
        plan_reads_.clock(plan)[event.lane] = static_cast<ClockValue>(event.index);
        break;
      }
      case Space::kKv:
        for (int32_t head = access.first; head < access.first + access.count; ++head)
          read_kv(step, event, task.layer, head);
        break;
      case Space::kMailbox:
        break;
    }
  }

  void check_write(int32_t worker, int32_t step, const Event& event, const TaskDesc& task, const Access& access) {
    switch (access.space) {
      case Space::kSlot:
        write_slot(worker, {step, task.layer}, event, access.id);
        break;
      case Space::kHop:
        write_hop(worker, step, event, access);
        break;
      case Space::kLogits: {
        const size_t own_slice = static_cast<size_t>(worker);
        require(event, logits_writes_[own_slice], "overwrites %s without being ordered after its last write",
                {"the own logits slice", -1});
        require_all(event, logits_reads_.clock(own_slice), "overwrites %s without being ordered after a read of it",
                    {"the own logits slice", -1});
        logits_writes_[own_slice] = event;
        break;
      }
      case Space::kKv:
        for (int32_t head = access.first; head < access.first + access.count; ++head)
          write_kv(step, event, task.layer, head);
        break;
      case Space::kMailbox:
        require(event, mailbox_reads_[static_cast<size_t>(step % ahead_)],
                "overwrites %s without being ordered after a read of it", {"the mailbox of step", step - ahead_});
        ClockTable::join(token_clocks_.clock(static_cast<size_t>(step)), clocks_.clock(static_cast<size_t>(event.lane)),
                         clocks_.width());
        --samples_left_[static_cast<size_t>(step)];
        break;
      case Space::kPlan:
        break;
    }
  }

  // A slot must hold what was written for the reader's layer and step. The residual lives on: DOWN of layer l finds
  // what layer l - 1, or for the first layer EMBED, left there.
  void read_slot(int32_t worker, Value value, const Event& event, int32_t slot) {
    if (slot == static_cast<int32_t>(Slot::kResidual)) --value.layer;
    SlotState& state = slots_[own(worker, slot)];
    require(event, state.write, "reads %s without being ordered after its write", {"slot", slot});
    if (state.value != value)
      fail(std::string("reads slot ") + slot_name(slot) + ", but that was not written for its layer and step");
    state.add_read(event);
  }

  // Slots that share memory are overwritten together, and only the one written holds a value then.
  void write_slot(int32_t worker, Value value, const Event& event, int32_t slot) {
    for (int32_t other : overlaps_[static_cast<size_t>(slot)]) {
      SlotState& state = slots_[own(worker, other)];
      require(event, state.write, "overwrites %s without being ordered after its last write", {"slot", other});
      for (const Event& read : state.reads)
        require(event, read, "overwrites %s without being ordered after a read of it", {"slot", other});
      state.write = event;
      state.reads.clear();
      state.value = other == slot ? value : Value{};
    }
  }

  // ---- KV rows. A step reads rows of earlier steps and appends its own (which its readers take from a slot). The host
  // may give a page to another sequence in the very next plan, so whoever reads or appends for a layer and head must
  // come after everybody who did so in the step before. [half, layer, head], half by the step's parity.
  size_t kv_index(int32_t step, int32_t layer, int32_t head) const {
    return static_cast<size_t>(step & 1) * kv_buffers() +
           static_cast<size_t>(layer) * static_cast<size_t>(program_.config.kv_heads) + static_cast<size_t>(head);
  }
  void read_kv(int32_t step, const Event& event, int32_t layer, int32_t head) {
    require_all(event, kv_writes_.clock(kv_index(step - 1, layer, head)),
                "reads KV rows without being ordered after their append", {});
    kv_reads_.clock(kv_index(step, layer, head))[event.lane] = static_cast<ClockValue>(event.index);
  }
  void write_kv(int32_t step, const Event& event, int32_t layer, int32_t head) {
    const size_t before = kv_index(step - 1, layer, head);
    require_all(event, kv_reads_.clock(before), "appends KV rows without being ordered after a read of the page", {});
    require_all(event, kv_writes_.clock(before), "appends KV rows without being ordered after the last append", {});
    kv_writes_.clock(kv_index(step, layer, head))[event.lane] = static_cast<ClockValue>(event.index);
  }

  // ---- hops
  void read_hop(int32_t step, const Event& event, const HopWait& wait) {
    const int64_t epoch = epoch_of(wait.hop, wait.use, step);
    if (epoch <= 0) return;  // the words of before the first step
    Hub* hub = half_of(wait.hop, epoch).find(wait);
    if (hub->epoch != epoch || hub->published != hub->count)
      return fail(std::string("reads hop ") + hop_name(wait.hop) + " at epoch " + std::to_string(epoch) +
                  ", but a word of it is overwritten");
    if (hub->read_epoch != epoch) hub_clocks_.clear(hub->reads);
    hub->read_epoch = epoch;
    hub_clocks_.clock(hub->reads)[event.lane] = static_cast<ClockValue>(event.index);
  }

  void write_hop(int32_t worker, int32_t step, const Event& event, const Access& access) {
    const int64_t epoch = epoch_of(access.id, access.use, step);
    HopHalf& half = half_of(access.id, epoch);
    const int64_t before = half.epochs[static_cast<size_t>(worker)];
    if (before != std::max<int64_t>(epoch - 2, 0))
      fail(std::string("publishes hop ") + hop_name(access.id) + " at epoch " + std::to_string(epoch) + " over epoch " +
           std::to_string(before));
    for (const Hub& hub : half.hubs)
      if (before > 0 && hub.read_epoch == before && hub.contains(worker))
        require_all(event, hub_clocks_.clock(hub.reads),
                    "overwrites its word of hop %s without being ordered after a read of it",
                    {hop_name(access.id), -1});
  }

  // ---- verdicts
  void require(const Event& later, const Event& earlier, const char* text, What what) {
    if (!ClockTable::covers(clocks_.clock(static_cast<size_t>(later.lane)), earlier)) unordered(earlier, text, what);
  }
  void require_all(const Event& later, const ClockValue* required, const char* text, What what) {
    const int32_t lane =
        ClockTable::first_uncovered(clocks_.clock(static_cast<size_t>(later.lane)), required, clocks_.width());
    if (lane >= 0) unordered({lane, required[lane]}, text, what);
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
    for (int32_t index = 0; index < host_lane_; ++index) {
      const Lane& lane = lanes_[static_cast<size_t>(index)];
      const size_t length = lane.list.size();
      if (lane.done == length * kUnrolledSteps) continue;
      problem_ = "deadlock: " +
                 describe_task(program_, index / kRoles, static_cast<Role>(index % kRoles), lane.done % length) +
                 " of step " + std::to_string(lane.done / length) + " never runs";
      return;
    }
  }

  struct Current {
    int32_t worker = 0;
    Role role = Role::kConsumer;
    size_t index = 0;
  };

  const Program& program_;
  int32_t workers_;
  int32_t ahead_;
  int32_t host_lane_;
  ClockTable clocks_;          // [lanes and host]
  ClockTable launch_clocks_;   // [steps], the host's when it enqueued them
  ClockTable token_clocks_;    // [steps], what the host learns from their tokens
  ClockTable plan_reads_;      // [plans in flight]
  ClockTable logits_reads_;    // [workers]
  ClockTable barrier_clocks_;  // [workers, slots], of the newest arrival
  ClockTable kv_reads_;
  ClockTable kv_writes_;
  ClockTable hub_clocks_;
  std::vector<Lane> lanes_;
  std::array<std::array<HopHalf, 2>, kHops> hops_;
  std::vector<Barrier> barriers_;           // [workers, slots]
  std::vector<int32_t> arrivals_per_step_;  // [workers, slots]
  std::vector<SlotState> slots_;            // [workers, slots]
  std::array<std::vector<int32_t>, kSlots> overlaps_;
  std::vector<Event> logits_writes_;  // [workers]
  std::vector<Event> plans_;          // [plans in flight]
  std::vector<Event> mailbox_reads_;  // [plans in flight]
  std::array<int32_t, kUnrolledSteps> samples_left_{};
  int32_t launched_ = 0;
  int32_t host_read_ = 0;
  int64_t tasks_checked_ = 0;
  int64_t accesses_checked_ = 0;
  Current current_;
  AccessList reads_, writes_;  // of the current task
  std::string problem_;
};

}  // namespace
}  // namespace verification

Verdict verify(const Program& program) {
  Verdict verdict;
  verdict.problem = verification::check_structure(program);
  if (verdict.problem.empty()) verdict.problem = verification::check_cover(program);
  if (!verdict.problem.empty()) return verdict;
  return verification::Verifier(program).run();
}

}  // namespace boreas
