// boreas: the subcommands. What all of their command lines have in common is in command_line.h.
#include "commands.h"

namespace boreas {
namespace {

void add_commands(Command program, int& exit_code) {
  add_serve_command(program, exit_code);
  add_generate_command(program, exit_code);
  add_bench_command(program, exit_code);
  add_eval_command(program, exit_code);
  add_plan_command(program, exit_code);
  add_trace_command(program, exit_code);
}

}  // namespace
}  // namespace boreas

int main(int argc, char** argv) { return boreas::run_program(argc, argv, BOREAS_VERSION, boreas::add_commands); }
