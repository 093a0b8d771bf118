#include "tests/gpu/oracle_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json.hpp>

#include "model/read_file.h"

namespace boreas {
namespace {

namespace json = boost::json;

constexpr int64_t kManifestBytesMax = int64_t{64} << 20;
constexpr int64_t kFormat = 1;

struct MappedFile {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};

Result<MappedFile> map_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat about {};
  if (file < 0 || ::fstat(file, &about) != 0 || about.st_size == 0) {
    if (file >= 0) ::close(file);
    return Error{path + " cannot be opened, or is empty"};
  }
  const size_t size = static_cast<size_t>(about.st_size);
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) return Error{path + " cannot be mapped"};
  MappedFile mapped;
  mapped.owner = std::shared_ptr<const void>(memory, [size](const void* at) { ::munmap(const_cast<void*>(at), size); });
  mapped.bytes = {static_cast<const std::byte*>(memory), size};
  return mapped;
}

// Maps folder/<run>.<array> as `count` elements.
template <class T>
Status map_array(const std::string& folder, const std::string& array, int64_t count, OracleRun& run,
                 std::span<const T>& out) {
  const std::string path = folder + "/" + run.name + "." + array;
  ASSIGN_OR_RETURN(const MappedFile file, map_file(path));
  const size_t wanted = static_cast<size_t>(count) * sizeof(T);
  if (file.bytes.size() != wanted)
    return Error{path + " has " + std::to_string(file.bytes.size()) + " bytes, expected " + std::to_string(wanted)};
  out = {reinterpret_cast<const T*>(file.bytes.data()), static_cast<size_t>(count)};
  run.files.push_back(file.owner);
  return Ok{};
}

Result<OracleRun> open_run(const std::string& folder, const ModelConfig& config, const json::object& entry) {
  OracleRun run;
  run.name = std::string(entry.at("name").as_string());
  run.context = static_cast<int32_t>(entry.at("context").as_int64());
  for (const json::value& token : entry.at("tokens").as_array())
    run.tokens.push_back(static_cast<TokenId>(token.as_int64()));
  for (const TokenId token : run.tokens)
    if (token < 0 || token >= config.vocab_size) return Error{run.name + ": token " + std::to_string(token)};
  const int64_t rows = int64_t{config.layer_count()} * static_cast<int64_t>(run.tokens.size());
  RETURN_IF_ERROR(map_array(folder, "inputs", rows * config.hidden_size, run, run.inputs));
  RETURN_IF_ERROR(map_array(folder, "attention", rows * config.hidden_size, run, run.attention));
  RETURN_IF_ERROR(map_array(folder, "mlp", rows * config.hidden_size, run, run.mlp));
  RETURN_IF_ERROR(map_array(folder, "router", rows * config.experts, run, run.router));
  RETURN_IF_ERROR(map_array(folder, "routes", rows * config.experts_per_token, run, run.routes));
  return run;
}

Result<OracleFiles> read_manifest(const std::string& folder, const json::object& manifest) {
  OracleFiles files;
  if (manifest.at("format").as_int64() != kFormat)
    return Error{"manifest.json: format is not " + std::to_string(kFormat)};
  files.shape = std::string(manifest.at("shape").as_string());
  files.made_by = json::serialize(manifest.at("made_by"));
  ASSIGN_OR_RETURN(const ModelConfig config, model_shape(files.shape));
  const std::pair<const char*, int64_t> numbers[] = {{"layers", config.layer_count()},
                                                     {"hidden", config.hidden_size},
                                                     {"experts", config.experts},
                                                     {"experts_per_token", config.experts_per_token},
                                                     {"window", config.window}};
  for (const auto& [name, wanted] : numbers)
    if (manifest.at(name).as_int64() != wanted)
      return Error{std::string("manifest.json: ") + name + " is not " + std::to_string(wanted)};
  for (const json::value& entry : manifest.at("runs").as_array()) {
    ASSIGN_OR_RETURN(OracleRun run, open_run(folder, config, entry.as_object()));
    files.runs.push_back(std::move(run));
  }
  return files;
}

}  // namespace

Result<OracleFiles> open_oracle_files(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::string text, read_text_file(folder + "/manifest.json", kManifestBytesMax));
  try {
    return read_manifest(folder, json::parse(text).as_object());
  } catch (const std::exception& error) {
    return Error{folder + "/manifest.json: " + error.what()};
  }
}

}  // namespace boreas
