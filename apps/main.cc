// boreas: the subcommands, and what all of their command lines have in common: flags may be spelled with '-' or '_', an
// unknown one is answered with the nearest known one.
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "commands.h"

namespace boreas {
namespace {

constexpr int kUsageError = 2;

// "--max_model_len=8k" -> "--max-model-len=8k"
std::string with_dashes(std::string argument) {
  if (argument.rfind("--", 0) != 0) return argument;
  const auto end = argument.begin() + static_cast<std::ptrdiff_t>(std::min(argument.find('='), argument.size()));
  std::replace(argument.begin(), end, '_', '-');
  return argument;
}

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string nearest_flag(const CLI::App& command, const std::string& flag) {
  std::string nearest;
  size_t nearest_distance = flag.size() / 2 + 1;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      const size_t distance = edit_distance("--" + name, flag);
      if (distance >= nearest_distance) continue;
      nearest_distance = distance;
      nearest = "--" + name;
    }
  }
  return nearest;
}

int report_unknown(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const CLI::App& command = chosen.empty() ? app : *chosen.front();
  for (const std::string& argument : app.remaining(true)) {
    const std::string flag = argument.substr(0, argument.find('='));
    std::cerr << "boreas: unknown argument " << flag;
    const std::string nearest = flag.rfind("--", 0) == 0 ? nearest_flag(command, flag) : std::string();
    if (!nearest.empty()) std::cerr << "; did you mean " << nearest << "?";
    std::cerr << "\n";
  }
  return kUsageError;
}

// "boreas srve": the word that is no subcommand, where there is one, and those that are.
int report_no_subcommand(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining();
  std::cerr << "boreas: " << (words.empty() ? "a subcommand is required" : "unknown subcommand " + words.front());
  std::string separator = "; expected one of ";
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    std::cerr << separator << command->get_name();
    separator = ", ";
  }
  std::cerr << " (boreas --help)\n";
  return kUsageError;
}

int run(int argc, char** argv) {
  CLI::App app{"boreas serves Cohere's North models: an OpenAI-compatible server and its tools.", "boreas"};
  app.set_version_flag("--version", BOREAS_VERSION);
  app.require_subcommand(1);
  int exit_code = 0;
  add_commands(app, exit_code);

  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; --i) arguments.push_back(with_dashes(argv[i]));  // CLI11 takes them last first
  try {
    app.parse(arguments);
  } catch (const CLI::ExtrasError&) {
    return report_unknown(app);
  } catch (const CLI::RequiredError& error) {
    if (app.get_subcommands().empty()) return report_no_subcommand(app);
    app.exit(error);
    return kUsageError;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  return exit_code;
}

}  // namespace
}  // namespace boreas

int main(int argc, char** argv) { return boreas::run(argc, argv); }
