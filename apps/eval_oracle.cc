// read_oracle_folder (eval_likelihood.h): logits that tools/make_golden/likelihood.py wrote, a file a text.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <utility>

#include "eval_likelihood.h"
#include "eval_score.h"

namespace boreas {

namespace json = boost::json;

namespace {

constexpr uintmax_t kIndexBytesMax = uintmax_t{1} << 28;

Result<std::map<std::string, std::vector<TokenId>>> read_index(const std::string& file, int32_t vocab_size) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(file, error);
  if (error || bytes > kIndexBytesMax) return Error{"cannot read " + file, "oracle"};
  std::stringstream content;
  content << std::ifstream(file, std::ios::binary).rdbuf();
  const std::optional<json::value> parsed = parse_json(content.str());
  const json::object* root = parsed ? parsed->if_object() : nullptr;
  const json::value* vocab = root ? root->if_contains("vocab_size") : nullptr;
  if (!vocab || !vocab->is_int64() || vocab->get_int64() != vocab_size) {
    return Error{file + ": 'vocab_size' must be the model's, " + std::to_string(vocab_size), "vocab_size"};
  }
  const json::value* list = root->if_contains("texts");
  if (!list || !list->is_array()) return Error{file + ": 'texts' must be a list", "texts"};
  std::map<std::string, std::vector<TokenId>> texts;
  for (const json::value& entry : list->get_array()) {
    const json::object* text = entry.if_object();
    const json::value* id = text ? text->if_contains("id") : nullptr;
    const json::value* tokens = text ? text->if_contains("tokens") : nullptr;
    if (!id || !id->is_string() || !tokens || !tokens->is_array()) {
      return Error{file + ": every text must have an 'id' and 'tokens'", "texts"};
    }
    std::vector<TokenId>& ids = texts[std::string(id->get_string())];
    for (const json::value& token : tokens->get_array()) {
      ids.push_back(token.is_int64() ? static_cast<TokenId>(token.get_int64()) : -1);
    }
  }
  return texts;
}

Result<std::vector<float>> read_logits(const std::string& file, size_t count) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(file, error);
  if (error) return Error{"cannot read " + file + ": " + error.message(), "oracle"};
  if (bytes != count * sizeof(float)) {
    return Error{file + " has " + std::to_string(bytes) + " bytes, expected " + std::to_string(count * sizeof(float)),
                 "oracle"};
  }
  std::vector<float> logits(count);
  std::ifstream stream(file, std::ios::binary);
  stream.read(reinterpret_cast<char*>(logits.data()), static_cast<std::streamsize>(bytes));
  if (!stream) return Error{"cannot read " + file, "oracle"};
  for (const float logit : logits) {
    if (!std::isfinite(logit)) return Error{file + " holds a logit that is no number", "oracle"};
  }
  return logits;
}

}  // namespace

Result<Oracle> read_oracle_folder(const std::string& folder, int32_t vocab_size) {
  ASSIGN_OR_RETURN(auto read, read_index(folder + "/index.json", vocab_size));
  const auto texts = std::make_shared<const std::map<std::string, std::vector<TokenId>>>(std::move(read));
  return Oracle([folder, vocab_size, texts](const ScoredText& text) -> Result<std::vector<float>> {
    const auto found = texts->find(text.id);
    if (found == texts->end()) return Error{folder + " has no logits of " + text.id, "oracle"};
    if (found->second != text.tokens || text.id.find('/') != std::string::npos) {
      return Error{folder + ": the logits of " + text.id + " are of other tokens than the text has", "oracle"};
    }
    return read_logits(folder + "/" + text.id + ".f32", text.tokens.size() * static_cast<size_t>(vocab_size));
  });
}

}  // namespace boreas
