// docs/build-and-run.md lists every flag of every subcommand as the parser declares it. After a change of flags,
// BOREAS_WRITE_DOCS=1 api_tests --gtest_filter='FlagsDocument.*' writes the list anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "apps/commands.h"

namespace boreas {
namespace {

constexpr const char* kBegin = "<!-- flags: begin, written by tests/api/flags_document_test.cc -->\n";
constexpr const char* kEnd = "<!-- flags: end -->\n";
constexpr size_t kColumns = 118;

std::string names_of(const FlagText& flag) {
  std::string names;
  for (const std::string& name : flag.names) names += (names.empty() ? "`" : ", `") + name + "`";
  return names;
}

// Words of the text in lines of at most kColumns, all but the first indented.
std::string wrapped(const std::string& text) {
  std::istringstream words(text);
  std::string lines, line, word;
  while (words >> word) {
    if (!line.empty() && line.size() + 1 + word.size() > kColumns) {
      lines += line + "\n";
      line = " ";
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return lines + line + "\n";
}

void describe(const CommandText& command, const std::string& path, std::string& text) {
  std::string flags;
  for (const FlagText& flag : command.flags) {
    const std::string names = names_of(flag);
    if (names == "`-h`, `--help`" || flag.group.empty()) continue;
    std::string what = flag.help;
    if (!flag.default_value.empty()) what += " [" + flag.default_value + "]";
    if (flag.group == "Accepted for compatibility") what += " (accepted for compatibility)";
    flags += wrapped("- " + names + ": " + what);
  }
  if (command.subcommands.empty() || !flags.empty())
    text += "\n### " + path + "\n\n" + wrapped(command.help) + "\n" + flags;
  for (const CommandText& sub : command.subcommands) describe(sub, path + " " + sub.name, text);
}

TEST(FlagsDocument, IsWhatTheParserSays) {
  std::string flags;
  describe(describe_program("boreas", add_commands), "boreas", flags);
  const std::string path = std::string(BOREAS_SOURCE_DIR) + "/docs/build-and-run.md";
  std::stringstream file;
  file << std::ifstream(path).rdbuf();
  const std::string text = file.str();
  const size_t begin = text.find(kBegin), end = text.find(kEnd);
  ASSERT_NE(begin, std::string::npos) << path;
  ASSERT_NE(end, std::string::npos) << path;
  const size_t first = begin + std::string(kBegin).size();
  flags += "\n";
  if (std::getenv("BOREAS_WRITE_DOCS") != nullptr) {
    std::ofstream(path) << text.substr(0, first) << flags << text.substr(end);
    return;
  }
  EXPECT_EQ(text.substr(first, end - first), flags)
      << "flags have changed; write them anew with BOREAS_WRITE_DOCS=1 api_tests --gtest_filter='FlagsDocument.*'";
}

}  // namespace
}  // namespace boreas
