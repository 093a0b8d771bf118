// See bench_results.h.
#include "bench_results.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

namespace boreas {
namespace {

namespace json = boost::json;

constexpr size_t kFilesMax = 256;
constexpr uintmax_t kFileBytesMax = uintmax_t{64} << 20;
constexpr size_t kLineBytesMax = size_t{1} << 20;
constexpr size_t kTextMax = 120;
constexpr double kTokensMax = 1e9;

// One line of a file. Reads fields until one is wrong, and keeps what was.
class Fields {
 public:
  explicit Fields(const json::object& line) : line_(line) {}

  bool has(const char* field) const { return line_.contains(field); }
  const std::string& problem() const { return problem_; }

  std::string text(const char* field) {
    const json::value* value = line_.if_contains(field);
    if (value == nullptr || !value->is_string()) return fail_text(field);
    const std::string text(value->get_string().c_str(), value->get_string().size());
    const bool printable = std::none_of(text.begin(), text.end(),
                                        [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; });
    return text.empty() || text.size() > kTextMax || !printable ? fail_text(field) : text;
  }
  std::string text_if_any(const char* field) { return has(field) ? text(field) : std::string(); }
  double number(const char* field, double least, double most) {
    const json::value* value = line_.if_contains(field);
    const double number = value != nullptr && value->is_number() ? value->to_number<double>() : std::nan("");
    if (std::isfinite(number) && number >= least && number <= most) return number;
    char range[64];
    std::snprintf(range, sizeof range, " is no number from %g to %g", least, most);
    fail(field, range);
    return least;
  }
  int32_t count(const char* field, int32_t least, int32_t most) {
    const double value = number(field, least, most);
    if (value != std::floor(value)) fail(field, " is not whole");
    return static_cast<int32_t>(value);
  }
  bool flag(const char* field) {
    const json::value* value = line_.if_contains(field);
    if (value != nullptr && value->is_bool()) return value->get_bool();
    fail(field, " is neither true nor false");
    return false;
  }

 private:
  void fail(const char* field, const std::string& what) {
    if (!problem_.empty()) return;
    problem_ = field;
    problem_ += what;
  }
  std::string fail_text(const char* field) {
    fail(field, " is no text of 1 to " + std::to_string(kTextMax) + " characters");
    return {};
  }

