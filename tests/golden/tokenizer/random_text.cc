// See random_text.h. Only characters assigned before Unicode 14 are drawn: what came later is classified differently by
// libraries of different age.
#include "random_text.h"

#include <array>
#include <string_view>

namespace boreas {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

constexpr Range kLetters[] = {
    {'a', 'z'},         {'A', 'Z'},         {0xC0, 0x24F},      {0x391, 0x3C9},   {0x400, 0x481},   {0x5D0, 0x5EA},
    {0x620, 0x64A},     {0x904, 0x939},     {0xE01, 0xE30},     {0x10A0, 0x10C5}, {0x1100, 0x1112}, {0x1161, 0x1175},
    {0x11A8, 0x11C2},   {0x1E00, 0x1EFF},   {0x1F80, 0x1FAF},   {0x2C00, 0x2C2E}, {0x3041, 0x3096}, {0x30A1, 0x30FA},
    {0x4E00, 0x9FA5},   {0xAC00, 0xD7A3},   {0xF900, 0xFA6D},   {0xFB00, 0xFB06}, {0xFF21, 0xFF5A}, {0x10400, 0x1044F},
    {0x1D400, 0x1D454}, {0x20000, 0x2A6D6}, {0x2F800, 0x2FA1D}, {0x24B6, 0x24E9},
};
constexpr Range kMarks[] = {{0x300, 0x36F},   {0x483, 0x489},   {0x591, 0x5BD},    {0x64B, 0x65F},   {0x93E, 0x94D},
                            {0xE31, 0xE31},   {0xE34, 0xE3A},   {0x1AB0, 0x1ABD},  {0x20D0, 0x20F0}, {0x3099, 0x309A},
                            {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0x1D165, 0x1D169}};
constexpr Range kNumbers[] = {{'0', '9'},       {'0', '9'},       {'0', '9'},         {0x660, 0x669},
                              {0x966, 0x96F},   {0xFF10, 0xFF19}, {0x1D7CE, 0x1D7FF}, {0xB2, 0xB3},
                              {0xB9, 0xB9},     {0xBC, 0xBE},     {0x2070, 0x2079},   {0x2150, 0x2189},
                              {0x2460, 0x249B}, {0x3007, 0x3007}, {0x3021, 0x3029},   {0x10140, 0x10178}};
constexpr Range kSymbols[] = {{0x21, 0x2F},       {0x3A, 0x40},       {0x5B, 0x60},       {0x7B, 0x7E},
                              {0xA1, 0xBF},       {0x2010, 0x2027},   {0x203F, 0x2040},   {0x20A0, 0x20BF},
                              {0x2190, 0x22FF},   {0x2500, 0x257F},   {0x2600, 0x27BF},   {0x3001, 0x3020},
                              {0xFF01, 0xFF0F},   {0x1F300, 0x1F64F}, {0x1F680, 0x1F6C5}, {0x1F1E6, 0x1F1FF},
                              {0x1F3FB, 0x1F3FF}, {0xE000, 0xE010},   {0xFFF9, 0xFFFD},   {0x200B, 0x200F}};
constexpr std::array<char32_t, 20> kSpaces = {' ',  ' ',  ' ',    '\n',   '\r',   '\t',   '\n',   ' ',    0x0B,   0x0C,
                                              0x85, 0xA0, 0x1680, 0x180E, 0x2003, 0x2028, 0x2029, 0x202F, 0x3000, 0x1C};
constexpr std::array<std::string_view, 24> kWords = {"'s",          "'S",
                                                     "'re",         "'LL",
                                                     "'\u017F",     "n't",
                                                     "the",         " the",
                                                     "    return ", "\r\n",
                                                     "\n\n\n",      "_",
                                                     "/*",          "//",
                                                     "{};",         "0xFF",
                                                     "1e-5",        "1,234",
                                                     "12\u00BD",    "HTMLParser",
                                                     "\u200D",      "\U0001F469\u200D\U0001F52C",
                                                     "K\u212A",     "e\u0301\u0327"};

template <size_t N>
char32_t pick(Prng& prng, const Range (&ranges)[N]) {
  const Range& range = ranges[prng.below(N)];
  return static_cast<char32_t>(prng.between(range.first, range.last));
}

template <size_t N>
void append_run(Prng& prng, const Range (&ranges)[N], uint32_t length_max, std::string& out) {
  const Range& range = ranges[prng.below(N)];
  for (uint32_t left = 1 + prng.below(length_max); left > 0; --left) {
    append_utf8(static_cast<char32_t>(prng.between(range.first, range.last)), out);
  }
}

void append_marker(Prng& prng, const std::vector<std::string>& markers, std::string& out) {
  const std::string& marker = markers[prng.below(static_cast<uint32_t>(markers.size()))];
  // Cut at ASCII only, so that the result stays UTF-8.
  size_t begin = prng.below(4) == 0 ? prng.below(static_cast<uint32_t>(marker.size())) : 0;
  size_t end = prng.below(4) == 0 ? prng.below(static_cast<uint32_t>(marker.size())) : marker.size();
  while (begin > 0 && static_cast<unsigned char>(marker[begin]) >= 0x80) --begin;
  while (end < marker.size() && static_cast<unsigned char>(marker[end]) >= 0x80) ++end;
  if (begin > 0 && static_cast<unsigned char>(marker[begin - 1]) >= 0x80) begin = 0;
  if (end > begin) out += marker.substr(begin, end - begin);
}

void append_part(Prng& prng, const std::vector<std::string>& markers, std::string& out) {
  switch (prng.below(markers.empty() ? 11 : 13)) {
    case 0:
    case 1:
      return append_run(prng, kLetters, 8, out);
    case 2:
      return append_utf8(pick(prng, kLetters), out);
    case 3:
      return append_run(prng, kNumbers, 12, out);
    case 4:
      return append_utf8(pick(prng, kNumbers), out);
    case 5:
      return append_run(prng, kMarks, 3, out);
    case 6:
      return append_run(prng, kSymbols, 4, out);
    case 7:
      return append_utf8(kSpaces[prng.below(kSpaces.size())], out);
    case 8:
      out.append(1 + prng.below(9), prng.below(3) == 0 ? '\n' : ' ');
      return;
    case 9:
    case 10:
      out += kWords[prng.below(kWords.size())];
      return;
    default:
      append_marker(prng, markers, out);
  }
}

}  // namespace

void append_utf8(char32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

std::string random_text(Prng& prng, const std::vector<std::string>& markers, uint32_t parts_max) {
  std::string out;
  for (uint32_t parts = 1 + prng.below(parts_max); parts > 0; --parts) append_part(prng, markers, out);
  return out;
}

}  // namespace boreas
