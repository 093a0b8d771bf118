// A drawing of one layer: the lists of two workers by role over an estimated time axis, with the barriers inside a
// worker and the hops between them. Called by `boreas plan --svg`. The estimate is a picture, not a promise: streams at
// 96 % of the data-sheet bandwidth, a hop of 2.4 us, one row, 8K of context (figures measured on an H200).
#include <algorithm>
#include <cstdio>
#include <map>

#include "program/compile.h"
#include "program/worker_memory.h"

namespace boreas {
namespace {

constexpr double kHopUs = 2.4;      // own publish to all words there, on a busy SM
constexpr double kGatherUs = 0.7;   // of it the gathering itself: the box that is drawn
constexpr double kRouteUs = 0.6;    // top-k of 128 logits
constexpr double kConsumeUs = 0.4;  // a resident item's turn through the consumers
constexpr double kStreamShare = 0.96;
constexpr double kAssumedBytesPerS = 4.8e12;  // where the device says nothing
constexpr int32_t kContext = 8192;

struct TimedTask {
  const TaskDesc* task = nullptr;
  Role role = Role::kConsumer;
  int32_t worker = 0;  // index among the drawn ones
  double start = 0;
  double end = 0;
};

int32_t drawn_context(const Program& program) { return std::min(kContext, program.config.context_max); }

// Times of all tasks of layers [first, last] on the drawn workers. Everything before is over at time 0.
class Timeline {
 public:
  Timeline(const Program& program, std::vector<int32_t> workers, int32_t first, int32_t last)
      : program_(program),
        workers_(std::move(workers)),
        first_(first),
        last_(last),
        context_(drawn_context(program)),
        lanes_(workers_.size() * kRoles) {
    const double bandwidth = program.device.read_bytes_per_s > 0 ? program.device.read_bytes_per_s : kAssumedBytesPerS;
    bytes_per_us_ = kStreamShare * bandwidth / program.workers() / 1e6;
    arrivals_.resize(workers_.size());
    for (size_t w = 0; w < workers_.size(); ++w) skip_earlier(w);
  }

