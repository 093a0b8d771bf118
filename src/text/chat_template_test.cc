#include "text/chat_template.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace boreas {
namespace {

using boost::json::object;

std::string render(const std::string& source, const object& variables = {}, const TemplateLimits& limits = {}) {
  const auto parsed = ChatTemplate::parse(source, limits);
  if (!parsed.ok()) return "LOAD ERROR " + parsed.error().message;
  const auto text = parsed->render(variables);
  return text.ok() ? *text : "ERROR " + text.error().message;
}

TEST(ChatTemplate, PrintsAsPythonDoes) {
  EXPECT_EQ(render("{{ [1, 2.0, 1e16, 1e-5, 'a', \"it's\", none, true, {'k': (1,)}] }}"),
            "[1, 2.0, 1e+16, 1e-05, 'a', \"it's\", None, True, {'k': (1,)}]");
  EXPECT_EQ(
      render(
          "{{ 18446744073709551615 }} {{ -9223372036854775808 }} {{ 7 // -2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }}"),
      "18446744073709551615 -9223372036854775808 -4 2 3.5 1024");
  EXPECT_EQ(render("{{ x|tojson }}", {{"x", {{"b", "é<\"\n"}, {"a", {1, 2.5, nullptr, true}}}}}),
            "{\"b\": \"é<\\\"\\n\", \"a\": [1, 2.5, null, true]}");
  EXPECT_EQ(render("{{ 'İSTANBUL ΣΑΣ Straße'.lower() }} {{ 'straße ǆ'.upper() }} {{ 'ﬁne'.title() }}"),
            "i̇stanbul σας straße STRASSE Ǆ Fine");
  EXPECT_EQ(
      render("{{ '日本語😀'[1:3] }} {{ '日本語😀'|length }} {{ 'abc'[::-1] }} {{ '\\u200b\\x7f' ~ ['\\u200b\\x7f'] }}"),
      "本語 4 cba \xE2\x80\x8B\x7F['\\u200b\\x7f']");
}

TEST(ChatTemplate, WhiteSpaceControl) {
  EXPECT_EQ(render("a\n  {% if true %}\n  b\n  {% endif %}\nc\n"), "a\n  b\nc");
  EXPECT_EQ(render("a \n {%- if true -%} \n b {%- endif %}\n c"), "ab c");
  EXPECT_EQ(render("  {%+ if true %}x{% endif +%}\ny"), "  x\ny");
  EXPECT_EQ(render("{% raw %}{{ x }}{% endraw %}{# note #}\nz"), "{{ x }}z");
  EXPECT_EQ(render("a\r\nb\rc"), "a\nb\nc");
}

TEST(ChatTemplate, ScopesMacrosAndLoops) {
  EXPECT_EQ(render("{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}"), "2 3 1");
  EXPECT_EQ(render("{% set n = namespace(c=0) %}{% for i in range(4) if i is odd %}{% set n.c = n.c + i %}{{ "
                   "loop.length }}{% endfor %}{{ n.c }}"),
            "224");
  EXPECT_EQ(render("{% macro m(a, b='d') %}{{ a }}{{ b }}{{ later }}{% endmacro %}{% set later = 'z' %}{{ m(1) }}{{ "
                   "m(b=2, a=3) }}"),
            "1dz32z");
  EXPECT_EQ(render("{% macro w() %}[{{ caller('q') }}]{% endmacro %}{% call(x) w() %}{{ x }}!{% endcall %}"), "[q!]");
  EXPECT_EQ(
      render("{% for i in [1, 2, 3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{{ loop.nextitem }},{% endfor %}"),
      "12,3,");
  EXPECT_EQ(render("{% generation %}{% set x = 1 %}{{ x }}{% endgeneration %}{{ x }}"), "1");
}

TEST(ChatTemplate, UndefinedPrintsNothingAndRaisesWhenUsed) {
  EXPECT_EQ(render("[{{ u }}{{ u|default('d') }}{{ d.u }}{{ u is defined }}]", {{"d", object{}}}), "[dFalse]");
  EXPECT_EQ(render("\n{{ d.u.v }}", {{"d", object{}}}),
            "ERROR chat template, line 2: 'u' is undefined, so it has no attribute 'v'");
  EXPECT_EQ(render("{{ f(1) }}"), "ERROR chat template, line 1: 'f' is undefined");
}

TEST(ChatTemplate, RaiseExceptionKeepsItsText) {
  EXPECT_EQ(render("{{ raise_exception('Roles must alternate: ' ~ 3) }}"), "ERROR Roles must alternate: 3");
}

TEST(ChatTemplate, TimeIsAnArgument) {
  setenv("TZ", "UTC", 1);
  tzset();
  const auto parsed = ChatTemplate::parse("{{ strftime_now('%Y-%m-%d %H:%M') }}{{ strftime_now('') }}");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(*parsed->render_at({}, 1754402589), "2025-08-05 14:03");
}

struct LoadError {
  const char* source;
  const char* message;
};

TEST(ChatTemplate, UnsupportedConstructsAreLoadErrors) {
  const LoadError cases[] = {
      {"a\n{% include 'x' %}", "line 2: unsupported construct: tag '{% include %}'"},
      {"{% block b %}{% endblock %}", "line 1: unsupported construct: tag '{% block %}'"},
      {"{% do x %}", "line 1: unsupported construct: tag '{% do %}'"},
      {"\n\n{{ x|groupby('a') }}", "line 3: unsupported construct: filter 'groupby'"},
      {"{{ x|map('nope') }}", "line 1: unsupported construct: filter 'nope'"},
      {"{{ x|selectattr('a', 'nope') }}", "line 1: unsupported construct: test 'nope'"},
      {"{{ x is nope }}", "line 1: unsupported construct: test 'nope'"},
      {"{{ x.format(1) }}", "line 1: unsupported construct: method 'format'"},
      {"{{ '%s' % x }}", "line 1: unsupported construct: formatting a string with '%'"},
      {"{{ f(*x) }}", "line 1: unsupported construct: '*' to unpack arguments"},
      {"{{ cycler(1) }}", "line 1: unsupported construct: function 'cycler'"},
      {"{% for x in y recursive %}{% endfor %}", "line 1: unsupported construct: recursive loop"},
      {"{% if x %}", "line 1: '{% if %}' is never closed: '{% endif %}' is missing"},
      {"a\nb{% endfor %}", "line 2: unexpected '{% endfor %}'"},
      {"{% break %}", "line 1: '{% break %}' outside of a loop"},
      {"{{ 'a }}", "line 1: unclosed string literal"},
      {"{{ x", "line 1: unclosed print: '}}' is missing"},
      {"{# x", "line 1: unclosed comment: '#}' is missing"},
      {"{% raw %}x", "line 1: unclosed raw block: '{% endraw %}' is missing"},
      {"{{ (1] }}", "line 1: unexpected ']', expected ')'"},
      {"{{ 99999999999999999999 }}", "line 1: whole number '99999999999999999999' does not fit in 64 bits"},
      {"{{ '\\ud800' }}", "line 1: surrogate escapes in string literals are not supported"},
      {"{% set 1 = 2 %}", "line 1: cannot assign to '1'"},
      {"\xff", "line 1: the template is not valid UTF-8"},
  };
  for (const LoadError& test : cases)
    EXPECT_EQ(render(test.source), std::string("LOAD ERROR chat template, ") + test.message);
}

// Each of these would hang or eat the machine without limits.
TEST(ChatTemplate, HostileTemplatesFailCleanly) {
  const char* sources[] = {
      "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% "
      "endfor %}",
      "{{ 'x' * 1000000000 }}",
      "{% set n = namespace(s='x' * 1000) %}{% for i in range(1000) %}{% set n.s = n.s + n.s %}{% endfor %}",
      "{% set n = namespace(l=[1]) %}{% for i in range(1000) %}{% set n.l = n.l + n.l %}{% endfor %}",
      "{% set n = namespace(l=[]) %}{% for i in range(99999) %}{% set n.l = [n.l] %}{% endfor %}",
      "{% set n = namespace(l=[1]) %}{% for i in range(150) %}{% set n.l = [n.l, n.l] %}{% endfor %}{{ n.l }}",
      "{% set n = namespace(l=[1]) %}{% for i in range(150) %}{% set n.l = [n.l, n.l] %}{% endfor %}{{ "
      "n.l|tojson(indent=900) }}",
      "{% set n = namespace(l=[1]) %}{% set n.m = n.l %}{% for i in range(150) %}{% set n.l = [n.l, n.l] %}{% set n.m "
      "= [n.m, n.m] %}{% endfor %}{{ n.l == n.m }}",
      "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m(f) %}{{ f(f) }}{% endmacro %}{{ m(m) }}",
      "{% for i in range(99999) %}{{ 'x' * 10000 }}{% endfor %}",
      "{% set x %}{% for i in range(99999) %}{{ 'x' * 10000 }}{% endfor %}{% endset %}",
      "{{ range(1000000) }}",
      "{% set n = namespace(l=[]) %}{% for i in range(99999) %}{% set n.l = n.l + ['x' * 1000000] %}{% endfor %}",
      "{{ 10 ** 1000000000 }}",
      "{{ (('a' * 8000000) ~ 'b') in ('a' * 16000000) }}{{ ('a' * 16000000).rfind(('a' * 8000000) ~ 'b') }}",
      "{{ ('ab' * 5000000).split('a')|length }}{{ ('ab' * 5000000)|list|length }}",
      "{{ 'a'|indent(1000000000) }}",
      "{{ 1|tojson(indent=1000000000) }}",
  };
  TemplateLimits limits;  // a tenth of the usual ones: the same ends, sooner
  limits.output_bytes = 1 << 20;
  limits.steps = 2'000'000;
  for (const char* source : sources) {
    const std::string answer = render(source, {}, limits);
    EXPECT_EQ(answer.rfind("ERROR chat template, line 1: ", 0), 0u) << source << "\n" << answer.substr(0, 200);
  }
  EXPECT_NE(render(sources[0]).find("its step limit is spent"), std::string::npos);
}

std::string repeated(const std::string& unit, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += unit;
  return out;
}

TEST(ChatTemplate, DeepTemplatesFailCleanly) {
  const std::string sources[] = {
      "{{ " + repeated("(", 100000) + "1" + repeated(")", 100000) + " }}",
      "{{ " + repeated("[", 100000) + " }}",
      "{{ " + repeated("not ", 100000) + "1 }}",
      "{{ " + repeated("-", 100000) + "1 }}",
      "{{ x" + repeated(".a", 100000) + " }}",
      "{{ x" + repeated("|list", 100000) + " }}",
      "{{ x" + repeated("()", 100000) + " }}",
      "{{ x" + repeated(" is none", 100000) + " }}",
      repeated("{% if 1 %}", 100000),
      repeated("{% for a in b %}", 50000),
      "{{ " + repeated("1 if 2 else ", 50000) + "3 }}",
      "{% set " + repeated("(", 100000) + "a = 1 %}",
  };
  for (const std::string& source : sources)
    EXPECT_EQ(render(source).rfind("LOAD ERROR chat template, line 1: ", 0), 0u) << source.substr(0, 40);
  EXPECT_EQ(render("{{ 1" + repeated(" + 1", 50000) + " }}"), "50001") << "long chains are flat, not deep";
  EXPECT_EQ(render("{% if 0 %}" + repeated("{% elif 0 %}", 20000) + "{% else %}x{% endif %}"), "x");
}

TEST(ChatTemplate, LimitsAreArguments) {
  TemplateLimits limits;
  limits.template_bytes = 10;
  EXPECT_EQ(render("12345678901", {}, limits), "LOAD ERROR chat template: 11 bytes, at most 10 are allowed");
  limits = {};
  limits.output_bytes = 10;
  EXPECT_EQ(render("12345678901", {}, limits),
            "ERROR chat template, line 1: the template's output is larger than 10 bytes");
  limits = {};
  limits.steps = 50;
  EXPECT_EQ(render("{% for i in range(99) %}{% endfor %}", {}, limits),
            "ERROR chat template, line 1: the template runs too long: its step limit is spent");
  limits = {};
  limits.depth = 3;
  EXPECT_EQ(render("{% if 1 %}{% if 1 %}{% if 1 %}", {}, limits),
            "LOAD ERROR chat template, line 1: nested more than 3 levels deep");
}

TEST(ChatTemplate, DeepVariablesFailCleanly) {
  boost::json::value deep = 1;
  for (int i = 0; i < 300; ++i) {
    boost::json::array outer;
    outer.push_back(std::move(deep));
    deep = std::move(outer);
  }
  EXPECT_EQ(render("{{ x }}", {{"x", deep}}),
            "ERROR chat template, line 1: the variables are nested more than 200 levels deep");
}

TEST(ChatTemplate, InvalidTextInVariablesFailsCleanly) {
  EXPECT_EQ(render("{{ x|upper }}", {{"x", "a\xC3"}}),
            "ERROR chat template, line 1: the variables hold text that is not valid UTF-8");
  EXPECT_EQ(render("{{ x|tojson }}", {{"x", {{"\xFF", 1}}}}),
            "ERROR chat template, line 1: the variables hold text that is not valid UTF-8");
}

TEST(ChatTemplate, ManyKeysWithEqualHashesStayBounded) {
  object many;
  for (int i = 0; i < 20000; ++i) many["k" + std::to_string(i)] = i;
  EXPECT_EQ(render("{{ d.k19999 }}{% for k in d %}{% if d[k] == 5 %}{{ k }}{% endif %}{% endfor %}", {{"d", many}}),
            "19999k5");
}

TEST(ChatTemplate, OneTemplateManyThreads) {
  const auto parsed =
      ChatTemplate::parse("{% for m in messages %}{{ m.role ~ ': ' ~ m.content|upper }}\n{% endfor %}{{ 'x' 'y' }}");
  ASSERT_TRUE(parsed.ok());
  const object variables = {
      {"messages", {{{"role", "user"}, {"content", "hi"}}, {{"role", "assistant"}, {"content", "ho"}}}}};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([copy = *parsed, &variables] {
      for (int i = 0; i < 500; ++i) EXPECT_EQ(*copy.render(variables), "user: HI\nassistant: HO\nxy");
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ChatTemplate, KnowsWhetherPartsAreRead) {
  EXPECT_TRUE(ChatTemplate::parse("{% if part.type == 'text' %}{{ part.value }}{% endif %}")->reads_content_parts());
  EXPECT_TRUE(ChatTemplate::parse("{{ part['text'] }}")->reads_content_parts());
  EXPECT_FALSE(ChatTemplate::parse("text {{ message.content }}")->reads_content_parts());
}

class Directory {
 public:
  Directory() : path_(std::filesystem::temp_directory_path() / ("boreas-template-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  void write(const char* name, const std::string& text) const { std::ofstream(path_ / name) << text; }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST(ChatTemplateLoad, FindsTheTemplateAndTheSpecialTokens) {
  const Directory directory;
  EXPECT_NE(ChatTemplate::load(directory.path()).error().message.find("no chat template"), std::string::npos);

  directory.write(
      "tokenizer_config.json",
      R"({"bos_token": {"content": "<B>"}, "eos_token": "<E>", "pad_token": null, "chat_template": "1{{ bos_token }}"})");
  EXPECT_EQ(*ChatTemplate::load(directory.path())->render({}), "1<B>");

  directory.write(
      "tokenizer_config.json",
      R"({"bos_token": "<B>", "chat_template": [{"name": "rag", "template": "r"}, {"name": "default", "template": "2{{ bos_token }}"}]})");
  EXPECT_EQ(*ChatTemplate::load(directory.path())->render({}), "2<B>");

  directory.write("chat_template.jinja", "3{{ bos_token }}{{ pad_token }}");
  EXPECT_EQ(*ChatTemplate::load(directory.path())->render({}), "3<B>");
  EXPECT_EQ(*ChatTemplate::load(directory.path())->render({{"bos_token", "own"}}), "3own");

  directory.write("chat_template.jinja", "\n{% include 'x' %}");
  EXPECT_EQ(
      ChatTemplate::load(directory.path()).error().message,
      directory.path() + "/chat_template.jinja: chat template, line 2: unsupported construct: tag '{% include %}'");
  directory.write("tokenizer_config.json", "{");
  EXPECT_NE(ChatTemplate::load(directory.path()).error().message.find("tokenizer_config.json: not valid JSON"),
            std::string::npos);
}

}  // namespace
}  // namespace boreas
