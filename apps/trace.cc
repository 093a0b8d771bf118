// boreas trace: where a decode step's time goes. Runs a few steps, then the same traced; prints what consumers waited
// for in the last one and a table by role and op, and writes it as a trace that ui.perfetto.dev and chrome://tracing
// open.
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <numeric>

#include "bench_decode.h"
#include "commands.h"
#include "exec/cuda/cuda_executor.h"
#include "program/compile.h"

namespace boreas {
namespace {

using cuda::Moment;
using cuda::TaskTimes;
using cuda::WorkerTimes;

struct TraceFlags {
  DecodeSetup setup;
  std::string perfetto;
  int32_t worker = 0;  // -1: all
};

struct Launch {  // a copy of the last one
  int32_t rows = 0, rows_max = 0;
  std::vector<TaskTimes> tasks;
  std::vector<WorkerTimes> workers;
};

// Clocks of a moment since its worker began; -1: not reached.
double clocks_at(const Launch& launch, size_t worker, const TaskTimes& times, Moment moment) {
  const uint32_t at = times.at[static_cast<size_t>(moment)];
  if (at == 0) return -1;
  return static_cast<double>(at - static_cast<uint32_t>(launch.workers[worker].clocks_begin));
}
double microseconds_per_clock(const WorkerTimes& times) {
  return static_cast<double>(times.nanoseconds_end - times.nanoseconds_begin) / 1e3 /
         static_cast<double>(times.clocks_end - times.clocks_begin);
}

// Sums of one kind of task, in microseconds.
struct OpTimes {
  int64_t tasks = 0;
  double waited = 0, looked = 0, got = 0, published = 0, done = 0, stalled = 0, late = 0;
};

void add_task(OpTimes& sum, const Launch& launch, size_t worker, const TaskTimes& times) {
  const double us = microseconds_per_clock(launch.workers[worker]);
  const auto at = [&](Moment moment) { return clocks_at(launch, worker, times, moment) * us; };
  const double taken = at(Moment::kTaken), ready = at(Moment::kReady), done = at(Moment::kDone);
  const auto since_ready = [&](Moment moment) { return at(moment) < 0 ? 0 : at(moment) - ready; };
  ++sum.tasks;
  sum.waited += ready - taken;
  sum.looked += since_ready(Moment::kLooked);
  sum.got += since_ready(Moment::kGot);
  sum.published += since_ready(Moment::kPublished);
  sum.done += done - ready;
  sum.stalled += times.stalled * us;
  sum.late += times.late * us;
}

using OpKey = std::tuple<int32_t, int32_t, int32_t>;  // role, op, what tells tasks of an op apart

// Loads by stream, gathers by slot.
int32_t kind_of(const TaskDesc& task) {
  const Op op = static_cast<Op>(task.op);
  return op == Op::kLoad || op == Op::kGather ? task.args[0] : -1;
}

void print_table(const Program& program, const Launch& launch) {
  std::map<OpKey, OpTimes> sums;
  const size_t workers = launch.workers.size();
  for (size_t worker = 0; worker < workers; ++worker) {
    for (int32_t role = 0; role < kRoles; ++role) {
      const size_t list = worker * kRoles + static_cast<size_t>(role);
      for (int32_t i = program.list_first[list]; i < program.list_first[list + 1]; ++i) {
        const TaskDesc& task = program.tasks[static_cast<size_t>(i)];
        const TaskTimes& times = launch.tasks[static_cast<size_t>(i)];
        if (times.at[static_cast<size_t>(Moment::kDone)] == 0) continue;
        add_task(sums[{role, task.op, kind_of(task)}], launch, worker, times);
      }
    }
  }
  std::printf("%-10s %-18s %8s | %8s | %8s %8s %8s %8s | %8s %8s | %9s\n", "role", "op", "tasks", "barrier", "looked",
              "got", "publish", "done", "stalled", "late", "us a step");
  for (const auto& [key, sum] : sums) {
    const auto [role, op, kind] = key;
    const double n = static_cast<double>(sum.tasks), w = static_cast<double>(workers);
    std::string name = op_name(static_cast<Op>(op));
    if (kind >= 0) name += " " + std::to_string(kind);
    std::printf("%-10s %-18s %8.1f | %8.2f | %8.2f %8.2f %8.2f %8.2f | %8.2f %8.2f | %9.1f\n",
                role_name(static_cast<Role>(role)), name.c_str(), n / w, sum.waited / n, sum.looked / n, sum.got / n,
                sum.published / n, sum.done / n, sum.stalled / n, sum.late / n, (sum.waited + sum.done) / w);
  }
}

// What a consumer waits for before a task of the op, or in it by a late barrier: null, nothing of note.
const char* awaited_by(Op op) {
  switch (op) {
    case Op::kRouterLogits:
    case Op::kQkv:
      return "hop residual, and the norm";
    case Op::kAttention:
      return "hop qkv";
    case Op::kUpGate:
      return "hop logit, and the choice of experts";
    case Op::kOutProj:
      return "hops partial and attention, and the merge";
    case Op::kDown:
      return "hop inner";
    case Op::kLmHead:
      return "hop residual, and the last norm";
    default:
      return nullptr;
  }
}

// Where consumers' time goes from the step's first moment to its last, in microseconds of the mean worker.
void print_summary(const Program& program, const Launch& launch) {
  const double count = static_cast<double>(launch.workers.size());
  std::map<std::string, double> waits;
  double stream = 0, arithmetic = 0, step = 0;
  for (size_t worker = 0; worker < launch.workers.size(); ++worker) {
    const double us = microseconds_per_clock(launch.workers[worker]);
    const auto span = [&](const TaskTimes& times, Moment from, Moment to) {
      return static_cast<double>(times.at[static_cast<size_t>(to)] - times.at[static_cast<size_t>(from)]) * us / count;
    };
    const size_t list = worker * kRoles + static_cast<size_t>(Role::kConsumer);
    for (int32_t i = program.list_first[list]; i < program.list_first[list + 1]; ++i) {
      const TaskTimes& times = launch.tasks[static_cast<size_t>(i)];
      if (times.at[static_cast<size_t>(Moment::kDone)] == 0) continue;
      const char* awaited = awaited_by(static_cast<Op>(program.tasks[static_cast<size_t>(i)].op));
      const double stalled = times.stalled * us / count, late = times.late * us / count;
      waits[awaited == nullptr ? "other barriers" : awaited] += span(times, Moment::kTaken, Moment::kReady) + late;
      stream += stalled;
      arithmetic += span(times, Moment::kReady, Moment::kDone) - stalled - late;
    }
    const WorkerTimes& times = launch.workers[worker];
    step += static_cast<double>(times.nanoseconds_end - times.nanoseconds_begin) / 1e3 / count;
  }
  double rest = step - stream - arithmetic;
  const auto line = [step](const std::string& what, double us) {
    std::printf("  %-46s %9.1f us %6.1f %%\n", what.c_str(), us, 100 * us / step);
  };
  std::printf("consumers, of %.1f us a worker:\n", step);
  line("arithmetic, publishing", arithmetic);
  line("waiting for the stream", stream);
  for (const auto& [what, us] : waits) {
    line("waiting for " + what, us);
    rest -= us;
  }
  line("start, between tasks, and the tail", rest);
}

// Microseconds of a moment on the clock that all workers share.
double shared_microseconds(const Launch& launch, size_t worker, uint64_t origin, double clocks) {
  const WorkerTimes& times = launch.workers[worker];
  return static_cast<double>(static_cast<int64_t>(times.nanoseconds_begin - origin)) / 1e3 +
         clocks * microseconds_per_clock(times);
}

// Who holds up the others: workers by how long after the mean one they end a layer's last task, on average over layers.
void print_late_workers(const Program& program, const Launch& launch) {
  constexpr size_t kShown = 8;
  const size_t workers = launch.workers.size();
  std::map<int32_t, std::vector<double>> ends;  // by layer, of each worker
  for (size_t worker = 0; worker < workers; ++worker) {
    const size_t list = worker * kRoles + static_cast<size_t>(Role::kConsumer);
    for (int32_t i = program.list_first[list]; i < program.list_first[list + 1]; ++i) {
      const TaskDesc& task = program.tasks[static_cast<size_t>(i)];
      if (static_cast<Op>(task.op) != Op::kDown) continue;
      const double clocks = clocks_at(launch, worker, launch.tasks[static_cast<size_t>(i)], Moment::kDone);
      ends[task.layer].push_back(shared_microseconds(launch, worker, launch.workers.front().nanoseconds_begin, clocks));
    }
  }
  std::vector<std::pair<double, size_t>> late(workers);
  for (size_t worker = 0; worker < workers; ++worker) late[worker].second = worker;
  double last = 0;
  for (const auto& [layer, of_layer] : ends) {
    if (of_layer.size() != workers) return;
    const double mean = std::accumulate(of_layer.begin(), of_layer.end(), 0.0) / static_cast<double>(workers);
    last += *std::max_element(of_layer.begin(), of_layer.end()) - mean;
    for (size_t worker = 0; worker < workers; ++worker) late[worker].first += of_layer[worker] - mean;
  }
  std::sort(late.rbegin(), late.rend());
  const double layers = static_cast<double>(std::max<size_t>(ends.size(), 1));
  std::printf("the last worker ends a layer %.1f us after the mean one; on average late:", last / layers);
  for (size_t i = 0; i < std::min(kShown, workers); ++i)
    std::printf("%s worker %zu (SM %d) %.1f", i == 0 ? "" : ",", late[i].second,
                static_cast<int>(launch.workers[late[i].second].processor), late[i].first / layers);
  std::printf("\n");
}

bool write_perfetto(const Program& program, const Launch& launch, const TraceFlags& flags) {
  std::ofstream file(flags.perfetto);
  uint64_t origin = ~uint64_t{0};
  for (const WorkerTimes& times : launch.workers) origin = std::min(origin, times.nanoseconds_begin);
  file << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  const char* comma = "\n";
  const auto event = [&](size_t worker, int32_t role, const std::string& name, int32_t layer, double from, double to,
                         double stalled, double late) {
    char line[320];
    std::snprintf(line, sizeof line,
                  "%s{\"ph\":\"X\",\"pid\":%zu,\"tid\":\"%s\",\"name\":\"%s\",\"ts\":%.3f,\"dur\":%.3f,"
                  "\"args\":{\"layer\":%d,\"stalled_us\":%.3f,\"late_us\":%.3f,\"sm\":%u}}",
                  comma, worker, role_name(static_cast<Role>(role)), name.c_str(), from, to - from, layer, stalled,
                  late, static_cast<unsigned>(launch.workers[worker].processor));
    file << line;
    comma = ",\n";
  };
  for (size_t worker = 0; worker < launch.workers.size(); ++worker) {
    if (flags.worker >= 0 && worker != static_cast<size_t>(flags.worker)) continue;
    for (int32_t role = 0; role < kRoles; ++role) {
      const size_t list = worker * kRoles + static_cast<size_t>(role);
      for (int32_t i = program.list_first[list]; i < program.list_first[list + 1]; ++i) {
        const TaskDesc& task = program.tasks[static_cast<size_t>(i)];
        const TaskTimes& times = launch.tasks[static_cast<size_t>(i)];
        const auto at = [&](Moment moment) {
          return shared_microseconds(launch, worker, origin, clocks_at(launch, worker, times, moment));
        };
        if (times.at[static_cast<size_t>(Moment::kDone)] == 0) continue;
        const double us = microseconds_per_clock(launch.workers[worker]);
        event(worker, role, "wait", task.layer, at(Moment::kTaken), at(Moment::kReady), 0, 0);
        event(worker, role, op_name(static_cast<Op>(task.op)), task.layer, at(Moment::kReady), at(Moment::kDone),
              times.stalled * us, times.late * us);
      }
    }
  }
  file << "\n]}\n";
  return file.good();
}

double median_step_us(DecodeRun run) {
  std::sort(run.device_us.begin(), run.device_us.end());
  return run.device_us[run.device_us.size() / 2];
}

Status run_trace(TraceFlags flags) {
  RETURN_IF_ERROR(check_has_gpu(flags.setup, "traces"));
  Launch last;
  const auto tuning = std::make_shared<cuda::CudaTuning>();
  tuning->traced = false;
  flags.setup.tuning = tuning;
  flags.setup.trace = [&last](const cuda::LaunchTrace& launch) {
    last.rows = launch.rows;
    last.rows_max = launch.rows_max;
    last.tasks.assign(launch.tasks.begin(), launch.tasks.end());
    last.workers.assign(launch.workers.begin(), launch.workers.end());
  };
  ASSIGN_OR_RETURN(Decode decode, start_decode(flags.setup));
  ASSIGN_OR_RETURN(const DecodeRun plain, decode.rows.run(1));
  tuning->traced = true;
  ASSIGN_OR_RETURN(const DecodeRun traced, decode.rows.run(1));
  DeviceSpec spec = h200_spec();
  spec.workers = static_cast<int32_t>(last.workers.size());
  ASSIGN_OR_RETURN(const Program program, compile(decode.stack.model->config(), spec, last.rows_max));
  if (program.tasks.size() != last.tasks.size()) return Error{"the program compiled here is not the one that ran"};
  const double plain_us = median_step_us(plain), traced_us = median_step_us(traced);
  std::printf("%s, batch %d, context %d: step %.1f us, traced %.1f us (%+.1f %%; medians of %zu)\n",
              decode.stack.executor->info().device.c_str(), flags.setup.batch, flags.setup.context, plain_us, traced_us,
              100 * (traced_us / plain_us - 1), traced.device_us.size());
  print_summary(program, last);
  print_late_workers(program, last);
  std::printf("the last step's tasks, microseconds each:\n");
  print_table(program, last);
  if (!flags.perfetto.empty() && !write_perfetto(program, last, flags))
    return Error{"cannot write " + flags.perfetto, "perfetto"};
  return Ok{};
}

}  // namespace

void add_trace_command(Command app, int& exit_code) {
  const Command trace = app.add_subcommand("trace", "where a decode step's time goes (GPU)");
  auto flags = std::make_shared<TraceFlags>();
  flags->setup.device = "cuda";
  flags->setup.model_shape = "north";
  add_decode_options(trace, flags->setup);
  trace.add_option("--batch", flags->setup.batch, "rows").between(1, 64).show_default();
  trace.add_option("--context", flags->setup.context, "positions before the first step, filled with seeded values")
      .between(1, 1 << 20)
      .show_default();
  trace.add_option("--steps", flags->setup.steps, "steps").between(1, 100000).show_default();
  trace.add_option("--perfetto", flags->perfetto, "write the last step as a trace file (JSON)");
  trace.add_option("--worker", flags->worker, "the worker in that file; -1: all").show_default();
  trace.callback([flags, &exit_code] {
    const Status status = run_trace(*flags);
    if (status.ok()) return;
    std::cerr << "boreas trace: " << status.error().message << "\n";
    exit_code = 1;
  });
}

}  // namespace boreas
