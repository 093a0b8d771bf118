#include "command_line.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <system_error>
#include <utility>

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

FlagText text_of(const CLI::Option& option) {
  FlagText text;
  if (option.get_positional()) text.names.push_back(option.get_name(true));
  for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  text.help = option.get_description();
  text.default_value = option.get_default_str();
  text.group = option.get_group();
  return text;
}

CommandText text_of(const CLI::App& app) {
  CommandText text;
  text.name = app.get_name();
  text.help = app.get_description();
  for (const CLI::Option* option : app.get_options()) text.flags.push_back(text_of(*option));
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    text.subcommands.push_back(text_of(*command));
  return text;
}

}  // namespace

Flag Flag::between(int64_t low, int64_t high) const {
  option_->check(CLI::Range(low, high));
  return *this;
}

Flag Flag::between(double low, double high) const {
  option_->check(CLI::Range(low, high));
  return *this;
}

Flag Flag::number_between(double low, double high) const {
  const auto problem = [low, high](const std::string& text) {
    double value = 0;
    const bool good = CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
    return good ? std::string()
                : "'" + text + "' is not a number from " + CLI::detail::to_string(low) + " to " +
                      CLI::detail::to_string(high);
  };
  option_->check(CLI::Validator(problem, "NUMBER"));
  return *this;
}

Flag Flag::one_of(std::vector<std::string> values) const {
  option_->check(CLI::IsMember(std::move(values)));
  return *this;
}

Flag Flag::existing_file() const {
  option_->check(CLI::ExistingFile);
  return *this;
}

Flag Flag::writable_folder() const {
  const auto problem = [](const std::string& path) {
    std::error_code code;
    if (!std::filesystem::is_directory(path, code)) return "'" + path + "' is no folder; make it first";
    return ::access(path.c_str(), W_OK | X_OK) == 0 ? std::string() : "'" + path + "' may not be written to";
  };
  option_->check(CLI::Validator(problem, "FOLDER"));
  return *this;
}

Flag Flag::separated_by(char delimiter) const {
  option_->delimiter(delimiter);
  return *this;
}

Flag Flag::required() const {
  option_->required();
  return *this;
}

Flag Flag::excludes(Flag other) const {
  option_->excludes(other.option_);
  return *this;
}

Flag Flag::needs(Flag other) const {
  option_->needs(other.option_);
  return *this;
}

Flag Flag::show_default() const {
  option_->capture_default_str();
  return *this;
}

Flag Flag::in_group(const std::string& name) const {
  option_->group(name);
  return *this;
}

Command Command::add_subcommand(const std::string& name, const std::string& help) const {
  return Command(*app_->add_subcommand(name, help));
}

void Command::require_subcommand() const { app_->require_subcommand(1); }

void Command::callback(std::function<void()> run) const { app_->callback(std::move(run)); }

template <class T>
Flag Command::add_option(const std::string& names, T& value, const std::string& help) const {
  return Flag(app_->add_option(names, value, help));
}

template Flag Command::add_option(const std::string&, std::string&, const std::string&) const;
template Flag Command::add_option(const std::string&, int32_t&, const std::string&) const;
template Flag Command::add_option(const std::string&, int64_t&, const std::string&) const;
template Flag Command::add_option(const std::string&, uint16_t&, const std::string&) const;
template Flag Command::add_option(const std::string&, uint64_t&, const std::string&) const;
template Flag Command::add_option(const std::string&, float&, const std::string&) const;
template Flag Command::add_option(const std::string&, double&, const std::string&) const;
template Flag Command::add_option(const std::string&, std::vector<int32_t>&, const std::string&) const;
template Flag Command::add_option(const std::string&, std::vector<std::string>&, const std::string&) const;

Flag Command::add_number(const std::string& names, std::function<void(double)> take, const std::string& help) const {
  return Flag(app_->add_option_function<double>(
      names, [take = std::move(take)](const double& value) { take(value); }, help));
}

Flag Command::add_word(const std::string& names, const std::function<void(const std::string&)>& take,
                       const std::string& help) const {
  return Flag(app_->add_option_function<std::string>(names, take, help));
}

Flag Command::add_flag(const std::string& names, bool& value, const std::string& help) const {
  return Flag(app_->add_flag(names, value, help));
}

Flag Command::add_flag(const std::string& names) const { return Flag(app_->add_flag(names)); }

Flag Command::flag(const std::string& name) const { return Flag(app_->get_option(name)); }

bool parse_line(const std::function<void(Command)>& declare, const std::string& line) {
  CLI::App app;
  declare(Command(app));
  try {
    app.parse(line, false);
  } catch (const CLI::ParseError&) {
    return false;
  }
  return true;
}

CommandText describe_program(const std::string& name, const std::function<void(Command, int&)>& declare) {
  CLI::App app{"", name};
  int exit_code = 0;
  declare(Command(app), exit_code);
  return text_of(app);
}

int run_program(int argc, char** argv, const std::string& version, const std::function<void(Command, int&)>& declare) {
  CLI::App app{"boreas serves Cohere's North models: an OpenAI-compatible server and its tools.", "boreas"};
  app.set_version_flag("--version", version);
  app.require_subcommand(1);
  int exit_code = 0;
  declare(Command(app), exit_code);

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

}  // namespace boreas
