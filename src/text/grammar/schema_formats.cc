// Regular expressions for `format` (schema_reader.h). Each describes a subset of what the format allows that every
// validator accepts: dates that exist, host names of at most eight labels, addresses without quotes.
#include <algorithm>
#include <string>
#include <utility>

#include "text/grammar/schema_reader.h"

namespace boreas::grammar {

namespace {

using Text = std::string;

// 29 February only in years that a four divides and a hundred does not.
const Text kDate =
    R"((\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8])))"
    R"(|\d\d(0[48]|[2468][048]|[13579][26])-02-29))";
const Text kTime = R"(([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d))";
const Text kHostLabel = "[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?";
const Text kHost = kHostLabel + "(\\." + kHostLabel + "){0,7}";
const Text kEmail = "[A-Za-z0-9_+-]{1,32}(\\.[A-Za-z0-9_+-]{1,32}){0,3}@" + kHost;
const Text kOctet = "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const Text kIpv4 = "(" + kOctet + "\\.){3}" + kOctet;

// Eight groups, or fewer with one "::".
Text ipv6() {
  const Text group = "[0-9a-fA-F]{1,4}";
  Text out = "(" + group + ":){7}" + group + "|(" + group + ":){1,7}:|:((:" + group + "){1,7}|:)";
  for (int left = 1; left <= 6; ++left) {
    out += "|(" + group + ":){" + std::to_string(left) + "}(:" + group + "){1," + std::to_string(7 - left) + "}";
  }
  return out;
}

}  // namespace

std::optional<std::string_view> format_regex(std::string_view format) {
  static const std::pair<std::string_view, Text> kKnown[] = {
      {"date", kDate},
      {"time", kTime},
      {"date-time", kDate + "T" + kTime},
      {"uuid", "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
      {"email", kEmail},
      {"hostname", kHost},
      {"ipv4", kIpv4},
      {"ipv6", ipv6()},
      {"uri", R"([a-z][a-z0-9+.-]{0,15}://([A-Za-z0-9._~:/?#@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+)"},
  };
  const auto* found =
      std::find_if(std::begin(kKnown), std::end(kKnown), [&](const auto& entry) { return entry.first == format; });
  if (found == std::end(kKnown)) return std::nullopt;
  return found->second;
}

}  // namespace boreas::grammar
