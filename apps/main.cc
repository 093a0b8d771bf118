// boreas: the subcommands. What all of their command lines have in common is in command_line.h.
#include <string>

#include "build_commit.h"
#include "commands.h"

int main(int argc, char** argv) {
  const std::string version = std::string(BOREAS_VERSION) + ", commit " + boreas::build_commit();
  return boreas::run_program(argc, argv, version, boreas::add_commands);
}
