// The goldens of tests/golden/<family>/<case>, as tools/make_golden/README.md describes them: a tiny checkpoint,
// prompts, and what the oracle (transformers) makes of them. Read by the golden tests of the reference and of every
// executor.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/model.h"
#include "tests/golden/tolerance.h"

namespace boreas {

// [rows, cols]; BF16 tensors are widened.
struct GoldenTensor {
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<float> values;

  std::span<const float> row(int64_t index) const {
    return std::span<const float>(values).subspan(static_cast<size_t>(index * cols), static_cast<size_t>(cols));
  }
};

struct GoldenSequence {
  std::string name;
  std::vector<TokenId> tokens;
  int64_t first_logits = 0;  // row 0 of <name>.logits belongs to this position
  int64_t decode_from = 0;   // > 0: <name>.decode_logits exists, its row 0 belongs to position decode_from - 1
};

// The oracle's own continuation of a prompt; empty if the case has none.
struct GoldenGreedy {
  std::vector<TokenId> prompt;
  std::vector<TokenId> tokens;
};

class GoldenCase {
 public:
  // All cases of a family, sorted.
  static std::vector<std::string> names(const std::string& family);
  static Result<GoldenCase> load(const std::string& family, const std::string& name);

  const std::string& name() const { return name_; }
  const std::shared_ptr<const Model>& model() const { return model_; }
  const std::vector<GoldenSequence>& sequences() const { return sequences_; }
  // The one sequence whose every layer is stored; nullptr if the case has none.
  const GoldenSequence* per_layer() const;
  const GoldenGreedy& greedy() const { return greedy_; }
  // Per layer, of the per_layer sequence; empty if there is none.
  const std::vector<LayerScale>& scales() const { return scales_; }
  bool has(const std::string& tensor) const;
  // CHECKs that the tensor is there: the goldens are files of this repository.
  GoldenTensor tensor(const std::string& tensor) const;

 private:
  GoldenCase() = default;
  struct File;  // the mapped golden.safetensors
  std::string name_;
  std::string per_layer_;
  std::shared_ptr<const Model> model_;
  std::shared_ptr<const File> file_;
  std::vector<GoldenSequence> sequences_;
  GoldenGreedy greedy_;
  std::vector<LayerScale> scales_;
};

}  // namespace boreas
