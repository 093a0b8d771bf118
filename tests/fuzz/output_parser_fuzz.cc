// libFuzzer target of the output parser: any output, any options, any end, any cut into tokens give the same events,
// and every event is valid UTF-8. Run by `./check --full`. Input: two bytes of options, one for the end and the cut,
// then a script as output_parser_testing.h describes it.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/output_parser_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using boreas::OutputParser;
  if (bytes < 3) return 0;
  const std::string_view script(reinterpret_cast<const char*>(data) + 3, bytes - 3);
  const auto options = boreas::testing::options_of(data[0] | static_cast<uint32_t>(data[1]) << 8);
  constexpr OutputParser::End kEnds[] = {OutputParser::End::kStop, OutputParser::End::kLength,
                                         OutputParser::End::kAbort};
  const std::string wrong = boreas::testing::check_any_cut(script, options, kEnds[data[2] % 3], data[2]);
  if (!wrong.empty()) {
    std::fprintf(stderr, "%s\n", wrong.c_str());
    std::abort();
  }
  return 0;
}
