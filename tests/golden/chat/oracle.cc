#include "oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "text/chat_template.h"

namespace boreas {

namespace {

const std::string kSource = BOREAS_SOURCE_DIR;
const std::string kModules = kSource + "/tests/npm/node_modules";

// A folder of its own for the files of one question.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "boreas-chat-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

OracleAnswers ask(const std::string& command, const std::vector<OracleCase>& cases) {
  const Scratch scratch;
  {
    std::ofstream out(scratch.file("cases"));
    for (const OracleCase& test : cases) {
      out << boost::json::serialize(
                 boost::json::object{{"template", test.source}, {"variables", test.variables}, {"now", kTestNow}})
          << "\n";
    }
  }
  const std::string line = command + " " + scratch.file("cases") + " " + scratch.file("results");
  EXPECT_EQ(std::system(line.c_str()), 0) << line;
  OracleAnswers result;
  std::ifstream in(scratch.file("results"));
  for (std::string text; std::getline(in, text);) {
    const boost::json::object answer = boost::json::parse(text).as_object();
    const bool ok = answer.at("ok").as_bool();
    result.answers.push_back({ok, std::string(answer.at(ok ? "text" : "error").as_string())});
  }
  EXPECT_EQ(result.answers.size(), cases.size());
  result.answers.resize(cases.size());
  return result;
}

bool succeeds(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

}  // namespace

OracleAnswers ask_jinja2(const std::vector<OracleCase>& cases) {
  static const bool kInstalled = succeeds("/usr/bin/python3 -c 'import jinja2'");
  if (!kInstalled) return {"python3-jinja2 is not installed (apt-get install python3-jinja2)", {}};
  return ask("/usr/bin/python3 " + kSource + "/tests/golden/chat/oracle_jinja2.py", cases);
}

OracleAnswers ask_huggingface(const std::vector<OracleCase>& cases) {
  if (!std::filesystem::exists(kModules + "/@huggingface/jinja"))
    return {"tests/npm/node_modules is absent (npm ci in tests/npm)", {}};
  static const bool kInstalled = succeeds("node --version");
  if (!kInstalled) return {"node is not installed", {}};
  return ask("node " + kSource + "/tests/golden/chat/oracle_huggingface.mjs " + kModules, cases);
}

OracleAnswer ask_boreas(const OracleCase& test) {
  setenv("TZ", "UTC", 1);
  tzset();
  const auto parsed = ChatTemplate::parse(test.source);
  if (!parsed.ok()) return {false, parsed.error().message};
  const auto rendered = parsed->render_at(test.variables, kTestNow);
  return rendered.ok() ? OracleAnswer{true, *rendered} : OracleAnswer{false, rendered.error().message};
}

std::vector<NamedTemplate> npm_templates(const std::string& package) {
  const std::string path = kModules + "/" + package + "/models/tokenizer_config.json";
  if (!std::filesystem::exists(path)) return {};
  const boost::json::value config = boost::json::parse(read_text_file(path));
  const boost::json::value& templates = config.at("chat_template");
  if (templates.is_string()) return {{"default", std::string(templates.as_string())}};
  std::vector<NamedTemplate> result;
  for (const boost::json::value& entry : templates.as_array()) {
    result.push_back({std::string(entry.at("name").as_string()), std::string(entry.at("template").as_string())});
  }
  return result;
}

std::string read_text_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string describe_difference(const OracleCase& test, const OracleAnswer& ours, const OracleAnswer& theirs) {
  std::ostringstream out;
  if (ours.ok && theirs.ok) {
    const size_t common = static_cast<size_t>(
        std::mismatch(ours.text.begin(), ours.text.end(), theirs.text.begin(), theirs.text.end()).first -
        ours.text.begin());
    const size_t from = common > 60 ? common - 60 : 0;
    out << "first difference at byte " << common << "\n  ours:   " << ours.text.substr(from, 160)
        << "\n  oracle: " << theirs.text.substr(from, 160);
  } else {
    out << "ours " << (ours.ok ? "rendered: " : "failed: ") << ours.text.substr(0, 300) << "\noracle "
        << (theirs.ok ? "rendered: " : "failed: ") << theirs.text.substr(0, 300);
  }
  constexpr size_t kShown = 3000;
  out << "\ntemplate:\n"
      << test.source.substr(0, kShown) << "\nvariables: " << boost::json::serialize(test.variables).substr(0, kShown);
  return out.str();
}

}  // namespace boreas
