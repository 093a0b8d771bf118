// Dummy weights: the recipe bit for bit, statistics, exactness in BF16, and golden constants that other producers (a
// GPU kernel, integer operations in another framework) must meet.
#include "model/dummy_weights.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <map>

#include "model/checkpoint_fixture.h"

namespace boreas {
namespace {

constexpr WeightRole kAllRoles[] = {WeightRole::kEmbedding, WeightRole::kFinalNorm,  WeightRole::kInputNorm,
                                    WeightRole::kQuery,     WeightRole::kKey,        WeightRole::kValue,
                                    WeightRole::kOutput,    WeightRole::kRouter,     WeightRole::kExpertGate,
                                    WeightRole::kExpertUp,  WeightRole::kExpertDown, WeightRole::kDenseGate,
                                    WeightRole::kDenseUp,   WeightRole::kDenseDown};

bool is_norm(WeightRole role) { return role == WeightRole::kFinalNorm || role == WeightRole::kInputNorm; }

std::vector<bf16> generate(uint64_t hash, WeightRole role, uint64_t first, size_t count) {
  std::vector<bf16> out(count);
  fill_dummy(hash, role, first, out);
  return out;
}

TEST(DummyWeights, BulkEqualsElementWise) {
  const uint64_t hash = dummy_name_hash("model.layers.3.mlp.experts.17.gate_proj.weight");
  for (const WeightRole role : kAllRoles) {
    // Lengths around every loop boundary; positions near 0, beyond 2^32 elements and beyond 2^32 blocks.
    for (const uint64_t first : {uint64_t{0}, uint64_t{48}, uint64_t{1} << 32, (uint64_t{1} << 36) - 32}) {
      for (const size_t count : {size_t{1}, size_t{15}, size_t{16}, size_t{63}, size_t{64}, size_t{65}, size_t{1000}}) {
        const std::vector<bf16> bulk = generate(hash, role, first, count);
        for (size_t i = 0; i < count; ++i) ASSERT_EQ(bulk[i], dummy_value(hash, role, first + i)) << first << " " << i;
      }
    }
  }
}

// The recipe once more, in the words of dummy_weights.h.
TEST(DummyWeights, FollowTheRecipe) {
  const std::string name = "model.layers.1.self_attn.q_proj.weight";
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
  EXPECT_EQ(hash, dummy_name_hash(name));
  for (const uint32_t index : {0u, 1u, 5u, 15u, 16u, 12345u, 8388607u}) {
    const auto words =
        Philox4x32::generate({index / 16, 0, 0, 0}, {static_cast<uint32_t>(hash), static_cast<uint32_t>(hash >> 32)});
    uint8_t bytes[16];
    std::memcpy(bytes, words.data(), 16);  // little-endian
    const uint8_t byte = bytes[index % 16];
    const float s = static_cast<float>(static_cast<int8_t>(byte | 1));
    EXPECT_EQ(bf16_to_float(dummy_value(hash, WeightRole::kQuery, index)), s * 0x1p-11f);
    const int k = byte * 49 / 256 - 24;
    EXPECT_EQ(bf16_to_float(dummy_value(hash, WeightRole::kInputNorm, index)), 0.25f + static_cast<float>(k) * 0x1p-9f);
  }
}

TEST(DummyWeights, ValuesAreExactInBf16) {
  for (const WeightRole role : kAllRoles) {
    std::map<float, int> seen;
    for (const bf16 bits : generate(1, role, 0, 65536)) ++seen[bf16_to_float(bits)];
    EXPECT_EQ(seen.size(), is_norm(role) ? 49u : 128u);
    for (const auto& [value, count] : seen) {
      if (is_norm(role)) {
        const float k = (value - 0.25f) * 512;
        EXPECT_TRUE(k == std::floor(k) && k >= -24 && k <= 24) << value;
      } else {
        const float s = std::ldexp(value, dummy_exponent(role));
        EXPECT_TRUE(s == std::floor(s) && std::abs(s) <= 127 && std::fmod(s, 2.0f) != 0) << value;
      }
      EXPECT_GT(count, 65536 / 128 / 2) << value;  // uniform
    }
  }
}

// Standard deviations of layer 1 of the published checkpoint, and ours, within a factor of two.
TEST(DummyWeights, StatisticsFollowThePublishedLayer) {
  const std::map<WeightRole, double> published = {
      {WeightRole::kInputNorm, 0.04689},  {WeightRole::kQuery, 0.030737},   {WeightRole::kKey, 0.050458},
      {WeightRole::kValue, 0.013203},     {WeightRole::kOutput, 0.020614},  {WeightRole::kRouter, 0.083878},
      {WeightRole::kExpertGate, 0.02188}, {WeightRole::kExpertUp, 0.02144}, {WeightRole::kExpertDown, 0.02681}};
  for (const auto& [role, deviation] : published) {
    const uint64_t hash = dummy_name_hash(published_tensor_name(role, 1, 0));
    const std::vector<bf16> values = generate(hash, role, 0, 1 << 20);
    double sum = 0, squares = 0;
    for (const bf16 bits : values) {
      sum += bf16_to_float(bits);
      squares += double{bf16_to_float(bits)} * bf16_to_float(bits);
    }
    const double n = static_cast<double>(values.size());
    const double mean = sum / n;
    const double ours = std::sqrt(squares / n - mean * mean);
    // 256 bytes do not divide evenly into 49 values of k: that alone moves the norms' mean by -0.0002.
    const double noise = 5 * ours / std::sqrt(n);
    EXPECT_NEAR(mean, is_norm(role) ? 0.2498 : 0, noise) << published_tensor_name(role, 1, 0);
    EXPECT_GT(ours, deviation / 2) << published_tensor_name(role, 1, 0);
    EXPECT_LT(ours, deviation * 2) << published_tensor_name(role, 1, 0);
  }
}

TEST(DummyWeights, DifferByName) {
  const auto a =
      generate(dummy_name_hash("model.layers.1.mlp.experts.0.up_proj.weight"), WeightRole::kExpertUp, 0, 4096);
  const auto b =
      generate(dummy_name_hash("model.layers.1.mlp.experts.1.up_proj.weight"), WeightRole::kExpertUp, 0, 4096);
  int equal = 0;
  for (size_t i = 0; i < a.size(); ++i) equal += a[i] == b[i] ? 1 : 0;
  EXPECT_LT(equal, 4096 / 128 * 2);
}

uint64_t hash_of(const std::vector<bf16>& values) {
  return fnv1a_64(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(bf16));
}

// First four elements and FNV-1a 64 of the first 4,096 (little-endian bytes), computed by a separate program from the
// words of the recipe.
TEST(DummyWeights, MatchTheGoldenConstants) {
  struct Golden {
    WeightRole role;
    int32_t layer, expert;
    bf16 first[4];
    uint64_t hash;
  };
  const Golden goldens[] = {
      {WeightRole::kEmbedding, 0, 0, {0xbcf6, 0x3c9e, 0xbcb2, 0x3cca}, 0xb8c68c865c7a73f7ull},
      {WeightRole::kFinalNorm, 0, 0, {0x3e64, 0x3e89, 0x3e82, 0x3e62}, 0x1910431c6f75a553ull},
      {WeightRole::kQuery, 1, 0, {0xbcec, 0x3cdc, 0xbc18, 0xbcfc}, 0xdc8cb16befd4b43eull},
      {WeightRole::kExpertDown, 48, 127, {0xbcac, 0x3cdc, 0xbc68, 0x3cfc}, 0x79bf6ea3f44a03f3ull},
      {WeightRole::kRouter, 1, 0, {0xbdae, 0xbd6c, 0xbcc8, 0xbdca}, 0x7f89b601c53b57b4ull},
  };
  for (const Golden& golden : goldens) {
    const std::string name = published_tensor_name(golden.role, golden.layer, golden.expert);
    const std::vector<bf16> values = generate(dummy_name_hash(name), golden.role, 0, 4096);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(values[i], golden.first[i]) << name;
    EXPECT_EQ(hash_of(values), golden.hash) << name;
  }
}

TEST(DummyWeights, ModelsAreCompleteAndReported) {
  const ModelConfig config = *model_shape("demo");
  int calls = 0;
  int64_t last = 0;
  const auto start = std::chrono::steady_clock::now();
  const auto model = make_dummy_model(config, [&](int64_t done, int64_t total) {
    ++calls;
    EXPECT_LE(done, total);
    EXPECT_GE(done, last);
    last = done;
  });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ASSERT_TRUE(model.ok());
  EXPECT_TRUE((*model)->is_dummy());
  EXPECT_EQ((*model)->directory(), "");
  EXPECT_GE(calls, 1);
  EXPECT_LE(calls, 300);
  EXPECT_EQ(last, (*model)->weights().total_bytes());
  std::printf("%.2f GB/s\n", static_cast<double>(last) / seconds / 1e9);
  for (const WeightKey& key : weight_keys(config)) {
    const TensorView& view = (*model)->weights().at(key.role, key.layer, key.expert);
    const WeightShape shape = weight_shape(config, key.role);
    ASSERT_EQ(view.rows, shape.rows);
    ASSERT_EQ(view.cols, shape.cols);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(view.data) % 64, 0u);
    const uint64_t hash = dummy_name_hash(published_tensor_name(key.role, key.layer, key.expert));
    const int64_t last_index = shape.rows * shape.cols - 1;
    for (const int64_t index : {int64_t{0}, last_index / 2, last_index}) {
      ASSERT_EQ(static_cast<const bf16*>(view.data)[index], dummy_value(hash, key.role, static_cast<uint64_t>(index)));
    }
  }
}

// For executors that make the values themselves: the published shape without a byte of it.
TEST(DummyWeights, AModelWithoutValues) {
  const auto model = make_dummy_model(*model_shape("north"), {}, DummyValues::kMadeByExecutor);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_TRUE((*model)->is_dummy());
  EXPECT_EQ((*model)->config().vocab_size, 262144);
  EXPECT_TRUE((*model)->weights().at(WeightRole::kEmbedding).empty());
  EXPECT_EQ((*model)->weights().total_bytes(), 0);
}

TEST(DummyWeights, AMachineTooSmallIsAnError) {
  ModelConfig config = *model_shape("north");
  config.expert_width = 1 << 18;  // 20 TB
  const auto model = make_dummy_model(config);
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message.find("bytes of memory; the machine has"), std::string::npos);
}

}  // namespace
}  // namespace boreas
