// Bulk generation of dummy weights (recipe: dummy_weights.h). On x86 with AVX2 (asked at run time) four Philox counters
// run side by side, everywhere else one after the other. All values are exact, so the bits are equal.
#include "model/dummy_weights.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "model/weight_loader.h"

namespace boreas {
namespace {

constexpr uint64_t kBlockElements = 16;
constexpr size_t kAlignBytes = 64;
constexpr uint64_t kPieceElements = uint64_t{1} << 20;
constexpr int64_t kProgressCallsMax = 100;

constexpr bf16 value_of_byte(int exponent, uint32_t byte) {
  if (exponent < 0) {
    const int k = static_cast<int>(byte * 49 >> 8) - 24;
    return float_to_bf16(static_cast<float>(128 + k) * 0x1p-9f);
  }
  const int s = static_cast<int8_t>(byte | 1u);
  return float_to_bf16(static_cast<float>(s) / static_cast<float>(1 << exponent));
}

using ByteTable = std::array<bf16, 256>;

ByteTable byte_table(WeightRole role) {
  ByteTable table{};
  for (uint32_t byte = 0; byte < 256; ++byte) table[byte] = value_of_byte(dummy_exponent(role), byte);
  return table;
}

// The recipe as it is written, one block after the other.
void fill_portable(uint64_t hash, const ByteTable& table, uint64_t block, std::span<bf16> out) {
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(hash), static_cast<uint32_t>(hash >> 32)};
  for (size_t at = 0; at < out.size(); at += kBlockElements, ++block) {
    const std::array<uint32_t, 4> words =
        Philox4x32::generate({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0}, key);
    const size_t count = std::min<size_t>(kBlockElements, out.size() - at);
    for (size_t i = 0; i < count; ++i) out[at + i] = table[words[i / 4] >> (8 * (i % 4)) & 255u];
  }
}

#if defined(__x86_64__)
constexpr size_t kLanes = 4;  // blocks side by side, one in each 64-bit lane

// 16 bytes of one block -> 16 values s * 2^-e, stored to `out` (any alignment). s has 7 bits, so the upper half of the
// fp32 value is exact.
[[gnu::target("avx2")]] inline void store_block(__m128i bytes, __m256 scale, bf16* out) {
  const __m128i odd = _mm_or_si128(bytes, _mm_set1_epi8(1));
  const __m256 low = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(odd)), scale);
  const __m256 high = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(odd, 8))), scale);
  const __m256i packed = _mm256_packus_epi32(_mm256_srli_epi32(_mm256_castps_si256(low), 16),
                                             _mm256_srli_epi32(_mm256_castps_si256(high), 16));
  // packus works within halves of 128 bits: put the four quarters back in order.
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_permute4x64_epi64(packed, 0xD8));
}

// Four Philox counters at a time; of each 64-bit lane only the low 32 bits count, which is what vpmuludq reads. Fills
// whole groups of kLanes blocks and returns how many elements that were.
[[gnu::target("avx2")]] size_t fill_avx2(uint64_t hash, int exponent, uint64_t block, std::span<bf16> out) {
  const __m256i multiplier0 = _mm256_set1_epi64x(0xD2511F53);
  const __m256i multiplier1 = _mm256_set1_epi64x(0xCD9E8D57);
  const __m256i low_half = _mm256_set1_epi64x(0xFFFFFFFF);
  const __m256 scale = _mm256_set1_ps(1.0f / static_cast<float>(1 << exponent));
  const __m256i lane = _mm256_set_epi64x(3, 2, 1, 0);
  size_t done = 0;
  for (; out.size() - done >= kLanes * kBlockElements; done += kLanes * kBlockElements, block += kLanes) {
    __m256i a = _mm256_add_epi64(_mm256_set1_epi64x(static_cast<int64_t>(block)), lane);
    __m256i b = _mm256_srli_epi64(a, 32);
    __m256i c = _mm256_setzero_si256();
    __m256i d = c;
    uint32_t key0 = static_cast<uint32_t>(hash);
    uint32_t key1 = static_cast<uint32_t>(hash >> 32);
    for (int round = 0; round < 10; ++round, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u) {
      const __m256i product0 = _mm256_mul_epu32(a, multiplier0);
      const __m256i product1 = _mm256_mul_epu32(c, multiplier1);
      a = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product1, 32), b), _mm256_set1_epi64x(key0));
      c = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product0, 32), d), _mm256_set1_epi64x(key1));
      b = product1;
      d = product0;
    }
    const __m256i ab = _mm256_or_si256(_mm256_and_si256(a, low_half), _mm256_slli_epi64(b, 32));
    const __m256i cd = _mm256_or_si256(_mm256_and_si256(c, low_half), _mm256_slli_epi64(d, 32));
    const __m256i even = _mm256_unpacklo_epi64(ab, cd);  // blocks 0 and 2
    const __m256i odd = _mm256_unpackhi_epi64(ab, cd);   // blocks 1 and 3
    bf16* to = out.data() + done;
    store_block(_mm256_castsi256_si128(even), scale, to);
    store_block(_mm256_castsi256_si128(odd), scale, to + kBlockElements);
    store_block(_mm256_extracti128_si256(even, 1), scale, to + 2 * kBlockElements);
    store_block(_mm256_extracti128_si256(odd, 1), scale, to + 3 * kBlockElements);
  }
  return done;
}
#endif

