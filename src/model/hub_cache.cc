// A model argument -> a directory: a directory is itself, "org/name" is looked up in the local Hugging Face cache.
// Nothing is ever downloaded. Cache layout (huggingface_hub): models--org--name/refs/main holds a revision, whose files
// are in models--org--name/snapshots/<revision>. Called through the door (model.h).
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "model/model.h"
#include "model/quote.h"
#include "model/read_file.h"

namespace boreas {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRefBytesMax = 256;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// "~/x" -> "$HOME/x", as huggingface_hub expands these variables.
std::string expand_home(const std::string& path) {
  return !path.empty() && path[0] == '~' && (path.size() == 1 || path[1] == '/') ? environment("HOME") + path.substr(1)
                                                                                 : path;
}

std::string hub_cache_directory() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string path = environment(name); !path.empty()) return expand_home(path);
  }
  if (const std::string home = environment("HF_HOME"); !home.empty()) return expand_home(home) + "/hub";
  const std::string cache = environment("XDG_CACHE_HOME");
  return (cache.empty() ? environment("HOME") + "/.cache" : expand_home(cache)) + "/huggingface/hub";
}

bool is_repo_part(std::string_view part) {
  const bool characters = std::all_of(part.begin(), part.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  });
  return characters && !part.empty() && part.size() <= 96 && part.front() != '.' && part.front() != '-' &&
         part.find("..") == std::string_view::npos && part.find("--") == std::string_view::npos;
}

// "org/name", the only form a Hub id of a model has here.
bool is_hub_id(std::string_view argument) {
  const size_t slash = argument.find('/');
  return slash != std::string_view::npos && is_repo_part(argument.substr(0, slash)) &&
         is_repo_part(argument.substr(slash + 1));
}

std::string trimmed(const std::string& text) {
  const size_t end = text.find_last_not_of(" \t\r\n");
  return end == std::string::npos ? "" : text.substr(0, end + 1);
}

bool is_directory(const std::string& path) {
  std::error_code code;
  return fs::is_directory(path, code);
}

Result<std::string> resolve_hub_id(const std::string& id) {
  const size_t slash = id.find('/');
  const std::string cache = hub_cache_directory();
  const std::string repo = cache + "/models--" + id.substr(0, slash) + "--" + id.substr(slash + 1);
  const std::string command = "download it with:  hf download " + id;
  if (!is_directory(repo)) return Error{"model " + id + " is not in the Hugging Face cache " + cache + "; " + command};
  const Result<std::string> ref = read_text_file(repo + "/refs/main", kRefBytesMax);
  if (!ref.ok()) return Error{"model " + id + ": " + ref.error().message + "; " + command};
  const std::string revision = trimmed(*ref);
  if (!is_repo_part(revision)) {
    return Error{"model " + id + ": " + repo + "/refs/main holds " + quote(revision) + "; expected a revision; " +
                 command};
  }
  const std::string snapshot = repo + "/snapshots/" + revision;
  std::error_code code;
  if (!fs::exists(snapshot + "/config.json", code)) {
    return Error{"model " + id + ": " + snapshot + "/config.json does not exist, the download is incomplete; " +
                 command};
  }
  return snapshot;
}

}  // namespace

Result<std::string> resolve_model_directory(const std::string& model_argument) {
  if (model_argument.empty()) return Error{"the model argument is empty; expected a directory or a Hub id org/name"};
  if (is_directory(model_argument)) return model_argument;
  std::error_code code;
  if (fs::exists(model_argument, code)) {
    return Error{quote(model_argument) + " is a file; expected a directory with config.json and weights"};
  }
  if (is_hub_id(model_argument)) return resolve_hub_id(model_argument);
  return Error{quote(model_argument) + " is neither a directory nor a Hub id of the form org/name"};
}

}  // namespace boreas
