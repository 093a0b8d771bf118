// The texts of bench_serve_workload.h: sentences from patterns with places for words and numbers, until there are
// enough.
#include <array>
#include <string>

#include "bench_serve_workload.h"

namespace boreas {

namespace {

// In a pattern {n} is a number, {v} a variable, {t} a thing, {a} a property, {d} something to do, {f} a name in code,
// {p} a path of a file, {w} a word of a document.
constexpr std::array kVariables = {"a", "b", "c", "k", "m", "n", "p", "q", "r", "s", "t", "x", "y", "z"};
constexpr std::array kThings = {"sequence", "triangle", "graph",    "matrix",   "polynomial", "circle",   "network",
                                "grid",     "lattice",  "membrane", "orbit",    "reaction",   "spectrum", "queue",
                                "tree",     "string",   "field",    "particle", "interval",   "protein",  "circuit",
                                "surface",  "crystal",  "market",   "channel",  "gas",        "solvent",  "archive"};
constexpr std::array kProperties = {"positive",   "symmetric", "regular",  "connected", "stable", "periodic", "convex",
                                    "reduced",    "weighted",  "isolated", "thermal",   "dense",  "sparse",   "ordered",
                                    "reversible", "closed",    "bounded",  "coupled",   "finite", "uniform",  "rare"};
constexpr std::array kDeeds = {"counts", "bounds",   "divides", "maximises", "describes", "separates", "preserves",
                               "shifts", "encloses", "visits",  "absorbs",   "follows",   "replaces",  "measures"};
constexpr std::array kNames = {"load_rows", "update_state", "total", "merge_pages", "step",   "residual", "parse_line",
                               "weights",   "find_edge",    "queue", "normalise",   "buffer", "offset",   "apply_mask"};
constexpr std::array kPaths = {"src/store/index.py", "src/net/session.py",   "lib/units.py",   "tests/test_index.py",
                               "app/main.py",        "src/store/journal.py", "docs/format.md", "tools/report.py"};
constexpr std::array kWords = {"council",  "harbour",  "survey",  "budget",   "engineer", "river",   "contract",
                               "estimate", "winter",   "bridge",  "delivery", "record",   "village", "committee",
                               "proposal", "measures", "quality", "railway",  "energy",   "storage", "minutes"};

constexpr std::array kMaths = {"Let {v} and {v} be {a} integers with {v} + {n}{v} = {n}.",
                               "A {a} {t} has {n} vertices, and each of them lies at distance {n} from the {t}.",
                               "For every {v} the value of {v}^2 - {n}{v} + {n} {d} exactly {n} of them.",
                               "No two of the {n} points that the {t} {d} have the same remainder modulo {n}.",
                               "Suppose that {v}({n}) = {n} and {v}({v} + 1) = {v}({v}) + {n}{v} for all {v} >= {n}."};
constexpr std::array kScience = {
    "The {a} {t} is kept in an array `{f}` of shape ({v}, {n}) in units of {n} nm.",
    "Write a function `{f}({v}, {v}, {f})` that {d} the {a} {t} and returns an array of {n} floats.",
    "Integrate d{v}/dt = -{n} {v} + {f}({v}) with steps of 1e-{n} until the {t} is {a}.",
    "The boundary of the {t} is {a}; raise ValueError where {v} < {n}.",
    "    for {v} in range({n}):\n        {f}[{v}] += {n} * {f}[{v} - 1]",
    "Use numpy only, and keep the {t} {a} to {n} digits."};
constexpr std::array kChoice = {
    "A {a} {t} {d} a {t} at {n} degrees while its {a} part stays below {n} percent.",
    "Observers note that the {t} {d} the {a} {t} only after {n} minutes.",
    "Assume that the {a} {t} and the {a} {t} do not touch, and that {n} of {n} samples are {a}.",
    "In an earlier trial with {n} of them, the {t} was {a} in every case but {n}."};
constexpr std::array kContest = {
    "You are given a {a} {t} with {v} nodes numbered from 1 to {v} and {n} queries of the form ({v}, {v}).",
    "The first line holds {v} (1 <= {v} <= {n}00000), the next {v} lines hold two integers each.",
    "A query asks how often the {a} {t} {d} the {t} between positions {v} and {v}, modulo {n}.",
    "It is guaranteed that the sum of {v} over all tests is at most {n}00000.",
    "Example: for the input `{n} {n} {n}` the output is `{n}`, since the {t} {d} {n} of them.",
    "The time limit is {n} seconds, the memory limit {n} megabytes."};
constexpr std::array kGraduate = {
    "Consider a {a} {t} in a {a} potential whose ground state lies {n} meV below the {t}.",
    "The {t} is treated with {n} equivalents of a {a} reagent at {n} K, which {d} the {a} {t}.",
    "To first order in {v}/{v} the {a} {t} {d} the {t} with a rate of {n} per second.",
    "Neglect terms beyond order {n} and assume that the {t} is {a} on the scale of {v}."};
constexpr std::array kAgent = {"The function `{f}` in {p} {d} the {t} twice when `{f}` is {a}.",
                               "{p}:{n}: AssertionError: {f} returned {n}, expected {n}",
                               "    def {f}(self, {v}, {v}={n}):\n        return self.{f}[{v}] - {n}",
                               "Keep {p} as it is, do not rename `{f}`, and run the tests of {p} afterwards.",
                               "{p} {n} lines, last changed {n} days ago by the {t} team"};
constexpr std::array kDocument = {
    "In section {n} the {w} reports that the {a} {w} of the {w} came to {n} thousand, {n} more than in the year "
    "before.",
    "The {w} asked the {w} for a {w} of the {w}, which is to be {a} before the {w} begins.",
    "A {w} who was there for {n} years said that the {w} never saw the {a} {w}.",
    "Under item {n} the {w} and the {w} agreed to keep the {a} {w} until the next {w}."};

struct Frame {
  std::span<const char* const> sentences;
  const char* opening;
  const char* closing;
  const char* separator;
};

Frame frame_of(TextKind kind) {
  switch (kind) {
    case TextKind::kMaths:
      return {kMaths, "", "Find the number of such {t}s and give the answer as an integer from 0 to 999.", " "};
    case TextKind::kScience:
      return {kScience, "Complete the following program on a {a} {t}.\n", "Return the whole program in one block.",
              "\n"};
    case TextKind::kChoice:
      return {
          kChoice, "",
          "Which statement follows?\nA) The {t} is {a}.\nB) The {t} {d} the {t}.\nC) At least {n} are {a}.\nD) None "
          "is {a}.\nThink step by step, then answer with one letter.",
          " "};
    case TextKind::kContest:
      return {kContest, "", "Write a program in Python that reads the input and prints one line a query.", "\n"};
    case TextKind::kGraduate:
      return {kGraduate, "", "Derive the shift of the {a} {t} and state every approximation you make.", " "};
    case TextKind::kAgent:
      return {kAgent, "", "", "\n"};
    case TextKind::kDocument:
      return {kDocument, "Here are the papers of case {n}{n}{n}.\n", "What do the papers say about section {n}?", " "};
  }
  return {};
}

template <class Words>
const char* pick(const Words& words, Prng& prng) {
  return words[prng.below(static_cast<uint32_t>(words.size()))];
}

std::string place(char what, Prng& prng) {
  switch (what) {
    case 'n':
      return std::to_string(prng.between(2, 99));
    case 'v':
      return pick(kVariables, prng);
    case 't':
      return pick(kThings, prng);
    case 'a':
      return pick(kProperties, prng);
    case 'd':
      return pick(kDeeds, prng);
    case 'f':
      return pick(kNames, prng);
    case 'p':
      return pick(kPaths, prng);
    default:
      return pick(kWords, prng);
  }
}

std::string fill(std::string_view pattern, Prng& prng) {
  std::string text;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '{' && i + 2 < pattern.size() && pattern[i + 2] == '}') {
      text += place(pattern[i + 1], prng);
      i += 2;
    } else {
      text += pattern[i];
    }
  }
  return text;
}

}  // namespace

int64_t count_words(std::string_view text) {
  int64_t words = 0;
  bool inside = false;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\n';
    words += !space && !inside ? 1 : 0;
    inside = !space;
  }
  return words;
}

std::string make_text(TextKind kind, int64_t words, Prng& prng) {
  const Frame frame = frame_of(kind);
  std::string text = fill(frame.opening, prng);
  const std::string closing = fill(frame.closing, prng);
  int64_t left = words - count_words(text) - count_words(closing);
  while (left > 0) {
    std::string sentence = fill(pick(frame.sentences, prng), prng);
    const int64_t length = count_words(sentence);
    // The last one is cut where that comes nearer.
    for (int64_t excess = length - left; excess > 0; --excess) {
      const size_t cut = sentence.find_last_not_of(" \n", sentence.find_last_of(" \n"));
      if (cut == std::string::npos) break;
      sentence.resize(cut + 1);
    }
    text += sentence + frame.separator;
    left -= length;
  }
  return text + closing;
}

}  // namespace boreas