// A piece of one tensor, for one thread.
struct Piece {
  uint64_t hash = 0;
  WeightRole role = WeightRole::kEmbedding;
  uint64_t first = 0;  // element index, a multiple of kPieceElements
  uint64_t count = 0;
  bf16* out = nullptr;
};

// Fills all pieces on all cores; the calling thread works too and is the only one that reports progress.
void fill_pieces(const std::vector<Piece>& pieces, int64_t bytes_total, const LoadProgress& progress) {
  std::atomic<size_t> next{0};
  std::atomic<int64_t> bytes_done{0};
  const auto work = [&](bool reports) {
    int64_t report_at = 0;
    for (size_t i = next.fetch_add(1); i < pieces.size(); i = next.fetch_add(1)) {
      const Piece& piece = pieces[i];
      fill_dummy(piece.hash, piece.role, piece.first, {piece.out, piece.count});
      const int64_t bytes = static_cast<int64_t>(piece.count * sizeof(bf16));
      const int64_t done = bytes_done.fetch_add(bytes) + bytes;
      if (!reports || done < report_at) continue;
      progress(done, bytes_total);
      report_at = done + bytes_total / kProgressCallsMax;
    }
  };
  std::vector<std::thread> helpers;
  const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1u, 64u);
  for (unsigned i = 1; i < threads; ++i) helpers.emplace_back(work, false);
  work(static_cast<bool>(progress));
  for (std::thread& helper : helpers) helper.join();
  if (progress) progress(bytes_total, bytes_total);
}

uint64_t rounded_up(uint64_t bytes) { return (bytes + kAlignBytes - 1) / kAlignBytes * kAlignBytes; }

uint64_t tensor_bytes(const ModelConfig& config, WeightRole role) {
  const WeightShape shape = weight_shape(config, role);
  return static_cast<uint64_t>(shape.rows) * static_cast<uint64_t>(shape.cols) * sizeof(bf16);
}

// Anonymous memory, in huge pages where the system has them (weights are read end to end every step).
Result<std::shared_ptr<void>> allocate(uint64_t bytes) {
  const uint64_t machine_bytes =
      static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  if (bytes > machine_bytes) {
    return Error{"dummy weights of this shape need " + std::to_string(bytes) + " bytes of memory; the machine has " +
                 std::to_string(machine_bytes)};
  }
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return Error{"no memory for " + std::to_string(bytes) + " bytes of dummy weights"};
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  return std::shared_ptr<void>(memory, [bytes](void* pointer) { ::munmap(pointer, bytes); });
}

}  // namespace

bf16 dummy_value(uint64_t name_hash, WeightRole role, uint64_t index) {
  const uint64_t block = index / kBlockElements;
  const std::array<uint32_t, 4> words =
      Philox4x32::generate({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
                           {static_cast<uint32_t>(name_hash), static_cast<uint32_t>(name_hash >> 32)});
  const uint64_t position = index % kBlockElements;
  return value_of_byte(dummy_exponent(role), words[position / 4] >> (8 * (position % 4)) & 255u);
}

void fill_dummy(uint64_t name_hash, WeightRole role, uint64_t first, std::span<bf16> out) {
  CHECK(first % kBlockElements == 0);
  size_t done = 0;
#if defined(__x86_64__)
  const int exponent = dummy_exponent(role);
  if (exponent >= 0 && __builtin_cpu_supports("avx2")) {
    done = fill_avx2(name_hash, exponent, first / kBlockElements, out);
  }
#endif
  fill_portable(name_hash, byte_table(role), (first + done) / kBlockElements, out.subspan(done));
}

Result<LoadedWeights> make_dummy_weights(const ModelConfig& config, const LoadProgress& progress) {
  const std::vector<WeightKey> keys = weight_keys(config);
  uint64_t buffer_bytes = 0;
  for (const WeightKey& key : keys) buffer_bytes += rounded_up(tensor_bytes(config, key.role));
  ASSIGN_OR_RETURN(const std::shared_ptr<void> buffer, allocate(buffer_bytes));
  LoadedWeights weights{WeightTable(config), {}, {buffer}};
  std::vector<Piece> pieces;
  auto* at = static_cast<uint8_t*>(buffer.get());
  for (const WeightKey& key : keys) {
    const WeightShape shape = weight_shape(config, key.role);
    weights.table.set(key.role, key.layer, key.expert, TensorView{at, Dtype::kBF16, shape.rows, shape.cols});
    const uint64_t hash = dummy_name_hash(published_tensor_name(key.role, key.layer, key.expert));
    const uint64_t elements = tensor_bytes(config, key.role) / sizeof(bf16);
    auto* out = reinterpret_cast<bf16*>(at);
    for (uint64_t first = 0; first < elements; first += kPieceElements) {
      pieces.push_back({hash, key.role, first, std::min(kPieceElements, elements - first), out + first});
    }
    at += rounded_up(tensor_bytes(config, key.role));
  }
  fill_pieces(pieces, weights.table.total_bytes(), progress);
  return weights;
}

}  // namespace boreas