  std::vector<TimedTask> run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t w = 0; w < workers_.size(); ++w)
        for (Role role : {Role::kProducer, Role::kMessenger, Role::kRouter, Role::kConsumer})
          while (try_task(w, role)) moved = true;
    }
    return times_;
  }

 private:
  struct Lane {
    size_t cursor = 0;
    double free_at = 0;
  };
  using Use = std::pair<int32_t, int32_t>;  // hop, use

  Lane& lane(size_t w, Role role) { return lanes_[w * kRoles + static_cast<size_t>(role)]; }

  void skip_earlier(size_t w) {
    for (int32_t role = 0; role < kRoles; ++role) {
      for (const TaskDesc& task : program_.list(workers_[w], static_cast<Role>(role))) {
        if (task.layer >= first_ || (task.layer < 0 && static_cast<Op>(task.op) != Op::kEmbed)) break;
        ++lane(w, static_cast<Role>(role)).cursor;
        if (task.arrive >= 0) arrivals_[w][task.arrive].push_back(0);
        if (task.publish.hop >= 0) published_[{task.publish.hop, task.publish.use}].push_back({w, 0});
      }
    }
  }

  bool try_task(size_t w, Role role) {
    Lane& own = lane(w, role);
    const std::span<const TaskDesc> list = program_.list(workers_[w], role);
    if (own.cursor == list.size() || list[own.cursor].layer < first_ || list[own.cursor].layer > last_) return false;
    const TaskDesc& task = list[own.cursor];
    double ready = own.free_at;
    if (!barriers_ready(w, task, ready) || !hop_ready(task, ready)) return false;
    TimedTask timed{&task, role, static_cast<int32_t>(w), ready, ready};
    switch (role) {
      case Role::kProducer:
        if (!time_load(w, task, timed)) return false;
        break;
      case Role::kConsumer:
        if (!time_consumer(w, task, timed)) return false;
        break;
      case Role::kMessenger:
        timed.end += kGatherUs;
        break;
      case Role::kRouter:
        timed.end += kRouteUs;
        break;
    }
    own.free_at = timed.end;
    ++own.cursor;
    if (task.arrive >= 0) arrivals_[w][task.arrive].push_back(timed.end);
    if (task.publish.hop >= 0) published_[{task.publish.hop, task.publish.use}].push_back({w, timed.end});
    times_.push_back(timed);
    return true;
  }

  bool barriers_ready(size_t w, const TaskDesc& task, double& ready) {
    for (const BarrierWait& wait : task.barriers) {
      if (wait.id < 0) continue;
      const std::vector<double>& arrivals = arrivals_[w][wait.id];
      if (static_cast<size_t>(wait.target) > arrivals.size()) return false;
      ready = std::max(ready, arrivals[static_cast<size_t>(wait.target) - 1]);
    }
    return true;
  }

  bool hop_ready(const TaskDesc& task, double& ready) {
    if (task.wait.hop < 0) return true;
    const auto& words = published_[{task.wait.hop, task.wait.use}];
    for (size_t w = 0; w < workers_.size(); ++w) {
      if (workers_[w] < task.wait.first || workers_[w] >= task.wait.first + task.wait.count) continue;
      const auto word = std::find_if(words.begin(), words.end(), [w](const auto& entry) { return entry.first == w; });
      if (word == words.end()) return false;
      if (word->second > 0) ready = std::max(ready, word->second + kHopUs - kGatherUs);
    }
    return true;
  }

  // An item longer than the ring ends no earlier than its consumer has taken what does not fit; one that follows items
  // which fill the ring starts no earlier than they are taken.
  bool time_load(size_t w, const TaskDesc& task, TimedTask& timed) {
    const std::span<const TaskDesc> loads = program_.list(workers_[w], Role::kProducer);
    const size_t index = lane(w, Role::kProducer).cursor;
    int64_t ahead = 0;
    for (size_t i = index; i-- > 0 && loads[i].layer >= first_;) {
      ahead += chunks(w, loads[i]);
      if (ahead < program_.ring_chunks) continue;
      const auto taken = taken_.find({w, loads[i].stream_item});
      if (taken == taken_.end()) return false;
      timed.start = std::max(timed.start, taken->second.start);
      break;
    }
    const double bytes = static_cast<double>(task.args[LoadOp::kUnitBytes]) * static_cast<double>(units(w, task));
    timed.end = timed.start + bytes / bytes_per_us_;
    loads_[{w, task.stream_item}] = timed;
    return true;
  }

  bool time_consumer(size_t w, const TaskDesc& task, TimedTask& timed) {
    if (task.stream_item < 0) return true;
    const auto load = loads_.find({w, task.stream_item});
    if (load == loads_.end()) return false;
    const int64_t beyond = std::max<int64_t>(chunks(w, task) - program_.ring_chunks, 0);
    const double rest_us = static_cast<double>(beyond * program_.device.chunk_bytes) / bytes_per_us_;
    timed.start = std::max(timed.start, load->second.start);
    timed.end = std::max({timed.start + kConsumeUs, timed.start + rest_us, load->second.end + kConsumeUs / 2});
    lane(w, Role::kProducer).free_at = std::max(lane(w, Role::kProducer).free_at, timed.start + rest_us);
    taken_[{w, task.stream_item}] = timed;
    return true;
  }

  int64_t units(size_t w, const TaskDesc& task) const {
    if (static_cast<StreamCount>(task.stream_count) != StreamCount::kPages)
      return stream_units(program_.config, task, 1, context_);
    for (const TaskDesc& consumer : program_.list(workers_[w], Role::kConsumer))
      if (consumer.stream_item == task.stream_item) return stream_units(program_.config, consumer, 1, context_);
    return 0;
  }
  int64_t chunks(size_t w, const TaskDesc& task) const {
    return chunks_of_pieces(units(w, task) * task.stream_unit_pieces);
  }

  const Program& program_;
  std::vector<int32_t> workers_;
  int32_t first_, last_;
  double bytes_per_us_ = 1;
  int32_t context_;
  std::vector<Lane> lanes_;
  std::vector<std::map<int32_t, std::vector<double>>> arrivals_;     // of each worker's barriers
  std::map<Use, std::vector<std::pair<size_t, double>>> published_;  // {worker, time}
  std::map<std::pair<size_t, int32_t>, TimedTask> loads_, taken_;    // by worker and item
  std::vector<TimedTask> times_;
};

