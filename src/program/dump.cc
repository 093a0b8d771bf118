// Programs as text: JSON for tools, a task a line for people and goldens. Called by `boreas plan` and tests. What is
// absent in a task (no hop, no barrier) is absent in its line.
#include <cstdio>
#include <string_view>

#include "program/compile.h"

namespace boreas {
namespace {

constexpr const char* kStreamNames[] = {"router", "qkv",         "kv_pages",   "expert_up_gate", "dense_up_gate",
                                        "output", "expert_down", "dense_down", "lm_head"};
constexpr const char* kCountNames[] = {"one", "experts", "pages"};

template <size_t kCount>
const char* name_in(const char* const (&names)[kCount], int32_t index) {
  return index >= 0 && static_cast<size_t>(index) < kCount ? names[index] : "?";
}

const char* task_op_name(const TaskDesc& task) {
  return task.op >= 0 && task.op < kOps ? op_name(static_cast<Op>(task.op)) : "?";
}

// Calls visit(name, text of the value) for each named argument; slots and streams by name.
template <class Visit>
void for_each_arg(const TaskDesc& task, Visit visit) {
  if (task.op < 0 || task.op >= kOps) return;
  std::string_view names = op_arg_names(static_cast<Op>(task.op));
  for (size_t i = 0; !names.empty(); ++i) {
    const size_t blank = names.find(' ');
    const std::string_view name = names.substr(0, blank);
    names = blank == std::string_view::npos ? std::string_view{} : names.substr(blank + 1);
    const int32_t value = task.args[i];
    const bool is_slot = name == "slot" || name == "route_slot";
    const bool is_stream = name == "stream";
    visit(name,
          is_slot     ? slot_name(value)
          : is_stream ? name_in(kStreamNames, value)
                      : std::to_string(value),
          is_slot || is_stream);
  }
}

// ---- JSON
class JsonText {
 public:
  void open(char bracket) {
    separate();
    text_ += bracket;
    first_ = true;
  }
  void close(char bracket) {
    text_ += bracket;
    first_ = false;
  }
  void key(std::string_view name) {
    string(name);
    text_ += ':';
    first_ = true;
  }
  void string(std::string_view value) {  // names of ops, hops and devices: nothing to escape but by accident
    separate();
    text_ += '"';
    for (const char c : value)
      if (c >= ' ' && c != '"' && c != '\\') text_ += c;
    text_ += '"';
  }
  void number(int64_t value) {
    separate();
    text_ += std::to_string(value);
  }
  void pair(std::string_view name, int64_t value) {
    key(name);
    number(value);
  }
  void line() { text_ += '\n'; }
  std::string take() { return std::move(text_); }

