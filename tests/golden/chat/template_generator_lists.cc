// Booleans, lists and dicts of TemplateGenerator.
#include "template_generator.h"

#include <iterator>

namespace boreas {

namespace {

constexpr const char* kSharedBoolean[] = {"$b and $b",        "$b or $b",         "not $b",         "($b)",
                                          "$i == $i",         "$i < $i",          "$i >= $i",       "$t == $t",
                                          "$t != $q",         "$q in $t",         "$q in $T",       "$q not in $t",
                                          "'k' in $D",        "u is defined",     "($t) is string", "($D) is mapping",
                                          "u is not defined", "z is none",        "($i) is number", "$t.startswith($q)",
                                          "$t.endswith($q)",  "($T) is iterable", "($b) is true",   "R0.flag",
                                          "($i) is odd",      "($b) == ($b)"};
constexpr const char* kPythonBoolean[] = {"$b and $b",
                                          "$b or $b",
                                          "not $b",
                                          "($b)",
                                          "$i == $i",
                                          "$i < $i",
                                          "$i >= $n",
                                          "$i < $i <= $i",
                                          "$t == $t",
                                          "$t != $q",
                                          "$t < $t",
                                          "$a == $a",
                                          "$q in $t",
                                          "$t in $T",
                                          "$q not in $t",
                                          "$t in $D",
                                          "$i in $I",
                                          "$i in ($i, $i)",
                                          "u is defined",
                                          "u is undefined",
                                          "$a is string",
                                          "$a is mapping",
                                          "$a is none",
                                          "$a is number",
                                          "$a is integer",
                                          "$a is float",
                                          "$a is boolean",
                                          "$a is sequence",
                                          "$a is iterable",
                                          "$a is true",
                                          "$a is false",
                                          "$a is not none",
                                          "$i is odd",
                                          "$i is even",
                                          "$i is divisibleby 3",
                                          "$i is divisibleby($j)",
                                          "$t.startswith($q)",
                                          "$t.endswith(($q, $q))",
                                          "$t.startswith($q, 1)",
                                          "$t.isdigit()",
                                          "$t.isalpha()",
                                          "$t.isspace()",
                                          "$t.isupper()",
                                          "$t.islower()",
                                          "$t.isalnum()",
                                          "$t is lower",
                                          "$t is upper",
                                          "$a is eq $a",
                                          "$a is equalto($a)",
                                          "$t is in $T",
                                          "$i is gt 3",
                                          "$i is le($i)",
                                          "$a is sameas true",
                                          "$a is callable",
                                          "'upper' is filter",
                                          "'odd' is test",
                                          "$R[0].flag",
                                          "u == u2",
                                          "not u",
                                          "$T == $T",
                                          "$I < $I",
                                          "$D == $D",
                                          "$D.items is defined",
                                          "$T is ne $T",
                                          "($R|first) is mapping"};

}  // namespace

std::string TemplateGenerator::boolean(int depth) {
  if (depth <= 0) {
    switch (below(3)) {
      case 0:
        return pick({"true", "false"});
      case 1:
        return loops_ > 0 ? pick({"loop.first", "loop.last"}) : "b";
      default:
        return variable(Type::kBool, "b");
    }
  }
  if (shared_) {
    return fill(kSharedBoolean[below(std::size(kSharedBoolean))], depth);
  }
  return fill(kPythonBoolean[below(std::size(kPythonBoolean))], depth);
}

std::string TemplateGenerator::texts(int depth) {
  if (depth <= 0) return chance(50) ? variable(Type::kTexts, "ys") : "ys";
  if (shared_) {
    return choose(
        {"$T", "[$t, $t]", "[$q, $q, $q]", "($T + $T)", "$T|sort", "$T|list", "$t.split(',')", "($T if $b else $T)",
         "$R|map(attribute='name')|list", "ys[1:]", "ys[:2]", "ys[::-1]", "($T|reverse|list)"},
        depth);
  }
  return choose({"$T",
                 "[$t, $t]",
                 "[$t, $q, $t,]",
                 "($t, $t)|list",
                 "[]",
                 "$T + $T",
                 "$T[$i:]",
                 "$T[:$i]",
                 "$T[::-1]",
                 "$T[::2]",
                 "$T|sort",
                 "$T|sort(reverse=true)",
                 "$T|sort(case_sensitive=true)",
                 "$T|unique|list",
                 "$T|reverse|list",
                 "$T|list",
                 "$t|list",
                 "$t.split($q)",
                 "$t.split()",
                 "$t.splitlines()",
                 "$T|map('upper')|list",
                 "$T|map('replace', 'a', $q)|list",
                 "$T|map('trim')|list",
                 "$T|select|list",
                 "$T|select('ne', $t)|list",
                 "$T|reject('==', $q)|list",
                 "$T|reject('in', $T)|list",
                 "$R|map(attribute='name')|list",
                 "$R|selectattr('flag')|map(attribute='name')|list",
                 "$D.keys()|list",
                 "$D|list",
                 "($T if $b else $T)",
                 "$T * 2",
                 "$D|dictsort|map('first')|list",
                 "$T|map('length')|map('string')|list"},
                depth);
}

std::string TemplateGenerator::ints(int depth) {
  if (depth <= 0) return chance(50) ? variable(Type::kInts, "xs") : "xs";
  if (shared_)
    return choose({"$I", "[$i, $i, $i]", "$I + $I", "range(4)|list", "range(1, 5)|list", "xs[1:]", "($I if $b else $I)",
                   "$I|list", "[5, 3, 9]|sort"},
                  depth);
  return choose({"$I",
                 "[$i, $i, $i]",
                 "[]",
                 "$I + $I",
                 "range($j)|list",
                 "range($i, $i)|list",
                 "range(10, $i, -3)|list",
                 "$I[$i:]",
                 "$I[1:-1]",
                 "$I|sort",
                 "$I|sort(reverse=true)",
                 "$I|unique|list",
                 "$I|reverse|list",
                 "$I|select('odd')|list",
                 "$I|reject('gt', $i)|list",
                 "$R|map(attribute='size')|list",
                 "$I|map('abs')|list",
                 "($I if $b else $I)",
                 "range($j)",
                 "range($j)[1:]|list",
                 "$R|map(attribute='nope', default=$i)|list",
                 "$t|map('int')|list"},
                depth);
}

std::string TemplateGenerator::rows(int depth) {
  if (depth <= 0 || chance(30)) return variable(Type::kRows, "rows");
  if (shared_)
    return choose({"rows", "rows[1:]", "rows + [{'name': $t, 'size': $i, 'flag': $b}]", "$R|selectattr('flag')|list",
                   "($R if $b else $R)", "$R|selectattr('name', 'equalto', $q)|list"},
                  depth);
  return choose(
      {"$R", "$R[:$j]", "$R + [{'name': $t, 'size': $i, 'flag': $b}]", "[{'name': $t, 'size': $i, 'flag': $b}]",
       "$R|selectattr('flag')|list", "$R|rejectattr('flag')|list", "$R|selectattr('size', 'gt', $i)|list",
       "$R|selectattr('name', 'equalto', $t)|list", "$R|sort(attribute='size')", "$R|sort(attribute='flag,name')",
       "$R|reverse|list", "$R|unique(attribute='flag')|list", "$R|rejectattr('name', 'in', $T)|list"},
      depth);
}

std::string TemplateGenerator::dict(int depth) {
  if (depth <= 0 || chance(30)) return variable(Type::kDict, "d");
  if (shared_)
    return choose({"d", "{'k': $t, 'x': $i}", "rows[0]", "{}", "{'k': $T, 'y': {'z': $b}}", "nested.a"}, depth);
  return choose({"d", "{'k': $t, 'x': $a}", "rows[0]", "{}", "{$t: $a}", "nested.a", "nested['a']",
                 "{1: $a, true: $a, 'k': z, 2.5: $a}", "dict($D, k=$t)", "dict(x=$a)", "($D if $b else $D)",
                 "{'k': $D, 'l': $T}", "($R|first)"},
                depth);
}

}  // namespace boreas
