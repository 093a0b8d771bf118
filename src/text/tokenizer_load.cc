// Tokenizer::load and ::parse: from the files of a checkpoint to an Impl. Everything in the files is checked; an error
// says which key or token is wrong and what was expected.
#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "text/tokenizer.h"
#include "text/tokenizer_impl.h"
#include "text/unicode.h"

namespace boreas {
namespace {

namespace json = boost::json;

constexpr uintmax_t kFileBytesMax = uintmax_t{512} << 20;
constexpr size_t kJsonDepthMax = 64;
constexpr int kNormalizerDepthMax = 4;
constexpr std::string_view kDefaultBos = "<BOS_TOKEN>";

Result<std::string> read_file(const std::filesystem::path& path) {
  std::error_code code;
  const uintmax_t bytes = std::filesystem::file_size(path, code);
  if (code) return Error{path.string() + ": " + code.message()};
  if (bytes > kFileBytesMax) {
    return Error{path.string() + ": " + std::to_string(bytes) + " bytes; at most " + std::to_string(kFileBytesMax)};
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{path.string() + ": " + std::strerror(errno)};
  std::string content(static_cast<size_t>(bytes), '\0');
  file.read(content.data(), static_cast<std::streamsize>(bytes));
  if (static_cast<uintmax_t>(file.gcount()) != bytes) return Error{path.string() + ": could not be read to its end"};
  return content;
}

Result<json::value> parse_json(std::string_view text, json::storage_ptr storage) {
  json::parse_options options;
  options.max_depth = kJsonDepthMax;
  boost::system::error_code code;
  json::value value = json::parse(json::string_view(text.data(), text.size()), code, std::move(storage), options);
  if (code) return Error{"not valid JSON: " + code.message()};
  if (!value.is_object()) return Error{"a JSON object is expected"};
  return value;
}

Error expected(const std::string& path, const std::string& what) {
  return Error{path + ": " + what + " is expected", path};
}

std::string dotted(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

Result<const json::object*> object_at(const json::object& object, std::string_view key, const std::string& path) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_object()) return expected(dotted(path, key), "an object");
  return &value->get_object();
}

Result<const json::array*> array_at(const json::object& object, std::string_view key, const std::string& path) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_array()) return expected(dotted(path, key), "an array");
  return &value->get_array();
}

Result<std::string_view> string_at(const json::object& object, std::string_view key, const std::string& path) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_string()) return expected(dotted(path, key), "a string");
  return std::string_view(value->get_string());
}

// Absent means false.
Result<bool> flag_at(const json::object& object, std::string_view key, const std::string& path) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr) return false;
  if (!value->is_bool()) return expected(dotted(path, key), "true or false");
  return value->get_bool();
}

Result<int64_t> integer_of(const json::value& value, const std::string& path) {
  if (value.is_int64()) return value.get_int64();
  if (value.is_uint64()) return std::numeric_limits<int64_t>::max();  // out of any range that follows
  return expected(path, "an integer");
}

// Options of the BPE model that must be off, where they are given at all.
Status check_model_options(const json::object& model) {
  ASSIGN_OR_RETURN(const std::string_view type, string_at(model, "type", "model"));
  if (type != "BPE") return Error{"model.type: '" + std::string(type) + "' is not supported, only BPE", "model.type"};
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix", "dropout", "byte_fallback"}) {
    const json::value* value = model.if_contains(key);
    if (value == nullptr || value->is_null()) continue;
    const bool off = (value->is_string() && value->get_string().empty()) || (value->is_bool() && !value->get_bool()) ||
                     (value->is_number() && value->to_number<double>() == 0.0);
    if (!off) return Error{dotted("model", key) + " is not supported", dotted("model", key)};
  }
  return Ok{};
}

Status read_vocabulary(const json::object& model, Vocabulary& vocabulary) {
  ASSIGN_OR_RETURN(const json::object* entries, object_at(model, "vocab", "model"));
  for (const auto& entry : *entries) {
    const std::string_view content(entry.key().data(), entry.key().size());
    if (!entry.value().is_int64()) {
      return Error{"model.vocab: the id of '" + std::string(content.substr(0, 64)) + "' is not an integer in range",
                   "model.vocab"};
    }
    const Status inserted = vocabulary.insert(content, entry.value().get_int64());
    if (!inserted.ok()) return Error{"model.vocab: " + inserted.error().message, "model.vocab"};
  }
  return Ok{};
}