// ---- the picture
constexpr double kWidth = 1500, kLeft = 110, kRight = 30, kLaneHeight = 54, kBoxHeight = 26, kTop = 70, kGap = 70;

const char* color_of(Op op) {
  switch (op) {
    case Op::kRouterLogits:
    case Op::kTopK:
      return "#b9a3d6";
    case Op::kQkv:
      return "#8fb8de";
    case Op::kAttention:
    case Op::kAttentionMerge:
      return "#7cc0b5";
    case Op::kUpGate:
      return "#e3b778";
    case Op::kOutProj:
      return "#a9c47f";
    case Op::kDown:
      return "#d98f83";
    default:
      return "#c9ccd1";
  }
}

class Picture {
 public:
  Picture(const Program& program, int32_t layer) : program_(program), layer_(layer) {
    workers_.push_back(0);
    if (program.workers() > 1) workers_.push_back(program.workers() / 2);
    const int32_t last = std::min(layer + 1, program.config.layer_count() - 1);
    times_ = Timeline(program, workers_, std::max(layer - 2, 0), last).run();
    from_ = 1e30;
    for (const TimedTask& timed : times_) {
      if (timed.task->layer == layer) from_ = std::min(from_, timed.start), to_ = std::max(to_, timed.end);
      // The next layer's norm shows where this one's residual arrives.
      if (timed.task->layer == layer + 1 && static_cast<Op>(timed.task->op) == Op::kGatherNorm)
        to_ = std::max(to_, timed.end);
    }
    from_ -= 0.5, to_ += 0.5;
  }

  std::string draw() {
    const double height = kTop + kLaneHeight * kRoles * static_cast<double>(workers_.size()) + kGap + 60;
    add("<svg xmlns='http://www.w3.org/2000/svg' width='%.0f' height='%.0f' viewBox='0 0 %.0f %.0f' "
        "font-family='Helvetica,Arial,sans-serif' font-size='12'>\n",
        kWidth, height, kWidth, height);
    text_ += "<rect width='100%' height='100%' fill='#ffffff'/>\n<defs>";
    for (const char* color : {"#2f5f9e", "#c2571a"})
      add("<marker id='m%s' viewBox='0 0 6 6' refX='5' refY='3' markerWidth='6' markerHeight='6' orient='auto'>"
          "<path d='M0 0L6 3L0 6z' fill='%s'/></marker>",
          color + 1, color);
    add("</defs>\n<text x='%.0f' y='26' font-size='16' fill='#222'>Layer %d on workers %d%s of %d (%s, batch 1, "
        "context %d): %s</text>\n",
        kLeft, layer_, workers_.front(), workers_.size() > 1 ? (" and " + std::to_string(workers_[1])).c_str() : "",
        program_.workers(), program_.device.name.c_str(), drawn_context(program_),
        program_.config.layers[static_cast<size_t>(layer_)].sliding ? "sliding window" : "full attention");
    draw_axis(height);
    draw_lanes();
    for (const TimedTask& timed : times_) draw_task(timed);
    for (const TimedTask& timed : times_) draw_arrows(timed);
    draw_legend(height);
    return text_ + "</svg>\n";
  }

 private:
  template <class... Args>
  void add(const char* format, Args... args) {
    char buffer[1024];
    std::snprintf(buffer, sizeof buffer, format, args...);
    text_ += buffer;
  }

  double x_of(double time) const { return kLeft + (time - from_) / (to_ - from_) * (kWidth - kLeft - kRight); }
  // The second worker is drawn upside down, so that the messengers are neighbours.
  double y_of(int32_t worker, Role role) const {
    constexpr int32_t kOrder[kRoles] = {0, 2, 3, 1};  // of producer, router, messenger, consumer
    const int32_t order = kOrder[static_cast<size_t>(role)];
    if (worker == 0) return kTop + kLaneHeight * order;
    return kTop + kLaneHeight * kRoles + kGap + kLaneHeight * (kRoles - 1 - order);
  }
  bool is_shown(const TimedTask& timed) const { return timed.end > from_ && timed.start < to_; }