  const json::object& line_;
  std::string problem_;
};

// Lines from before rows drew their tokens have no temperature, those before arms none of their fields.
bool is_comparable(Fields& fields) {
  for (const char* field : {"temperature", "top_p", "same_token", "model_shape"})
    if (!fields.has(field)) return false;
  return fields.number("temperature", 0, 10) == 1 && fields.number("top_p", 0, 1) == 1 && !fields.flag("same_token") &&
         fields.text("model_shape") == "north (dummy weights)";
}

RecordedDecode decode_of(Fields& fields) {
  RecordedDecode decode;
  decode.device = fields.text("device");
  decode.commit = fields.text("commit");
  decode.time = fields.text("time");
  decode.arm = fields.text("arm");
  decode.cut = fields.text_if_any("cut");
  decode.without = fields.text_if_any("without");
  decode.batch = fields.count("batch", 1, 4096);
  decode.context = fields.count("context", 1, 1 << 24);
  constexpr double kLeast = 1e-3;  // nothing that is divided by is 0
  decode.tok_s = fields.number("tok_s", kLeast, kTokensMax);
  decode.tok_s_min = fields.number("tok_s_min", kLeast, kTokensMax);
  decode.tok_s_max = fields.number("tok_s_max", kLeast, kTokensMax);
  decode.percent_of_limit = fields.number("percent_of_limit", 0, 200);
  decode.read_gb_s = fields.number("read_gb_s", kLeast, 1e6);
  if (!decode.without.empty()) decode.tok_s_with = fields.number("tok_s_with", kLeast, kTokensMax);
  return decode;
}

Status read_line(std::string_view text, std::vector<RecordedDecode>& out) {
  if (text.size() > kLineBytesMax) return Error{"longer than " + std::to_string(kLineBytesMax) + " bytes"};
  boost::system::error_code code;
  const json::value value = json::parse(json::string_view(text.data(), text.size()), code);
  if (code) return Error{"no JSON: " + code.message()};
  if (!value.is_object()) return Error{"no JSON object"};
  Fields fields(value.get_object());
  if (fields.has("bench") && fields.text("bench") == "decode" && is_comparable(fields)) {
    const RecordedDecode decode = decode_of(fields);
    if (fields.problem().empty()) out.push_back(decode);
  }
  if (!fields.problem().empty()) return Error{fields.problem()};
  return Ok{};
}

using Kind = std::tuple<bool, bool, std::string, std::string, std::string, int32_t, int32_t>;
Kind kind_of(const RecordedDecode& line) {
  return {line.arm != "megakernel", !line.without.empty(), line.arm, line.cut, line.without, line.batch, line.context};
}

// What an arm is compared with: the megakernel of the same commit that was measured last before it.
// H200s differ and commits do, so a newer line of another run is no yardstick.
double whole_beside(const std::vector<RecordedDecode>& lines, const RecordedDecode& arm) {
  const RecordedDecode* found = nullptr;
  for (const RecordedDecode& line : lines) {
    const bool same = line.is_whole() && line.device == arm.device && line.commit == arm.commit &&
                      line.batch == arm.batch && line.context == arm.context;
    if (same && line.time <= arm.time && (found == nullptr || line.time >= found->time)) found = &line;
  }
  return found == nullptr ? 0 : found->tok_s;
}

Result<std::string> chosen_device(const std::vector<RecordedDecode>& lines, const std::string& wanted) {
  std::map<std::string, int64_t> counts;
  for (const RecordedDecode& line : lines)
    if (line.device.find(wanted) != std::string::npos) ++counts[line.device];
  if (counts.empty())
    return Error{"no decode lines of North with made-up weights at temperature 1" +
                 (wanted.empty() ? std::string() : " on a device \"" + wanted + "\"")};
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (wanted.empty() || counts.size() == 1) return most->first;
  std::string names;
  for (const auto& [name, count] : counts) names += (names.empty() ? "\"" : ", \"") + name + "\"";
  return Error{"several devices fit \"" + wanted + "\": " + names};
}

}  // namespace

Status read_decode_lines(const std::string& name, std::string_view text, std::vector<RecordedDecode>& out) {
  int64_t number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty()) continue;
    const Status status = read_line(line, out);
    if (!status.ok()) return Error{name + ":" + std::to_string(number) + ": " + status.error().message};
  }
  return Ok{};
}

Result<std::vector<RecordedDecode>> read_results(const std::string& folder) {
  std::error_code code;
  std::set<std::filesystem::path> paths;
  for (std::filesystem::directory_iterator at(folder, code), end; !code && at != end; at.increment(code))
    if (at->path().extension() == ".ndjson") paths.insert(at->path());
  if (code) return Error{"cannot list " + folder + ": " + code.message()};
  if (paths.empty()) return Error{"no .ndjson file in " + folder};
  if (paths.size() > kFilesMax) return Error{folder + " has more than " + std::to_string(kFilesMax) + " .ndjson files"};
  std::vector<RecordedDecode> lines;
  for (const std::filesystem::path& path : paths) {
    const uintmax_t bytes = std::filesystem::file_size(path, code);
    if (code) return Error{"cannot read " + path.string() + ": " + code.message()};
    if (bytes > kFileBytesMax)
      return Error{path.string() + " is larger than " + std::to_string(kFileBytesMax) + " bytes"};
    std::string text(static_cast<size_t>(bytes), '\0');
    std::ifstream file(path, std::ios::binary);
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (!file) return Error{"cannot read " + path.string()};
    RETURN_IF_ERROR(read_decode_lines(path.string(), text, lines));
  }
  return lines;
}

Result<std::vector<RecordedDecode>> newest_of_device(const std::vector<RecordedDecode>& lines,
                                                     const std::string& device) {
  ASSIGN_OR_RETURN(const std::string name, chosen_device(lines, device));
  std::map<Kind, RecordedDecode> newest;
  for (const RecordedDecode& line : lines) {
    if (line.device != name) continue;
    RecordedDecode& kept = newest[kind_of(line)];
    if (line.time >= kept.time) kept = line;  // at equal times that further down
  }
  std::vector<RecordedDecode> chosen;
  for (const auto& [kind, line] : newest) {
    RecordedDecode& kept = chosen.emplace_back(line);
    if (!kept.is_whole() && kept.without.empty()) kept.tok_s_with = whole_beside(lines, kept);
  }
  return chosen;
}

}  // namespace boreas