Result<std::array<TokenId, 256>> byte_tokens(const Vocabulary& vocabulary) {
  std::array<TokenId, 256> tokens{};
  for (size_t byte = 0; byte < tokens.size(); ++byte) {
    const char symbol = static_cast<char>(byte);
    const auto id = vocabulary.find_bytes(std::string_view(&symbol, 1));
    if (!id) return Error{"model.vocab: the symbol of byte " + std::to_string(byte) + " is missing", "model.vocab"};
    tokens[byte] = *id;
  }
  return tokens;
}

struct MergeHalves {
  std::string_view left;
  std::string_view right;
};

// Both forms: "a b" and ["a", "b"].
Result<MergeHalves> merge_halves(const json::value& merge) {
  const Error error{"a string 'a b' or an array of two strings is expected"};
  if (merge.is_array()) {
    const json::array& pair = merge.get_array();
    if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) return error;
    return MergeHalves{pair[0].get_string(), pair[1].get_string()};
  }
  if (!merge.is_string()) return error;
  const std::string_view text = merge.get_string();
  const size_t blank = text.find(' ');
  if (blank == std::string_view::npos || text.find(' ', blank + 1) != std::string_view::npos) return error;
  return MergeHalves{text.substr(0, blank), text.substr(blank + 1)};
}

using Halves = boost::unordered_flat_map<TokenId, std::pair<TokenId, TokenId>>;

// Adds the merges to `bpe`; merged_from gets, for every token that merges make, the halves of its first merge.
Status read_merges(const json::object& model, const Vocabulary& vocabulary, Bpe& bpe, Halves& merged_from) {
  ASSIGN_OR_RETURN(const json::array* merges, array_at(model, "merges", "model"));
  bpe.reserve(merges->size());
  std::string content;
  for (size_t rank = 0; rank < merges->size(); ++rank) {
    const auto error = [rank](const std::string& what) {
      return Error{"model.merges." + std::to_string(rank) + ": " + what, "model.merges"};
    };
    const auto halves = merge_halves((*merges)[rank]);
    if (!halves.ok()) return error(halves.error().message);
    content = halves->left;
    content += halves->right;
    TokenId ids[3];
    size_t known = 0;
    for (const std::string_view name : {halves->left, halves->right, std::string_view(content)}) {
      const auto id = vocabulary.find_content(name);
      if (!id) return error("'" + std::string(name.substr(0, 64)) + "' is not in the vocabulary");
      ids[known++] = *id;
    }
    // Merging starts from byte symbols, so a token outside their alphabet is never met.
    if (!bytes_of_content(content)) continue;
    bpe.add_merge(ids[0], ids[1], static_cast<uint32_t>(rank), ids[2]);
    merged_from.try_emplace(ids[2], ids[0], ids[1]);
  }
  return Ok{};
}

Status read_added_token(const json::value& value, const std::string& path, Vocabulary& vocabulary) {
  if (!value.is_object()) return expected(path, "an object");
  const json::object& object = value.get_object();
  const json::value* id_value = object.if_contains("id");
  if (id_value == nullptr) return expected(dotted(path, "id"), "an integer");
  ASSIGN_OR_RETURN(const int64_t id, integer_of(*id_value, dotted(path, "id")));
  AddedToken token;
  // An id that does not even fit the type is as wrong as a negative one.
  token.id = id >= 0 && id < kTokenIdLimit ? static_cast<TokenId>(id) : -1;
  ASSIGN_OR_RETURN(token.content, string_at(object, "content", path));
  if (token.content.size() > AddedTokenMatcher::kPatternBytesMax) {
    return Error{
        dotted(path, "content") + ": longer than " + std::to_string(AddedTokenMatcher::kPatternBytesMax) + " bytes",
        path};
  }
  ASSIGN_OR_RETURN(token.special, flag_at(object, "special", path));
  ASSIGN_OR_RETURN(token.normalized, flag_at(object, "normalized", path));
  ASSIGN_OR_RETURN(token.lstrip, flag_at(object, "lstrip", path));
  ASSIGN_OR_RETURN(token.rstrip, flag_at(object, "rstrip", path));
  ASSIGN_OR_RETURN(token.single_word, flag_at(object, "single_word", path));
  const Status inserted = vocabulary.insert_added(std::move(token));
  if (!inserted.ok()) return Error{path + ": " + inserted.error().message, path};
  return Ok{};
}