  void draw_axis(double height) {
    const double step = to_ - from_ > 60 ? 10 : to_ - from_ > 12 ? 2 : 0.5;
    for (double time = 0; time < to_ - from_; time += step)
      add("<line x1='%.1f' x2='%.1f' y1='%.0f' y2='%.0f' stroke='#eceef0'/><text x='%.1f' y='%.0f' fill='#888' "
          "font-size='10' text-anchor='middle'>%g us</text>\n",
          x_of(from_ + time), x_of(from_ + time), kTop - 18, height - 56, x_of(from_ + time), kTop - 22, time);
  }

  void draw_lanes() {
    for (size_t w = 0; w < workers_.size(); ++w) {
      for (int32_t role = 0; role < kRoles; ++role) {
        const double y = y_of(static_cast<int32_t>(w), static_cast<Role>(role)) + kLaneHeight - 10;
        add("<line x1='%.0f' x2='%.0f' y1='%.1f' y2='%.1f' stroke='#d5d8dc'/><text x='%.0f' y='%.1f' fill='#444' "
            "text-anchor='end'>%s</text>\n",
            kLeft, kWidth - kRight, y, y, kLeft - 8, y - 9, role_name(static_cast<Role>(role)));
      }
      const double middle = (y_of(static_cast<int32_t>(w), Role::kProducer) +
                             y_of(static_cast<int32_t>(w), Role::kMessenger) + kLaneHeight) /
                            2;
      add("<text transform='translate(16,%.0f) rotate(-90)' text-anchor='middle' font-weight='bold' "
          "fill='#222'>worker %d</text>\n",
          middle, workers_[w]);
    }
  }

  // The op that a load feeds gives it its colour.
  Op shown_op(const TimedTask& timed) const {
    if (timed.role != Role::kProducer) return static_cast<Op>(timed.task->op);
    for (const TimedTask& other : times_)
      if (other.role == Role::kConsumer && other.worker == timed.worker &&
          other.task->stream_item == timed.task->stream_item)
        return static_cast<Op>(other.task->op);
    return Op::kLoad;
  }

  std::string label_of(const TimedTask& timed) const {
    switch (shown_op(timed)) {
      case Op::kRouterLogits:
        return "R";
      case Op::kQkv:
        return "QKV";
      case Op::kAttention:
        return "attention";
      case Op::kUpGate:
        return "up, gate";
      case Op::kOutProj:
        return "O";
      case Op::kDown:
        return "down";
      case Op::kGatherNorm:
        return "norm";
      case Op::kGather:
        return slot_name(timed.task->args[GatherOp::kSlot]);
      case Op::kAttentionMerge:
        return "merge";
      case Op::kTopK:
        return "top-k";
      default:
        return op_name(static_cast<Op>(timed.task->op));
    }
  }

  void draw_task(const TimedTask& timed) {
    if (!is_shown(timed)) return;
    const double left = std::max(x_of(timed.start), kLeft);
    const double right = std::min(x_of(timed.end), kWidth - kRight);
    const double y = y_of(timed.worker, timed.role) + kLaneHeight - 10 - kBoxHeight;
    const std::string label = label_of(timed);
    add("<g opacity='%s'><rect x='%.1f' y='%.1f' width='%.1f' height='%.0f' rx='3' fill='%s' stroke='#777' "
        "stroke-width='0.6'/>",
        timed.task->layer == layer_ ? "1" : "0.35", left, y, std::max(right - left, 2.0), kBoxHeight,
        color_of(shown_op(timed)));
    // Inside where it fits, if need be in small letters; else above, but not over loads, which their colour tells.
    const double letters = static_cast<double>(label.size());
    const int32_t size = letters * 6.6 + 4 < right - left ? 12 : 9;
    const bool inside = size == 12 || letters * 5 + 2 < right - left;
    if (inside || (timed.task->layer == layer_ && timed.role != Role::kProducer))
      add("<text x='%.1f' y='%.1f' text-anchor='middle' fill='#222' font-size='%d'>%s</text>", (left + right) / 2,
          inside ? y + 17 : y - 3, inside ? size : 10, label.c_str());
    text_ += "</g>\n";
  }

