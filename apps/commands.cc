#include "commands.h"

namespace boreas {

void add_commands(Command app, int& exit_code) {
  add_serve_command(app, exit_code);
  add_generate_command(app, exit_code);
  add_bench_command(app, exit_code);
  add_eval_command(app, exit_code);
  add_plan_command(app, exit_code);
  add_trace_command(app, exit_code);
}

}  // namespace boreas