Status read_added_tokens(const json::object& root, Vocabulary& vocabulary) {
  const json::value* value = root.if_contains("added_tokens");
  if (value == nullptr || value->is_null()) return Ok{};
  ASSIGN_OR_RETURN(const json::array* tokens, array_at(root, "added_tokens", ""));
  for (size_t i = 0; i < tokens->size(); ++i) {
    RETURN_IF_ERROR(read_added_token((*tokens)[i], "added_tokens." + std::to_string(i), vocabulary));
  }
  return Ok{};
}

// True: NFC; false: none.
Result<bool> read_normalizer(const json::value& value, const std::string& path, int depth) {
  if (value.is_null()) return false;
  if (!value.is_object()) return expected(path, "an object or null");
  const json::object& object = value.get_object();
  ASSIGN_OR_RETURN(const std::string_view type, string_at(object, "type", path));
  if (type == "NFC") return true;
  if (type != "Sequence") return Error{path + ": normalizer '" + std::string(type) + "' is not supported", path};
  if (depth == kNormalizerDepthMax) return Error{path + ": Sequences are nested too deep", path};
  ASSIGN_OR_RETURN(const json::array* list, array_at(object, "normalizers", path));
  bool any = false;
  for (size_t i = 0; i < list->size(); ++i) {
    ASSIGN_OR_RETURN(const bool one,
                     read_normalizer((*list)[i], path + ".normalizers." + std::to_string(i), depth + 1));
    any = any || one;
  }
  return any;
}

Status check_decoder(const json::object& root) {
  ASSIGN_OR_RETURN(const json::object* decoder, object_at(root, "decoder", ""));
  ASSIGN_OR_RETURN(const std::string_view type, string_at(*decoder, "type", "decoder"));
  if (type != "ByteLevel") {
    return Error{"decoder: '" + std::string(type) + "' is not supported, only ByteLevel", "decoder"};
  }
  return Ok{};
}

void fill_matchers(Tokenizer::Impl& impl) {
  for (const AddedToken& token : impl.vocabulary.added_tokens()) {
    if (!token.normalized) {
      impl.added_raw.insert(token.content, &token);
    } else {
      impl.added_normalized.insert(impl.normalize_nfc ? nfc(token.content) : token.content, &token);
    }
  }
}

// What the caller may change before the tokenizer becomes immutable.
Result<std::shared_ptr<Tokenizer::Impl>> build(std::string_view tokenizer_json) {
  json::monotonic_resource arena;
  ASSIGN_OR_RETURN(const json::value root_value, parse_json(tokenizer_json, &arena));
  const json::object& root = root_value.get_object();
  ASSIGN_OR_RETURN(const json::object* model, object_at(root, "model", ""));
  RETURN_IF_ERROR(check_model_options(*model));
  Vocabulary vocabulary;
  RETURN_IF_ERROR(read_vocabulary(*model, vocabulary));
  ASSIGN_OR_RETURN(const auto bytes, byte_tokens(vocabulary));
  Bpe bpe(bytes);
  Halves merged_from;
  RETURN_IF_ERROR(read_merges(*model, vocabulary, bpe, merged_from));
  RETURN_IF_ERROR(read_added_tokens(root, vocabulary));
  RETURN_IF_ERROR(check_decoder(root));
  const json::value* pre_tokenizer = root.if_contains("pre_tokenizer");
  if (pre_tokenizer == nullptr) return expected("pre_tokenizer", "an object");
  ASSIGN_OR_RETURN(PreTokenizer splitter, PreTokenizer::from_json(*pre_tokenizer));

  auto impl = std::make_shared<Tokenizer::Impl>(std::move(vocabulary), std::move(bpe), std::move(splitter));
  ASSIGN_OR_RETURN(impl->ignore_merges, flag_at(*model, "ignore_merges", "model"));
  if (const json::value* normalizer = root.if_contains("normalizer")) {
    ASSIGN_OR_RETURN(impl->normalize_nfc, read_normalizer(*normalizer, "normalizer", 0));
  }
  for (const AddedToken& token : impl->vocabulary.added_tokens()) {
    const auto halves = merged_from.find(token.id);
    if (halves != merged_from.end()) impl->merged_from.insert(*halves);
  }
  fill_matchers(*impl);
  impl->bos = impl->vocabulary.find_content(kDefaultBos);
  return impl;
}

