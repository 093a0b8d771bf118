// Random text that is hard on tokenizers: scripts, digits of all kinds, white space, marks, emoji, contractions and
// whole, cut and nested markers, mixed in one string. Test code only; a string depends on the generator's seed alone.
#pragma once

#include <string>
#include <vector>

#include "base/prng.h"

namespace boreas {

// Appends the UTF-8 of a scalar value.
void append_utf8(char32_t code_point, std::string& out);

// One string of up to `parts_max` parts (a part is 1 to about 12 characters). `markers`: contents of added tokens.
std::string random_text(Prng& prng, const std::vector<std::string>& markers, uint32_t parts_max);

}  // namespace boreas
