// Bounded reading of small files (read_file.h).
#include "model/read_file.h"

#include <filesystem>
#include <fstream>
#include <system_error>

namespace boreas {

Result<std::string> read_text_file(const std::string& path, int64_t bytes_max) {
  std::error_code code;
  const std::filesystem::file_status status = std::filesystem::status(path, code);
  if (!std::filesystem::exists(status)) return Error{path + " does not exist"};
  // A pipe or device could block or never end.
  if (!std::filesystem::is_regular_file(status)) return Error{path + " is not a regular file"};
  const uintmax_t bytes = std::filesystem::file_size(path, code);
  if (code) return Error{path + ": " + code.message()};
  if (bytes > static_cast<uintmax_t>(bytes_max)) {
    return Error{path + " has " + std::to_string(bytes) + " bytes; expected at most " + std::to_string(bytes_max)};
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<size_t>(bytes), '\0');
  file.read(text.data(), static_cast<std::streamsize>(bytes));
  if (!file) return Error{path + " cannot be read"};
  return text;
}

}  // namespace boreas
