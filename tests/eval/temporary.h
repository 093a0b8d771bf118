// Names for files of a test that no other test, running beside it, has. What stands there is removed at the end.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

namespace boreas {

inline std::filesystem::path temporary(const std::string& name) {
  struct Made {
    std::vector<std::filesystem::path> paths;
    ~Made() {
      std::error_code error;
      for (const std::filesystem::path& path : paths) std::filesystem::remove_all(path, error);
    }
  };
  static Made made;
  made.paths.push_back(std::filesystem::path(testing::TempDir()) /
                       ("boreas-eval-" + std::to_string(::getpid()) + "-" + name));
  return made.paths.back();
}

}  // namespace boreas
