// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a counter-based
// generator, so a draw depends on its key and counter alone, never on how many draws came before. Sampling, dummy
// weights and tests all use it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace boreas {

struct Philox4x32 {
  // 10 rounds over a 128-bit counter with a 64-bit key.
  static constexpr std::array<uint32_t, 4> generate(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
    for (int i = 0; i < 10; ++i) {
      round(counter[0], counter[1], counter[2], counter[3], key);
      bump(key);
    }
    return counter;
  }
  // The same for many counters at once: words[w][i] is word w of counter i, and then of its result.
  template <size_t kCount>
  static constexpr void generate(std::array<std::array<uint32_t, kCount>, 4>& words, std::array<uint32_t, 2> key) {
    for (int i = 0; i < 10; ++i) {
      for (size_t k = 0; k < kCount; ++k) round(words[0][k], words[1][k], words[2][k], words[3][k], key);
      bump(key);
    }
  }

 private:
  static constexpr void round(uint32_t& c0, uint32_t& c1, uint32_t& c2, uint32_t& c3,
                              const std::array<uint32_t, 2>& key) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * c0, product1 = uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ key[0];
    c1 = static_cast<uint32_t>(product1);
    c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ key[1];
    c3 = static_cast<uint32_t>(product0);
  }
  static constexpr void bump(std::array<uint32_t, 2>& key) {
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
};

// A plain sequential stream over Philox for tests and data generators: same seed, same sequence, on every machine.
class Prng {
 public:
  explicit Prng(uint64_t seed) : seed_(seed) {}

  uint32_t next_u32() {
    if (used_ == 4) {
      block_ = Philox4x32::generate({static_cast<uint32_t>(counter_), static_cast<uint32_t>(counter_ >> 32), 0, 0},
                                    {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
      ++counter_;
      used_ = 0;
    }
    return block_[static_cast<size_t>(used_++)];
  }
  uint64_t next_u64() {
    const uint64_t high = next_u32();
    return high << 32 | next_u32();
  }
  // Uniform in [0, bound), bound > 0; the bias of the multiply method is below 2^-32.
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(uint64_t{next_u32()} * bound >> 32); }
  // Uniform in [low, high], both included.
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next_u64() % static_cast<uint64_t>(high - low + 1));
  }
  // Uniform in [0, 1) with 24 bits.
  float uniform() { return static_cast<float>(next_u32() >> 8) * 0x1p-24f; }

 private:
  uint64_t seed_;
  uint64_t counter_ = 0;
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
};

// FNV-1a, 64 bit: stable keys from names.
constexpr uint64_t fnv1a_64(const char* text, uint64_t length) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (uint64_t i = 0; i < length; ++i) hash = (hash ^ static_cast<uint8_t>(text[i])) * 0x100000001b3ull;
  return hash;
}

}  // namespace boreas