 private:
  void separate() {
    if (!first_) text_ += ',';
    first_ = false;
  }
  std::string text_;
  bool first_ = true;
};

void add_hops(JsonText& json, const TaskDesc& task) {
  if (task.wait.hop >= 0) {
    json.key("wait");
    json.open('{');
    json.key("hop");
    json.string(hop_name(task.wait.hop));
    json.pair("use", task.wait.use);
    json.pair("first", task.wait.first);
    json.pair("count", task.wait.count);
    json.close('}');
  }
  if (task.publish.hop >= 0) {
    json.key("publish");
    json.open('{');
    json.key("hop");
    json.string(hop_name(task.publish.hop));
    json.pair("use", task.publish.use);
    json.close('}');
  }
}

void add_barriers(JsonText& json, const TaskDesc& task) {
  if (task.barriers[0].id >= 0) {
    json.key("barriers");
    json.open('{');
    for (const BarrierWait& wait : task.barriers)
      if (wait.id >= 0) json.pair(slot_name(wait.id), wait.target);
    json.close('}');
  }
  if (task.arrive >= 0) {
    json.key("arrive");
    json.string(slot_name(task.arrive));
  }
}

void add_task(JsonText& json, const TaskDesc& task) {
  json.open('{');
  json.key("op");
  json.string(task_op_name(task));
  if (task.layer >= 0) json.pair("layer", task.layer);
  add_hops(json, task);
  add_barriers(json, task);
  if (task.stream_item >= 0) {
    json.key("item");
    json.open('{');
    json.pair("index", task.stream_item);
    json.key("count");
    json.string(name_in(kCountNames, task.stream_count));
    json.pair("unit_pieces", task.stream_unit_pieces);
    json.close('}');
  }
  json.key("args");
  json.open('{');
  for_each_arg(task, [&](std::string_view name, const std::string& value, bool is_name) {
    json.key(name);
    if (is_name) json.string(value);
    else json.number(std::stoll(value));
  });
  json.close('}');
  json.close('}');
}

void add_head(JsonText& json, const Program& program) {
  json.key("device");
  json.string(program.device.name);
  json.pair("workers", program.workers());
  json.pair("rows_max", program.rows_max);
  json.pair("ring_chunks", program.ring_chunks);
  json.pair("chunk_bytes", program.device.chunk_bytes);
  json.pair("producers", program.producers);
  json.pair("slot_bytes", program.slot_bytes);
  json.key("slots");
  json.open('{');
  for (int32_t slot = 0; slot < kSlots; ++slot) {
    json.key(slot_name(slot));
    json.open('{');
    json.pair("offset", program.slots[static_cast<size_t>(slot)].offset);
    json.pair("bytes", program.slots[static_cast<size_t>(slot)].bytes);
    json.close('}');
  }
  json.close('}');
  json.key("hop_uses");
  json.open('{');
  for (int32_t hop = 0; hop < kHops; ++hop) json.pair(hop_name(hop), program.hop_uses[static_cast<size_t>(hop)]);
  json.close('}');
}

// ---- text
std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string task_line(size_t index, const TaskDesc& task) {
  std::string line = padded(std::to_string(index), 5) + padded(task_op_name(task), 16);
  line += padded(task.layer >= 0 ? "L" + std::to_string(task.layer) : "-", 5);
  for (const BarrierWait& wait : task.barriers)
    if (wait.id >= 0) line += std::string(" after ") + slot_name(wait.id) + "=" + std::to_string(wait.target);
  if (task.wait.hop >= 0)
    line += std::string(" from ") + hop_name(task.wait.hop) + "#" + std::to_string(task.wait.use) + " of " +
            std::to_string(task.wait.first) + ".." + std::to_string(task.wait.first + task.wait.count - 1);
  if (task.stream_item >= 0)
    line += " item " + std::to_string(task.stream_item) + " (" + name_in(kCountNames, task.stream_count) + " x " +
            std::to_string(task.stream_unit_pieces) + " pieces)";
  for_each_arg(task, [&](std::string_view name, const std::string& value, bool) {
    line += " " + std::string(name) + ":" + value;
  });
  if (task.arrive >= 0) line += std::string(" arrives ") + slot_name(task.arrive);
  if (task.publish.hop >= 0)
    line += std::string(" publishes ") + hop_name(task.publish.hop) + "#" + std::to_string(task.publish.use);
  return line + "\n";
}

}  // namespace

std::string dump_json(const Program& program) {
  JsonText json;
  json.open('{');
  add_head(json, program);
  json.key("lists");
  json.open('[');
  for (int32_t worker = 0; worker < program.workers(); ++worker) {
    for (int32_t role = 0; role < kRoles; ++role) {
      json.line();
      json.open('{');
      json.pair("worker", worker);
      json.key("role");
      json.string(role_name(static_cast<Role>(role)));
      json.key("tasks");
      json.open('[');
      for (const TaskDesc& task : program.list(worker, static_cast<Role>(role))) add_task(json, task);
      json.close(']');
      json.close('}');
    }
  }
  json.close(']');
  json.close('}');
  json.line();
  return json.take();
}

std::string dump_text(const Program& program, int32_t worker) {
  CHECK(worker >= 0 && worker < program.workers());
  std::string text = "worker " + std::to_string(worker) + " of " + std::to_string(program.workers()) + " on " +
                     program.device.name + ", rows " + std::to_string(program.rows_max) + ", ring " +
                     std::to_string(program.ring_chunks) + " chunks of " + std::to_string(program.device.chunk_bytes) +
                     " bytes, " + std::to_string(program.producers) + " producer warps, slots " +
                     std::to_string(program.slot_bytes) + " bytes\n";
  for (int32_t slot = 0; slot < kSlots; ++slot) {
    const SlotSpec& spec = program.slots[static_cast<size_t>(slot)];
    text += std::string("  slot ") + padded(slot_name(slot), 10) + " bytes " + std::to_string(spec.offset) + ".." +
            std::to_string(spec.offset + spec.bytes) + "\n";
  }
  for (Role role : {Role::kProducer, Role::kRouter, Role::kMessenger, Role::kConsumer}) {
    text += std::string(role_name(role)) + "\n";
    const std::span<const TaskDesc> list = program.list(worker, role);
    for (size_t index = 0; index < list.size(); ++index) text += "  " + task_line(index, list[index]);
  }
  return text;
}

}  // namespace boreas