  void draw_arrows(const TimedTask& timed) {
    if (timed.task->layer != layer_ && static_cast<Op>(timed.task->op) != Op::kGatherNorm) return;
    if (!is_shown(timed)) return;
    for (const TimedTask& source : times_) {
      if (!is_shown(source)) continue;
      const bool same = source.worker == timed.worker;
      for (const BarrierWait& wait : timed.task->barriers)
        if (same && wait.id >= 0 && source.task->arrive == wait.id && arrivals_until(source) == wait.target)
          arrow(source, timed, "#2f5f9e", "");
      const HopWait& wait = timed.task->wait;
      const int32_t writer = workers_[static_cast<size_t>(source.worker)];
      if (wait.hop >= 0 && source.task->publish.hop == wait.hop && source.task->publish.use == wait.use &&
          writer >= wait.first && writer < wait.first + wait.count)
        arrow(source, timed, "#c2571a", " stroke-dasharray='5 3'");
    }
  }

  // Which arrival at its barrier a task makes.
  int32_t arrivals_until(const TimedTask& source) const {
    int32_t arrivals = 0;
    for (const TaskDesc& task : program_.list(workers_[static_cast<size_t>(source.worker)], source.role)) {
      arrivals += task.arrive == source.task->arrive;
      if (&task == source.task) break;
    }
    return arrivals;
  }

  void arrow(const TimedTask& from, const TimedTask& to, const char* color, const char* dash) {
    const double x1 = std::clamp(x_of(from.end), kLeft, kWidth - kRight);
    const double x2 = std::clamp(x_of(to.start), kLeft, kWidth - kRight);
    const double from_top = y_of(from.worker, from.role) + kLaneHeight - 10 - kBoxHeight;
    const double to_top = y_of(to.worker, to.role) + kLaneHeight - 10 - kBoxHeight;
    const double y1 = from_top > to_top ? from_top : from_top + kBoxHeight;
    const double y2 = from_top > to_top ? to_top + kBoxHeight : to_top;
    const double bend = (y2 - y1) * 0.45;
    add("<path d='M%.1f %.1f C%.1f %.1f %.1f %.1f %.1f %.1f' fill='none' stroke='%s' stroke-width='1.1' "
        "opacity='0.75'%s marker-end='url(#m%s)'/>\n",
        x1, y1, x1, y1 + bend, x2, y2 - bend, x2, y2, color, dash, color + 1);
  }

  void draw_legend(double height) {
    const double y = height - 22;
    add("<line x1='%.0f' x2='%.0f' y1='%.0f' y2='%.0f' stroke='#2f5f9e' stroke-width='1.5'/>"
        "<text x='%.0f' y='%.0f' fill='#444'>barrier, within a worker</text>",
        kLeft, kLeft + 40, y - 4, y - 4, kLeft + 46, y);
    add("<line x1='%.0f' x2='%.0f' y1='%.0f' y2='%.0f' stroke='#c2571a' stroke-width='1.5' stroke-dasharray='5 3'/>"
        "<text x='%.0f' y='%.0f' fill='#444'>hop, between workers</text>",
        kLeft + 220, kLeft + 260, y - 4, y - 4, kLeft + 266, y);
    add("<text x='%.0f' y='%.0f' fill='#444'>pale: neighbouring layers. A load has the colour of the task it feeds; "
        "it may run ahead by a ring of %d chunks. Grey boxes gather. Times are an estimate.</text>\n",
        kLeft + 430, y, program_.ring_chunks);
  }

  const Program& program_;
  int32_t layer_;
  std::vector<int32_t> workers_;
  std::vector<TimedTask> times_;
  double from_ = 0, to_ = 0;
  std::string text_;
};

}  // namespace

std::string draw_layer_svg(const Program& program, int32_t layer) {
  CHECK(layer >= 0 && layer < program.config.layer_count());
  return Picture(program, layer).draw();
}

}  // namespace boreas
