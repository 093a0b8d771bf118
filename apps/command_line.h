// The command line over CLI11: a subcommand, its flags, what their values may be. CLI11 is headers only and costs every
// file that sees it seven seconds of compiler, so that command_line.cc alone does;
// subcommands declare their flags through the handles here. A handle is a pointer: copied freely, valid as long as the
// parser.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace boreas {

// One flag or positional argument. What a value may be is checked while parsing; a wrong one is bad usage.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}

  Flag between(int low, int high) const { return between(int64_t{low}, int64_t{high}); }
  Flag between(int64_t low, int64_t high) const;
  Flag between(double low, double high) const;
  Flag number_between(double low, double high) const;  // says so of not-a-number too
  Flag one_of(std::vector<std::string> values) const;
  Flag existing_file() const;
  Flag writable_folder() const;             // one that exists
  Flag separated_by(char delimiter) const;  // of a list: several values in one argument
  Flag required() const;
  Flag excludes(Flag other) const;
  Flag needs(Flag other) const;
  Flag show_default() const;                     // the variable's value at this moment, in --help
  Flag in_group(const std::string& name) const;  // a heading of its own in --help

 private:
  CLI::Option* option_;
};

// A subcommand, or the program itself.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}

  Command add_subcommand(const std::string& name, const std::string& help) const;
  void require_subcommand() const;
  void callback(std::function<void()> run) const;  // when all is parsed

  // `names` as in "-p,--prompt"; without a dash: positional. `value` outlives the parser; T is one of those that
  // command_line.cc lists.
  template <class T>
  Flag add_option(const std::string& names, T& value, const std::string& help = "") const;
  Flag add_number(const std::string& names, std::function<void(double)> take, const std::string& help) const;
  Flag add_word(const std::string& names, const std::function<void(const std::string&)>& take,
                const std::string& help) const;
  // A name behind '!' sets false.
  Flag add_flag(const std::string& names, bool& value, const std::string& help) const;
  Flag add_flag(const std::string& names) const;  // accepted, without effect
  Flag flag(const std::string& name) const;       // one that has been added, as "--url"

 private:
  CLI::App* app_;
};

// The program: `declare` adds the subcommands, whose callbacks set the exit code; 2: bad usage. Flags may be spelled
// with '-' or '_', an unknown one is answered with the nearest known one.
int run_program(int argc, char** argv, const std::string& version, const std::function<void(Command, int&)>& declare);

// Whether `line` fits the flags that `declare` declares, on a parser of its own; the values are set then. For tests.
bool parse_line(const std::function<void(Command)>& declare, const std::string& line);

// What a subcommand and its flags say of themselves, in the order of their declaration.
struct FlagText {
  std::vector<std::string> names;  // as they are typed; that of a positional argument is first, without a dash
  std::string help;
  std::string default_value;  // empty unless it is shown
  std::string group;          // its heading; empty: hidden
};
struct CommandText {
  std::string name, help;
  std::vector<FlagText> flags;
  std::vector<CommandText> subcommands;
};

// Of the program that `declare` declares, on a parser of its own; `name` is the program's. For tests.
CommandText describe_program(const std::string& name, const std::function<void(Command, int&)>& declare);

}  // namespace boreas
