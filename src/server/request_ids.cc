#include "server/request_ids.h"

#include <sys/random.h>

#include <algorithm>

#include "base/check.h"

namespace boreas {

uint64_t random_u64() {
  uint64_t bits = 0;
  CHECK(::getrandom(&bits, sizeof(bits), 0) == static_cast<ssize_t>(sizeof(bits)));
  return bits;
}

std::string random_base62(size_t length) {
  constexpr char kDigits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::string out;
  uint64_t bits = 0;
  for (size_t i = 0; i < length; ++i) {
    // Eight digits of 64 bits: the bias of the remainder is below 2^-16.
    if (i % 8 == 0) bits = random_u64();
    out += kDigits[bits % 62];
    bits /= 62;
  }
  return out;
}

bool is_request_id(std::string_view text) {
  return !text.empty() && text.size() <= kRequestIdBytesMax &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

}  // namespace boreas
