// Random names: of requests ("chatcmpl-..."), of tool calls, seeds. Called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace boreas {

constexpr size_t kRequestIdBytesMax = 128;

uint64_t random_u64();  // from the system's generator
std::string random_base62(size_t length);
// Printable ASCII without blanks, 1 to kRequestIdBytesMax bytes.
bool is_request_id(std::string_view text);

}  // namespace boreas
