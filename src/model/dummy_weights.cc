// Bulk generation of dummy weights (recipe: dummy_weights.h). Philox runs on kLanes counters side by side so that the
// compiler can use SIMD; on x86 a copy for AVX2 is chosen at run time. Integer arithmetic only: bits never depend on
// it.
#include "model/dummy_weights.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "model/weight_loader.h"

namespace boreas {
namespace {

constexpr uint64_t kBlockElements = 16;
constexpr size_t kLanes = 16;
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

// kLanes consecutive blocks from `block`, as words[word][lane].
[[gnu::always_inline]] inline void philox_lanes(uint64_t hash, uint64_t block, uint32_t (&words)[4][kLanes]) {
  uint32_t a[kLanes], b[kLanes], c[kLanes], d[kLanes];
  for (size_t i = 0; i < kLanes; ++i) {
    a[i] = static_cast<uint32_t>(block + i);
    b[i] = static_cast<uint32_t>((block + i) >> 32);
    c[i] = d[i] = 0;
  }
  uint32_t key0 = static_cast<uint32_t>(hash);
  uint32_t key1 = static_cast<uint32_t>(hash >> 32);
  for (int round = 0; round < 10; ++round) {
    for (size_t i = 0; i < kLanes; ++i) {
      const uint64_t product0 = uint64_t{0xD2511F53u} * a[i];
      const uint64_t product1 = uint64_t{0xCD9E8D57u} * c[i];
      a[i] = static_cast<uint32_t>(product1 >> 32) ^ b[i] ^ key0;
      c[i] = static_cast<uint32_t>(product0 >> 32) ^ d[i] ^ key1;
      b[i] = static_cast<uint32_t>(product1);
      d[i] = static_cast<uint32_t>(product0);
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  for (size_t i = 0; i < kLanes; ++i) {
    words[0][i] = a[i];
    words[1][i] = b[i];
    words[2][i] = c[i];
    words[3][i] = d[i];
  }
}

[[gnu::always_inline]] inline void fill_blocks(uint64_t hash, const ByteTable& table, uint64_t block, bf16* out,
                                               uint64_t count) {
  uint32_t words[4][kLanes];
  bf16 tail[kLanes * kBlockElements];
  while (count > 0) {
    philox_lanes(hash, block, words);
    const uint64_t whole = std::min<uint64_t>(count, kLanes * kBlockElements);
    bf16* to = whole == kLanes * kBlockElements ? out : tail;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      for (size_t word = 0; word < 4; ++word) {
        const uint32_t bits = words[word][lane];
        bf16* four = to + lane * kBlockElements + word * 4;
        four[0] = table[bits & 255u];
        four[1] = table[bits >> 8 & 255u];
        four[2] = table[bits >> 16 & 255u];
        four[3] = table[bits >> 24];
      }
    }
    if (to == tail) std::memcpy(out, tail, whole * sizeof(bf16));
    out += whole;
    count -= whole;
    block += kLanes;
  }
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void fill_blocks_avx2(uint64_t hash, const ByteTable& table, uint64_t block, bf16* out,
                                              uint64_t count) {
  fill_blocks(hash, table, block, out, count);
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
  const ByteTable table = byte_table(role);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    fill_blocks_avx2(name_hash, table, first / kBlockElements, out.data(), out.size());
    return;
  }
#endif
  fill_blocks(name_hash, table, first / kBlockElements, out.data(), out.size());
}

Result<LoadedWeights> make_dummy_weights(const ModelConfig& config, const LoadProgress& progress) {
  const std::vector<WeightKey> keys = weight_keys(config);
  uint64_t buffer_bytes = 0;
  for (const WeightKey& key : keys) buffer_bytes += rounded_up(tensor_bytes(config, key.role));
  ASSIGN_OR_RETURN(const std::shared_ptr<void> buffer, allocate(buffer_bytes));
  LoadedWeights weights{WeightTable(config), {buffer}};
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
