// The reader of golden_file.h: golden.json for names and tokens, golden.safetensors for numbers.
#include "tests/golden/golden_file.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <unordered_map>

#include "model/safetensors.h"
#include "tests/golden/golden_checkpoint.h"

namespace boreas {
namespace {

std::filesystem::path family_folder(const std::string& family) {
  return std::filesystem::path(BOREAS_SOURCE_DIR) / "tests" / "golden" / family;
}

std::vector<TokenId> read_tokens(const boost::json::value& list) {
  std::vector<TokenId> tokens;
  for (const boost::json::value& token : list.as_array()) tokens.push_back(token.to_number<TokenId>());
  return tokens;
}

}  // namespace

struct GoldenCase::File {
  std::shared_ptr<const SafetensorsFile> mapped;
  std::unordered_map<std::string, const SafetensorsEntry*> entries;
};

std::vector<std::string> GoldenCase::names(const std::string& family) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(family_folder(family))) {
    if (std::filesystem::exists(entry.path() / "golden.json")) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<GoldenCase> GoldenCase::load(const std::string& family, const std::string& name) {
  const std::filesystem::path folder = family_folder(family) / name;
  std::ifstream stream(folder / "golden.json");
  if (!stream) return Error{(folder / "golden.json").string() + " cannot be read"};
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const boost::json::object manifest = boost::json::parse(text).as_object();

  GoldenCase result;
  result.name_ = name;
  ASSIGN_OR_RETURN(result.model_, load_golden_model(folder.string(), text));
  auto file = std::make_shared<File>();
  ASSIGN_OR_RETURN(file->mapped, SafetensorsFile::open((folder / "golden.safetensors").string()));
  for (const SafetensorsEntry& entry : file->mapped->entries()) file->entries[entry.name] = &entry;
  result.file_ = file;

  for (const boost::json::value& value : manifest.at("sequences").as_array()) {
    const boost::json::object& sequence = value.as_object();
    result.sequences_.push_back({.name = std::string(sequence.at("name").as_string()),
                                 .tokens = read_tokens(sequence.at("tokens")),
                                 .first_logits = sequence.at("first_logits").to_number<int64_t>(),
                                 .decode_from = sequence.at("decode_from").to_number<int64_t>()});
  }
  if (const auto* greedy = manifest.if_contains("greedy")) {
    result.greedy_ = {.prompt = read_tokens(greedy->at("prompt")), .tokens = read_tokens(greedy->at("tokens"))};
  }
  if (const auto* per_layer = manifest.if_contains("per_layer")) result.per_layer_ = per_layer->as_string();
  if (!result.has("layer_scale")) return result;
  const GoldenTensor scales = result.tensor("layer_scale");
  for (int64_t i = 0; i < scales.rows; ++i) {
    const auto row = scales.row(i);
    result.scales_.push_back(
        {.input = row[0], .attention = row[1], .mlp = row[2], .residual = row[3], .score = row[4], .router = row[5]});
  }
  return result;
}

const GoldenSequence* GoldenCase::per_layer() const {
  for (const GoldenSequence& sequence : sequences_) {
    if (sequence.name == per_layer_) return &sequence;
  }
  return nullptr;
}

bool GoldenCase::has(const std::string& tensor) const { return file_->entries.count(tensor) != 0; }

GoldenTensor GoldenCase::tensor(const std::string& tensor) const {
  CHECK(has(tensor));
  const SafetensorsEntry& entry = *file_->entries.at(tensor);
  CHECK(entry.dtype == Dtype::kF32 || entry.dtype == Dtype::kBF16);
  CHECK(entry.shape.size() == 1 || entry.shape.size() == 2);
  GoldenTensor out;
  out.rows = entry.shape.size() == 2 ? entry.shape[0] : 1;
  out.cols = entry.shape.back();
  out.values.resize(static_cast<size_t>(out.rows * out.cols));
  const std::span<const uint8_t> bytes = file_->mapped->bytes(entry);
  if (entry.dtype == Dtype::kF32) {
    CHECK(bytes.size() == out.values.size() * sizeof(float));
    std::memcpy(out.values.data(), bytes.data(), bytes.size());
    return out;
  }
  std::vector<bf16> narrow(out.values.size());
  CHECK(bytes.size() == narrow.size() * sizeof(bf16));
  std::memcpy(narrow.data(), bytes.data(), bytes.size());
  std::transform(narrow.begin(), narrow.end(), out.values.begin(), bf16_to_float);
  return out;
}

}  // namespace boreas
