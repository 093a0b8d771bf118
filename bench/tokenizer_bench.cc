// Speed of Tokenizer::encode on one core (Google Benchmark).
//   tokenizer_bench DIRECTORY FILE [Google Benchmark's flags]
// DIRECTORY holds a tokenizer.json, FILE is any UTF-8 text; bytes_per_second is the figure. Three benchmarks: the file
// as one text, the file in texts of 2 KB as chat messages come, and loading the tokenizer.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "text/tokenizer.h"
#include "text/unicode.h"

namespace {

void encode_all(benchmark::State& state, const boreas::Tokenizer& tokenizer, const std::vector<std::string>& texts) {
  size_t bytes = 0;
  size_t tokens = 0;
  for (auto _ : state) {
    for (const std::string& text : texts) {
      const auto ids = tokenizer.encode(text, {});
      if (!ids.ok()) return state.SkipWithError(ids.error().message.c_str());
      bytes += text.size();
      tokens += ids->size();
    }
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
  state.counters["bytes_per_token"] = static_cast<double>(bytes) / static_cast<double>(tokens);
}

// Cut at line ends, so that every part is UTF-8.
std::vector<std::string> in_parts(const std::string& text, size_t part_bytes) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.size() - begin > part_bytes ? text.find('\n', begin + part_bytes) : text.size();
    end = end == std::string::npos ? text.size() : end;
    parts.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return parts;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc != 3) {
    std::fprintf(stderr, "usage: tokenizer_bench DIRECTORY FILE [--benchmark_...]\n");
    return 2;
  }
  const std::string directory = argv[1];
  std::ifstream file(argv[2], std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto tokenizer = boreas::Tokenizer::load(directory);
  if (!tokenizer.ok() || text.empty()) {
    std::fprintf(stderr, "%s\n", tokenizer.ok() ? "the text is empty" : tokenizer.error().message.c_str());
    return 2;
  }
  benchmark::RegisterBenchmark("encode/whole", [&](benchmark::State& s) { encode_all(s, *tokenizer, {text}); });
  const auto parts = in_parts(text, 2048);
  benchmark::RegisterBenchmark("encode/2KB", [&](benchmark::State& s) { encode_all(s, *tokenizer, parts); });
  benchmark::RegisterBenchmark("load", [&](benchmark::State& s) {
    for (auto _ : s) benchmark::DoNotOptimize(boreas::Tokenizer::load(directory).ok());
  })->Unit(benchmark::kMillisecond);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
