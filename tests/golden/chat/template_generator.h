// Random small templates over the grammar that the Jinja engine supports, with random variables to render them with:
// same seed, same case. Most render; some fail on purpose or by chance (a missing key, a wrong type), which every
// engine must notice as well.
#pragma once

#include <string>
#include <vector>

#include "base/prng.h"
#include "oracle.h"

namespace boreas {

enum class Grammar {
  kPython,  // everything the engine supports, held against Jinja2
  kShared,  // what Jinja2 and @huggingface/jinja understand alike, held against both (the list of what is left out is
            // in template_generator.cc)
};

class TemplateGenerator {
 public:
  TemplateGenerator(uint64_t seed, Grammar grammar) : prng_(seed), shared_(grammar == Grammar::kShared) {}
  OracleCase run();

 private:
  enum class Type { kText, kInt, kBool, kTexts, kInts, kRows, kDict };
  struct Variable {
    std::string name;
    Type type;
  };

  uint32_t below(uint32_t bound) { return prng_.below(bound); }
  bool chance(uint32_t percent) { return below(100) < percent; }
  std::string pick(std::initializer_list<const char*> options) {
    return options.begin()[below(static_cast<uint32_t>(options.size()))];
  }
  // One of the lines; the templates name sub-expressions: $t text, $i int, $b bool, $T texts, $I ints, $R rows, $D
  // dict, $n number, $a any, $q literal text, $p a separator, $j a small whole number.
  std::string choose(std::initializer_list<const char*> lines, int depth);
  std::string fill(const char* line, int depth);

  std::string any(int depth);
  std::string expression(Type type, int depth);
  std::string text(int depth);
  std::string integer(int depth);
  std::string boolean(int depth);
  std::string texts(int depth);
  std::string ints(int depth);
  std::string rows(int depth);
  std::string dict(int depth);
  std::string number(int depth);
  std::string variable(Type type, const char* otherwise);
  std::string literal();

  std::string body(int depth);
  std::string statement(int depth);
  std::string tag(const std::string& inner);
  std::string print(const std::string& inner);
  std::string data();
  std::string if_block(int depth);
  std::string for_block(int depth);
  std::string set_block(int depth);
  std::string macro_block(int depth);
  std::string scoped_block(int depth);
  std::string fresh() { return "v" + std::to_string(next_name_++); }

  boost::json::object variables();
  std::string random_text();

  Prng prng_;
  const bool shared_;
  std::vector<Variable> visible_;
  std::vector<std::string> macros_;  // of one text parameter and one int parameter with default
  int next_name_ = 0;
  int loops_ = 0;
  bool in_macro_ = false;
};

}  // namespace boreas
