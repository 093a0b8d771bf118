// The statements, white space and variables of TemplateGenerator.
#include "template_generator.h"

namespace boreas {

std::string TemplateGenerator::tag(const std::string& inner) {
  const char* open = chance(25) ? "{%-" : !shared_ && chance(10) ? "{%+" : "{%";
  const char* close = chance(25) ? "-%}" : !shared_ && chance(10) ? "+%}" : "%}";
  return open + (chance(90) ? " " + inner + " " : inner) + close;
}

std::string TemplateGenerator::print(const std::string& inner) {
  return (chance(20) ? "{{- " : "{{ ") + inner + (chance(20) ? " -}}" : " }}");
}

std::string TemplateGenerator::data() {
  if (shared_) return pick({"", "", "\n", " ", "text", "a\n", "\n\nb ", "  \n  ", "x: ", "<|T|>", "é\n"});
  return pick({"", "", "\n", " ", "text", "  ", "a\n", "\n\nb ", "  \n  ", "\t", "x: ", "<|T|>", "{ }", "é\n", "%}",
               "\r\n", "}}", "# { ", "\xc2\xa0"});
}

std::string TemplateGenerator::body(int depth) {
  std::string out;
  const size_t visible = visible_.size();
  const uint32_t count = 1 + below(3);
  for (uint32_t i = 0; i < count; ++i) out += data() + statement(depth);
  visible_.resize(visible);
  return out + data();
}

std::string TemplateGenerator::statement(int depth) {
  const uint32_t roll = below(100);
  if (!shared_ && roll < 2) return print("(" + any(2) + ")|safe");  // not inside expressions: our safe marks nothing
  if (depth <= 0 || roll < 35) return print(any(2 + static_cast<int>(below(2))));
  if (roll < 50) return if_block(depth);
  if (roll < 68) return for_block(depth);
  if (roll < 80) return set_block(depth);
  if (roll < 86) return macro_block(depth);
  if (roll < 90) return std::string(chance(30) ? "{#-" : "{#") + " note {{ " + (chance(30) ? "-#}" : "#}");
  if (shared_) return print(text(2));
  if (roll < 93 && loops_ > 0) return tag("if " + boolean(1)) + tag(pick({"break", "continue"})) + tag("endif");
  return scoped_block(depth);
}

std::string TemplateGenerator::if_block(int depth) {
  std::string out = tag("if " + boolean(2)) + body(depth - 1);
  if (chance(30)) out += tag("elif " + boolean(2)) + body(depth - 1);
  if (chance(50)) out += tag("else") + body(depth - 1);
  return out + tag("endif");
}

std::string TemplateGenerator::for_block(int depth) {
  const size_t visible = visible_.size();
  const std::string name = fresh();
  std::string head;
  switch (below(shared_ ? 4 : 6)) {
    case 0:
      head = name + " in " + texts(2);
      visible_.push_back({name, Type::kText});
      break;
    case 1:
      head = name + " in " + ints(2);
      visible_.push_back({name, Type::kInt});
      break;
    case 2:
      head = name + " in " + rows(2);
      visible_.push_back({name, Type::kDict});
      break;
    case 3: {
      const std::string value = fresh();
      head = name + ", " + value + " in " + dict(1) + (shared_ || chance(60) ? ".items()" : "|dictsort");
      visible_.push_back({name, Type::kText});
      if (!shared_) visible_.push_back({value, Type::kText});
      break;
    }
    case 4:
      head = name + " in " + any(2);
      break;
    default:
      head = name + " in " + text(1);
      visible_.push_back({name, Type::kText});
      break;
  }
  // Jinja2 and our engine differ in what `loop` is inside a loop's own filter, so it is not used there.
  const int loops = loops_;
  loops_ = 0;
  if (chance(20)) head += " if " + boolean(1);
  loops_ = loops + 1;
  std::string out = tag("for " + head) + body(depth - 1);
  if (!shared_ && chance(15)) out += print("loop.cycle('x', " + text(1) + ")");
  if (!shared_ && chance(10)) out += print("loop.changed(" + text(1) + ")");
  if (chance(20))
    out += print("'p' if loop.previtem is defined else 'q'") +
           print(shared_ ? "'n' if loop.nextitem is defined else 'm'" : "loop.nextitem");
  visible_.resize(visible);
  loops_ = loops;
  if (chance(20)) out += tag("else") + body(depth - 1);
  return out + tag("endfor");
}

std::string TemplateGenerator::set_block(int depth) {
  const Type type = static_cast<Type>(below(7));
  const std::string name = fresh();
  if (chance(20)) return tag("set ns.text = " + (shared_ ? text(2) : "ns.text ~ " + text(2)));
  if (chance(10)) return tag("set ns.count = " + integer(2));
  std::string out;
  if (chance(15)) {
    const int loops = loops_;
    loops_ = shared_ ? loops_ : 0;
    out = tag(shared_ || chance(60) ? "set " + name : "set " + name + " | trim | upper") + body(depth - 1) +
          tag("endset");
    loops_ = loops;
    visible_.push_back({name, Type::kText});
  } else if (!shared_ && chance(10)) {
    const std::string second = fresh();
    out = tag("set " + name + ", " + second + " = " + text(1) + ", " + integer(1));
    visible_.push_back({name, Type::kText});
    visible_.push_back({second, Type::kInt});
  } else {
    out = tag("set " + name + " = " + expression(type, 2));
    visible_.push_back({name, type});
  }
  return out;
}

std::string TemplateGenerator::macro_block(int depth) {
  if (in_macro_) return print(text(2));
  const std::string name = "m" + std::to_string(next_name_++);
  std::vector<Variable> outside = visible_;
  const int loops = loops_;
  loops_ = 0;
  in_macro_ = true;
  if (shared_) visible_.clear();  // @huggingface/jinja looks names up where the macro is called
  visible_.push_back({name + "p", Type::kText});
  visible_.push_back({name + "q", Type::kInt});
  std::string inside = body(depth - 1);
  if (!shared_ && chance(20)) inside += print("varargs|length") + print("kwargs|tojson");
  in_macro_ = false;
  loops_ = loops;
  visible_ = std::move(outside);
  // The second parameter is called k, as text() calls it; inside it has a name of its own.
  std::string out = tag("macro " + name + "(" + name + "p, k=" + (shared_ ? "3" : integer(1)) + ")") +
                    tag("set " + name + "q = k") + inside + tag("endmacro");
  if (loops_ == 0 && depth >= 2) macros_.push_back(name);
  return out + print(name + "(" + text(1) + (chance(40) ? ", " + integer(1) : "") + ")");
}

std::string TemplateGenerator::scoped_block(int depth) {
  const int loops = loops_;
  loops_ = 0;
  std::string out;
  switch (below(5)) {
    case 0:
      out = tag("filter " + pick({"upper", "trim", "indent(2)", "replace('a', 'A')", "trim|length", "title"})) +
            body(depth - 1) + tag("endfilter");
      break;
    case 1: {
      const std::string name = fresh();
      out = tag("with " + name + " = " + text(2));
      visible_.push_back({name, Type::kText});
      out += body(depth - 1) + tag("endwith");
      visible_.pop_back();
      break;
    }
    case 2:
      out = tag("generation") + body(depth - 1) + tag("endgeneration");
      break;
    case 3: {
      std::string raw = tag("raw");
      if (raw.find("+%}") != std::string::npos) raw = "{% raw %}";
      out = raw + data() + "{{ not evaluated }} {% if %}" + data() + tag("endraw");
      break;
    }
    default: {
      const std::string name = fresh();
      out = tag("macro " + name + "(x='d')") + "[" + print("caller(x)") + "]" + data() + tag("endmacro") +
            tag("call(y) " + name + "(" + text(1) + ")") + print("y") + body(depth - 1) + tag("endcall");
    }
  }
  loops_ = loops;
  return out;
}

std::string TemplateGenerator::random_text() {
  static constexpr const char* kPieces[] = {"a",    "b", " ",  "Hello", "x,y", "1",    "\n",      "é",
                                            "user", "'", "\"", "A b",   "ab",  "  ",   "\\",      "<b>",
                                            "日本", "😀", "\t", "end",   "&",   "</p>", "<|END|>", "Zz"};
  std::string out;
  for (uint32_t count = below(5); count > 0; --count) {
    const std::string piece = kPieces[below(static_cast<uint32_t>(std::size(kPieces)))];
    out += shared_ && piece == "😀" ? "é" : piece;
  }
  return out;
}

boost::json::object TemplateGenerator::variables() {
  boost::json::array xs, ys, rows;
  for (uint32_t count = 1 + below(4); count > 0; --count) xs.push_back(prng_.between(shared_ ? 0 : -5, 20));
  for (uint32_t count = 2 + below(3); count > 0; --count) ys.push_back(boost::json::value(random_text()));
  for (uint32_t count = 1 + below(3); count > 0; --count) {
    rows.push_back({{"name", random_text()}, {"size", prng_.between(0, 9)}, {"flag", chance(50)}});
  }
  boost::json::object d = {{"k", random_text()}, {"count", prng_.between(0, 5)}};
  if (chance(50)) d["Other"] = random_text();
  if (!shared_ && chance(50)) d["items2"] = rows;
  const boost::json::object first = rows[0].as_object();
  return {{"s", random_text()},
          {"t", random_text()},
          {"n", prng_.between(shared_ ? 0 : -3, 9)},
          {"f", 0.25 * static_cast<double>(prng_.between(-40, 40)) + 0.125},
          {"b", chance(50)},
          {"z", nullptr},
          {"xs", xs},
          {"ys", ys},
          {"rows", rows},
          {"d", d},
          {"R0", first},
          {"I0", xs[0]},
          {"nested", {{"a", {{"b", {1, {{"c", "deep"}}}}, {"k", random_text()}}}}}};
}

OracleCase TemplateGenerator::run() {
  OracleCase result;
  result.variables = variables();
  const std::string head = tag("set ns = namespace(text=" + literal() + ", count=0)");
  std::string out = head;
  const uint32_t count = 1 + below(3);
  for (uint32_t i = 0; i < count; ++i) out += data() + statement(chance(25) ? 3 : 2);
  result.source = out + data();
  return result;
}

}  // namespace boreas
