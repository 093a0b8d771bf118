// Finding the weight files of a checkpoint (weight_files.h).
#include "model/weight_files.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>

#include "model/config_reader.h"
#include "model/quote.h"
#include "model/read_file.h"

namespace boreas {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kIndexBytesMax = 16 << 20;  // the published index has 1.7 MB
constexpr size_t kFilesMax = 4096;
constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";

bool file_exists(const std::string& path) {
  std::error_code code;
  return fs::exists(path, code);
}

bool ends_with(std::string_view text, std::string_view ending) {
  return text.size() >= ending.size() && text.substr(text.size() - ending.size()) == ending;
}

// A shard is a file of this very directory: no separators, no "..", nothing hidden.
bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name.front() != '.' && ends_with(name, ".safetensors") &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 127 && c != '/' && c != '\\'; });
}

Result<WeightFiles> read_index(const std::string& directory) {
  const std::string path = directory + "/" + kIndexFile;
  ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kIndexBytesMax));
  ASSIGN_OR_RETURN(const boost::json::object object, parse_json_object(text, path));
  const boost::json::value* map = object.if_contains("weight_map");
  if (map == nullptr || !map->is_object()) return Error{path + ": weight_map is missing or no object", "weight_map"};
  std::map<std::string, size_t> shards;
  for (const auto& entry : map->get_object()) {
    if (!entry.value().is_string()) {
      return Error{path + ": weight_map gives " + describe_json(entry.value()) + " for tensor " +
                   quote({entry.key().data(), entry.key().size()}) + "; expected a file name"};
    }
    const std::string shard(entry.value().get_string().data(), entry.value().get_string().size());
    if (!is_plain_file_name(shard)) {
      return Error{path + ": weight_map names the file " + quote(shard) +
                   "; expected a plain .safetensors file name in the same directory"};
    }
    shards.emplace(shard, 0);
    if (shards.size() > kFilesMax) {
      return Error{path + ": weight_map names more than " + std::to_string(kFilesMax) + " files"};
    }
  }
  WeightFiles files;
  for (auto& [name, position] : shards) {
    if (!file_exists(directory + "/" + name)) {
      return Error{directory + "/" + name + " is missing; " + kIndexFile + " names " + std::to_string(shards.size()) +
                   " weight files (is the download complete?)"};
    }
    position = files.names.size();
    files.names.push_back(name);
  }
  for (const auto& entry : map->get_object()) {
    const std::string shard(entry.value().get_string().data(), entry.value().get_string().size());
    files.index.emplace(std::string(entry.key().data(), entry.key().size()), shards.at(shard));
  }
  return files;
}

// No file with a standard name: worker-*.safetensors, or an error that says what is there instead.
Result<WeightFiles> read_other(const std::string& directory) {
  WeightFiles files;
  std::string other;
  std::error_code code;
  for (fs::directory_iterator entry(directory, code), end; !code && entry != end; entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    if (name.substr(0, 7) == "worker-" && is_plain_file_name(name)) files.names.push_back(name);
    if (ends_with(name, ".gguf") || ends_with(name, ".bin") || ends_with(name, ".pt")) other = name;
    if (files.names.size() > kFilesMax) return Error{directory + " holds more weight files than can be right"};
  }
  if (code) return Error{directory + ": " + code.message()};
  std::sort(files.names.begin(), files.names.end());
  if (!files.names.empty()) return files;
  return Error{directory + " holds no weights: expected " + kSingleFile + " or " + kIndexFile +
               (other.empty() ? "" : "; " + quote(other) + " is in a format that is not supported")};
}

}  // namespace

Result<WeightFiles> find_weight_files(const std::string& directory) {
  if (file_exists(directory + "/" + kSingleFile)) return WeightFiles{{kSingleFile}, {}};
  if (file_exists(directory + "/" + kIndexFile)) return read_index(directory);
  return read_other(directory);
}

}  // namespace boreas
