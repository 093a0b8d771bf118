// Texts, numbers and "anything" of TemplateGenerator, and how its lines are filled in.
#include "template_generator.h"

#include <iterator>

namespace boreas {

// Left out of Grammar::kShared, because @huggingface/jinja differs from Jinja2 there (Python is the reference of our
// engine):
//   printing containers, booleans and floats; title and capitalize; list of a dict; characters outside the BMP; map
//   with a filter; {%+, set blocks with filters, with, raw, call and filter blocks; comparison chains; arithmetic with
//   bools;
//   // and % of negative numbers; text repetition; list equality; map, select and the like on anything but lists;
//   methods and filters it lacks; variables set in a loop turn read in the next one; undefined operands; errors (it
//   often goes on where Python raises).

// In brackets if something outside of brackets and quotes could bind to what comes next.
static std::string wrapped(const std::string& expression) {
  int depth = 0;
  char quote = '\0';
  for (size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (quote != '\0') {
      if (c == '\\') ++i;
      if (c == quote) quote = '\0';
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '}') {
      --depth;
    } else if (depth == 0 && std::string(" |+-*~<>=%/").find(c) != std::string::npos) {
      return "(" + expression + ")";
    }
  }
  return expression;
}

std::string TemplateGenerator::fill(const char* line, int depth) {
  std::string out;
  for (const char* c = line; *c != '\0'; ++c) {
    if (*c != '$') {
      out += *c;
      continue;
    }
    std::string inner;
    switch (*++c) {
      case 't':
        inner = text(depth - 1);
        break;
      case 'i':
        inner = integer(depth - 1);
        break;
      case 'b':
        inner = boolean(depth - 1);
        break;
      case 'T':
        inner = texts(depth - 1);
        break;
      case 'I':
        inner = ints(depth - 1);
        break;
      case 'R':
        inner = rows(depth - 1);
        break;
      case 'D':
        inner = dict(depth - 1);
        break;
      case 'n':
        inner = number(depth - 1);
        break;
      case 'a':
        inner = any(depth - 1);
        break;
      case 'q':
        inner = literal();
        break;
      case 'p':
        inner = pick({"','", "' '", "'a'", "'<|'"});
        break;
      case 'j':
        inner = std::to_string(below(6));
        break;
      default:
        break;
    }
    // Mostly in brackets; sometimes not, so that precedence is compared too.
    const bool bound = c[1] == '.' || c[1] == '[' || c[1] == '|';
    out += bound || chance(90) ? wrapped(inner) : inner;
  }
  return out;
}

std::string TemplateGenerator::choose(std::initializer_list<const char*> lines, int depth) {
  return fill(pick(lines).c_str(), depth);
}

std::string TemplateGenerator::literal() {
  if (shared_)
    return pick({"'a'", "\"b c\"", "'it\\'s'", "'\\n'", "' x '", "''", "'Zürich'", "'<|END|>'", "\"q\\\"q\"",
                 "'back\\\\slash'", "'user'", "'1,2,3'"});
  return pick({"'a'",
               "\"b c\"",
               "'it\\'s'",
               "'\\n'",
               "' x '",
               "''",
               "'Zürich'",
               "'<|END|>'",
               "\"q\\\"q\"",
               "'back\\\\slash'",
               "'user'",
               "'1,2,3'",
               "'\\x41\\u00e9'",
               "'日本'",
               "'\\t|\\r\\n'",
               "'😀 é'",
               "'tab\tin'",
               "'Straße ǆ'",
               "'A' 'b'",
               "'42'",
               "'-7.5'",
               "'\\d\\q'",
               "'\xc2\xa0nbsp\xc2\xa0'",
               "'İΣΣ Σ'",
               "'line1\nline2'",
               "'a-b (c) [d]'",
               "'ONE two'",
               "'x\\\ny'",
               "'\\u200b\\x00\\x7f'"});
}

std::string TemplateGenerator::variable(Type type, const char* otherwise) {
  std::vector<std::string> names;
  for (const Variable& candidate : visible_) {
    if (candidate.type == type) names.push_back(candidate.name);
  }
  return names.empty() ? otherwise : names[below(static_cast<uint32_t>(names.size()))];
}

namespace {

constexpr const char* kSharedText[] = {"$t + $t",
                                       "($t ~ $i)",
                                       "$t.strip()",
                                       "$t.upper()",
                                       "$t.lower()",
                                       "$t|trim",
                                       "$t|upper",
                                       "$t|lower",
                                       "($t if $b else $t)",
                                       "$T|join($q)",
                                       "$R[0].name",
                                       "R0.name",
                                       "d['k']",
                                       "$t.split($p)[0]",
                                       "$t.replace($p, $t)",
                                       "$t|tojson",
                                       "$T|tojson",
                                       "$D|tojson",
                                       "$R|tojson(indent=2)",
                                       "$i|string",
                                       "$t[:$j]",
                                       "$t|replace('a', $q)",
                                       "u|default($t)",
                                       "$t.lstrip()",
                                       "$t.rstrip()",
                                       "(d.k or $t)"};
constexpr const char* kPythonText[] = {"$t + $t",
                                       "($t ~ $a)",
                                       "$t.strip()",
                                       "$t.strip($t)",
                                       "$t.lstrip($q)",
                                       "$t.rstrip()",
                                       "$t.upper()",
                                       "$t.lower()",
                                       "$t.title()",
                                       "$t.capitalize()",
                                       "$t.replace($t, $t)",
                                       "$t.replace($t, $q, $i)",
                                       "$t|replace($q, $t)",
                                       "$t|trim",
                                       "$t|trim($q)",
                                       "$t|upper",
                                       "$t|lower",
                                       "$t|title",
                                       "$t|capitalize",
                                       "($t if $b else $t)",
                                       "($t if $b)",
                                       "$T|join($q)",
                                       "$T|join",
                                       "$q.join($T)",
                                       "$R|join(', ', attribute='name')",
                                       "$R[$i].name",
                                       "$R[0]['name']",
                                       "d['k']",
                                       "d.get('k', $t)",
                                       "d.get($t)",
                                       "$t.split($q)[0]",
                                       "$t.split()[0]",
                                       "$t.split($q, 1)[-1]",
                                       "$t.rsplit(None, 1)[0]",
                                       "$t|tojson",
                                       "$a|tojson",
                                       "$a|tojson(indent=$j)",
                                       "$D|tojson(sort_keys=true)",
                                       "$a|tojson(ensure_ascii=true)",
                                       "$a|tojson(separators=(',', ':'))",
                                       "$a|string",
                                       "$t[$i]",
                                       "$t[$i:$i]",
                                       "$t[::-1]",
                                       "$t[$i::2]",
                                       "$t * $j",
                                       "$j * $t",
                                       "u|default($t)",
                                       "(u or $t)",
                                       "($t and $t)",
                                       "$t|first",
                                       "$t|last",
                                       "$t|reverse",
                                       "$t|indent",
                                       "$t|indent(2, true)",
                                       "$t|indent($q, blank=true)",
                                       "$T|first",
                                       "$T|last",
                                       "$T[$i]",
                                       "$T|min",
                                       "$T|max",
                                       "$t|d($q, true)",
                                       "$t.removeprefix($q)",
                                       "$t.removesuffix($q)",
                                       "$t.partition($q)[2]",
                                       "$t.rpartition($q)[0]",
                                       "$t.ljust($j, '.')",
                                       "$t.rjust($j)",
                                       "$t.center($j, '*')",
                                       "$t.zfill($j)",
                                       "$t.swapcase()",
                                       "strftime_now('%d %B %Y, %H:%M')",
                                       "ns.text",
                                       "dict(a=$t, b=$a).a",
                                       "$t|string|list|join('-')",
                                       "$t.splitlines()|join('/')",
                                       "$t.splitlines(true)|list|string"};

}  // namespace

std::string TemplateGenerator::text(int depth) {
  if (depth <= 0) {
    switch (below(4)) {
      case 0:
        return literal();
      case 1:
        return variable(Type::kText, "s");
      case 2:
        return "s";
      default:
        return "t";
    }
  }
  if (!macros_.empty() && chance(8))
    return macros_[below(static_cast<uint32_t>(macros_.size()))] + "(" + text(depth - 1) +
           (chance(50) ? ", k=" + integer(depth - 1) : "") + ")";
  if (shared_) {
    return fill(kSharedText[below(std::size(kSharedText))], depth);
  }
  return fill(kPythonText[below(std::size(kPythonText))], depth);
}

std::string TemplateGenerator::integer(int depth) {
  if (depth <= 0) {
    switch (below(4)) {
      case 0:
        return std::to_string(below(12));
      case 1:
        return loops_ > 0 ? pick({"loop.index", "loop.index0", "loop.length", "loop.revindex", "loop.revindex0"}) : "n";
      case 2:
        return variable(Type::kInt, "n");
      default:
        return shared_ || chance(70) ? "n" : "-" + std::to_string(below(5));
    }
  }
  if (shared_) {
    return choose({"$i", "$i + $i", "($i - $i)", "$i * $i", "$t|length", "$T|length", "$I|length", "$D|length",
                   "($i if $b else $i)", "I0", "$R|length", "($i + 3) // 2", "d.count"},
                  depth);
  }
  return choose({"$i",
                 "$i + $i",
                 "($i - $i)",
                 "$i * $i",
                 "$i // $i",
                 "$i % 7",
                 "($i ** 2)",
                 "-$i",
                 "+$i",
                 "$t|length",
                 "$T|count",
                 "$I|length",
                 "$D|length",
                 "($i if $b else $i)",
                 "$I[$i]",
                 "$I|sum",
                 "$I|first",
                 "$I|last",
                 "$I|max",
                 "$I|min",
                 "$t.count($q)",
                 "$t.find($t)",
                 "$t.rfind($q)",
                 "$i|abs",
                 "$t|int",
                 "$t|int($i)",
                 "$n|int",
                 "$b|int",
                 "$R|map(attribute='size')|sum",
                 "$R|sum(attribute='size')",
                 "($R|last).size",
                 "nested.a.b[0]",
                 "nested['a'].b.0",
                 "$I.index($i)",
                 "$T.count($t)",
                 "$i + $b",
                 "ns.count",
                 "$n // 1",
                 "$n|round|int",
                 "0x1F",
                 "1_000",
                 "($i,)|length",
                 "range($j)|length",
                 "$I|length - 1"},
                depth);
}

std::string TemplateGenerator::number(int depth) {
  if (depth <= 0) return pick({"f", "2.5", "0.1", "1e3", "-3.75", "n", "1e-7", "123456789.125"});
  return choose({"$n + $n", "$n * $i", "$i / 4", "$n - $n", "$n|round(1)", "$n|round", "$n|round(2, 'floor')",
                 "$n|round(1, 'ceil')", "$n|abs", "$n % 3", "$n // 2", "$t|float", "$i|float", "$n ** 2", "-$n",
                 "$n|int", "$n|float"},
                depth);
}

std::string TemplateGenerator::any(int depth) {
  switch (below(shared_ ? 3 : 14)) {
    case 0:
      return text(depth);
    case 1:
      return integer(depth);
    case 2:
      return shared_ ? text(depth) : boolean(depth);
    case 3:
      return boolean(depth);
    case 4:
      return texts(depth);
    case 5:
      return ints(depth);
    case 6:
      return rows(depth);
    case 7:
      return dict(depth);
    case 8:
      return "z";
    case 9:
      return chance(30) ? "u" : "f";
    case 10:
      return number(depth);
    case 11:
      return "(" + any(depth - 1 > 0 ? depth - 1 : 0) + ",)";
    case 12:
      return depth > 0 ? choose({"$D.items()", "$D.keys()", "$D.values()", "range($j)", "$D|items|list", "$D|dictsort",
                                 "$D|dictsort(by='key', reverse=true)", "nested"},
                                depth)
                       : "nested";
    default:
      return text(depth);
  }
}

std::string TemplateGenerator::expression(Type type, int depth) {
  switch (type) {
    case Type::kText:
      return text(depth);
    case Type::kInt:
      return integer(depth);
    case Type::kBool:
      return boolean(depth);
    case Type::kTexts:
      return texts(depth);
    case Type::kInts:
      return ints(depth);
    case Type::kRows:
      return rows(depth);
    case Type::kDict:
      return dict(depth);
  }
  return "''";
}

}  // namespace boreas
