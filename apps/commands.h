// One function a subcommand: declares its flags on the program's parser. Its callback runs the command and sets
// exit_code: 0 success, 1 failure, 2 bad usage or input that does not exist.
#pragma once

#include "command_line.h"

namespace boreas {

void add_commands(Command app, int& exit_code);  // all of these
void add_bench_command(Command app, int& exit_code);
void add_eval_command(Command app, int& exit_code);
void add_generate_command(Command app, int& exit_code);
void add_plan_command(Command app, int& exit_code);
void add_trace_command(Command app, int& exit_code);
void add_serve_command(Command app, int& exit_code);

}  // namespace boreas
