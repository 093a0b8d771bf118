// boreas: the subcommands. What all of their command lines have in common is in command_line.h.
#include "commands.h"

int main(int argc, char** argv) { return boreas::run_program(argc, argv, BOREAS_VERSION, boreas::add_commands); }