Status check_required(const Tokenizer& tokenizer, std::span<const std::string_view> required) {
  for (const std::string_view name : required) {
    const auto id = tokenizer.token_id(name);
    if (!id) return Error{"token '" + std::string(name) + "' is missing"};
    ASSIGN_OR_RETURN(const std::vector<TokenId> ids, tokenizer.encode(name, {}));
    if (ids != std::vector<TokenId>{*id}) {
      return Error{"token '" + std::string(name) + "' is in the vocabulary, but its text encodes to " +
                   std::to_string(ids.size()) + " tokens"};
    }
  }
  return Ok{};
}

// A token named in tokenizer_config.json, as a string or as an object with `content`. Absent: `otherwise`; null: none.
Result<std::optional<TokenId>> named_token(const json::object& config, std::string_view key,
                                           const Vocabulary& vocabulary, std::optional<TokenId> otherwise) {
  const json::value* value = config.if_contains(key);
  if (value == nullptr) return otherwise;
  if (value->is_null()) return std::optional<TokenId>();
  if (const json::object* object = value->if_object()) {
    value = object->if_contains("content");
  }
  if (value == nullptr || !value->is_string()) return expected(std::string(key), "a string, null or an AddedToken");
  const std::string_view name = value->get_string();
  const auto id = vocabulary.find_content(name);
  if (!id)
    return Error{std::string(key) + ": token '" + std::string(name.substr(0, 64)) + "' is missing", std::string(key)};
  return id;
}

Status read_config(const std::filesystem::path& path, Tokenizer::Impl& impl) {
  ASSIGN_OR_RETURN(const std::string text, read_file(path));
  ASSIGN_OR_RETURN(const json::value value, parse_json(text, {}));
  const json::object& config = value.get_object();
  ASSIGN_OR_RETURN(impl.bos, named_token(config, "bos_token", impl.vocabulary, impl.bos));
  ASSIGN_OR_RETURN(impl.eos, named_token(config, "eos_token", impl.vocabulary, std::nullopt));
  return Ok{};
}

}  // namespace

Result<Tokenizer> Tokenizer::parse(std::string_view tokenizer_json, std::span<const std::string_view> required) {
  ASSIGN_OR_RETURN(std::shared_ptr<Impl> impl, build(tokenizer_json));
  Tokenizer tokenizer(std::move(impl));
  RETURN_IF_ERROR(check_required(tokenizer, required));
  return tokenizer;
}

Result<Tokenizer> Tokenizer::load(const std::string& directory, std::span<const std::string_view> required) {
  const auto path = std::filesystem::path(directory) / "tokenizer.json";
  ASSIGN_OR_RETURN(const std::string text, read_file(path));
  auto built = build(text);
  if (!built.ok()) return Error{path.string() + ": " + built.error().message, built.error().param};
  std::shared_ptr<Impl> impl = std::move(built).value();
  const auto config_path = std::filesystem::path(directory) / "tokenizer_config.json";
  std::error_code code;
  if (std::filesystem::exists(config_path, code)) {
    const Status read = read_config(config_path, *impl);
    if (!read.ok()) return Error{config_path.string() + ": " + read.error().message, read.error().param};
  }
  Tokenizer tokenizer(std::move(impl));
  const Status complete = check_required(tokenizer, required);
  if (!complete.ok()) return Error{path.string() + ": " + complete.error().message};
  return tokenizer;
}

}  // namespace boreas
