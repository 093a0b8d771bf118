// Model arguments: directories, and Hub ids in a cache built by the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/checkpoint_fixture.h"

namespace boreas {
namespace {

using testing::HasSubstr;

// Sets or clears environment variables and puts the old values back.
class Environment {
 public:
  ~Environment() {
    for (const auto& [name, value] : saved_) {
      if (value.empty()) {
        ::unsetenv(name.c_str());
      } else {
        ::setenv(name.c_str(), value.c_str(), 1);
      }
    }
  }
  void set(const std::string& name, const std::string& value) {
    const char* old = std::getenv(name.c_str());
    saved_.emplace_back(name, old == nullptr ? "" : old);
    ::setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  std::vector<std::pair<std::string, std::string>> saved_;
};

class HubCache : public testing::Test {
 protected:
  HubCache() {
    for (const char* name : {"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"}) {
      environment_.set(name, "");
    }
    environment_.set("HOME", home_.path());
  }
  // A repository with one snapshot under <cache>; returns the snapshot's directory.
  static std::string add_repository(const std::string& cache, const std::string& revision = "abc123") {
    const std::string repo = cache + "/models--Org--North.1";
    std::filesystem::create_directories(repo + "/refs");
    std::filesystem::create_directories(repo + "/snapshots/" + revision);
    write_file(repo + "/refs/main", revision);
    write_file(repo + "/snapshots/" + revision + "/config.json", "{}");
    return repo + "/snapshots/" + revision;
  }
  static std::string error(const std::string& argument) {
    const Result<std::string> result = resolve_model_directory(argument);
    EXPECT_FALSE(result.ok());
    return result.ok() ? "" : result.error().message;
  }

  TempDirectory home_;
  Environment environment_;
};

TEST_F(HubCache, ADirectoryIsItself) { EXPECT_EQ(*resolve_model_directory(home_.path()), home_.path()); }

TEST_F(HubCache, FindsTheMainRevisionInEveryPlace) {
  const std::string at_home = add_repository(home_ / ".cache/huggingface/hub");
  EXPECT_EQ(*resolve_model_directory("Org/North.1"), at_home);
  const std::string in_xdg = add_repository(home_ / "xdg/huggingface/hub");
  environment_.set("XDG_CACHE_HOME", home_ / "xdg");
  EXPECT_EQ(*resolve_model_directory("Org/North.1"), in_xdg);
  const std::string in_hf_home = add_repository(home_ / "hf/hub");
  environment_.set("HF_HOME", home_ / "hf");
  EXPECT_EQ(*resolve_model_directory("Org/North.1"), in_hf_home);
  const std::string in_old = add_repository(home_ / "old");
  environment_.set("HUGGINGFACE_HUB_CACHE", "~/old");
  EXPECT_EQ(*resolve_model_directory("Org/North.1"), in_old);
  const std::string in_cache = add_repository(home_ / "cache", "rev2");
  environment_.set("HF_HUB_CACHE", home_ / "cache");
  EXPECT_EQ(*resolve_model_directory("Org/North.1"), in_cache);
}

TEST_F(HubCache, AbsentModelsNameTheCommand) {
  EXPECT_THAT(error("CohereLabs/North-Mini-Code-1.0"), HasSubstr("hf download CohereLabs/North-Mini-Code-1.0"));
  EXPECT_THAT(error("CohereLabs/North-Mini-Code-1.0"), HasSubstr(home_ / ".cache/huggingface/hub"));
  const std::string snapshot = add_repository(home_ / ".cache/huggingface/hub");
  std::filesystem::remove(snapshot + "/config.json");
  EXPECT_THAT(error("Org/North.1"),
              HasSubstr("the download is incomplete; download it with:  hf download Org/North.1"));
  std::filesystem::remove(home_ / ".cache/huggingface/hub/models--Org--North.1/refs/main");
  EXPECT_THAT(error("Org/North.1"), HasSubstr("hf download Org/North.1"));
}

TEST_F(HubCache, HostileArgumentsAndRefsAreRefused) {
  for (const char* argument : {"../no-such-place", "a/../b", "a/b/c", "a//b", "/no/such/place", "a/..", "a/b c", "-x/y",
                               "plain", "a/b\n", "a--b/c"}) {
    EXPECT_THAT(error(argument), HasSubstr("neither a directory nor a Hub id")) << argument;
  }
  EXPECT_THAT(error(""), HasSubstr("empty"));
  write_file(home_ / "file", "x");
  EXPECT_THAT(error(home_ / "file"), HasSubstr("is a file; expected a directory"));
  add_repository(home_ / ".cache/huggingface/hub");
  write_file(home_ / ".cache/huggingface/hub/models--Org--North.1/refs/main", "../../../etc");
  EXPECT_THAT(error("Org/North.1"), HasSubstr("expected a revision"));
  write_file(home_ / ".cache/huggingface/hub/models--Org--North.1/refs/main", std::string(5000, 'a'));
  EXPECT_THAT(error("Org/North.1"), HasSubstr("expected at most"));
  write_file(home_ / ".cache/huggingface/hub/models--Org--North.1/refs/main", "abc123\n");
  EXPECT_TRUE(resolve_model_directory("Org/North.1").ok());
}

}  // namespace
}  // namespace boreas
