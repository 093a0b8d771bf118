// See long_context.h.
#include "tests/golden/long_context/long_context.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>

#include "model/safetensors.h"

namespace boreas {
namespace {

const std::string kFolder = BOREAS_SOURCE_DIR "/tests/golden/long_context/";

// One tensor of golden.safetensors, widened to FP32, whose first dimension is the token.
class Stacked {
 public:
  static Result<Stacked> read(const SafetensorsFile& file, const std::string& name, std::vector<int64_t> shape) {
    for (const SafetensorsEntry& entry : file.entries()) {
      if (entry.name != name) continue;
      const bool narrow = entry.dtype == Dtype::kBF16;
      if (entry.shape != shape || (!narrow && entry.dtype != Dtype::kF32)) break;
      const std::span<const uint8_t> bytes = file.bytes(entry);
      Stacked out;
      out.cols_ = static_cast<size_t>(shape.back());
      out.rows_ = shape.size() == 3 ? static_cast<size_t>(shape[1]) : 1;
      out.values_.resize(bytes.size() / dtype_bytes(entry.dtype));
      std::vector<bf16> bits(narrow ? out.values_.size() : 0);
      std::memcpy(narrow ? static_cast<void*>(bits.data()) : out.values_.data(), bytes.data(), bytes.size());
      std::transform(bits.begin(), bits.end(), out.values_.begin(), bf16_to_float);
      return out;
    }
    return Error{file.path() + " has no tensor " + name + " of shape " + shape_text(shape)};
  }
  std::vector<float> row(size_t token, size_t row = 0) const {
    const auto begin = values_.begin() + static_cast<std::ptrdiff_t>((token * rows_ + row) * cols_);
    return {begin, begin + static_cast<std::ptrdiff_t>(cols_)};
  }
  std::vector<std::vector<float>> rows(size_t token) const {
    std::vector<std::vector<float>> out;
    for (size_t i = 0; i < rows_; ++i) out.push_back(row(token, i));
    return out;
  }

 private:
  size_t rows_ = 0, cols_ = 0;
  std::vector<float> values_;
};

Result<LongContextGolden> read_manifest() {
  const std::string path = kFolder + "golden.json";
  std::ifstream stream(path);
  if (!stream) return Error{path + " cannot be read"};
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const boost::json::object manifest = boost::json::parse(text).as_object();
  LongContextGolden golden;
  golden.position = manifest.at("position").to_number<int32_t>();
  for (const boost::json::value& token : manifest.at("tokens").as_array()) {
    golden.tokens.emplace_back();
    golden.tokens.back().token = token.to_number<TokenId>();
  }
  return golden;
}

}  // namespace

std::shared_ptr<const Model> load_demo_model() {
  auto model = load_model(BOREAS_SOURCE_DIR "/models/demo");
  if (!model.ok()) std::cerr << model.error().message << "\n";
  return model.ok() ? *model : nullptr;
}

Result<LongContextGolden> load_long_context_golden(const ModelConfig& config) {
  ASSIGN_OR_RETURN(LongContextGolden golden, read_manifest());
  ASSIGN_OR_RETURN(const auto file, SafetensorsFile::open(kFolder + "golden.safetensors"));
  const int64_t tokens = static_cast<int64_t>(golden.tokens.size()), layers = config.layer_count();
  const std::vector<int64_t> of_logits{tokens, config.vocab_size}, of_layers{tokens, layers, config.hidden_size};
  ASSIGN_OR_RETURN(const Stacked logits, Stacked::read(*file, "logits", of_logits));
  ASSIGN_OR_RETURN(const Stacked logits_bf16, Stacked::read(*file, "logits_bf16", of_logits));
  ASSIGN_OR_RETURN(const Stacked attention, Stacked::read(*file, "attention", of_layers));
  ASSIGN_OR_RETURN(const Stacked mlp, Stacked::read(*file, "mlp", of_layers));
  ASSIGN_OR_RETURN(const Stacked residual, Stacked::read(*file, "residual", of_layers));
  ASSIGN_OR_RETURN(const Stacked scales, Stacked::read(*file, "layer_scale", {tokens, layers, 6}));
  for (size_t i = 0; i < golden.tokens.size(); ++i) {
    LongContextToken& token = golden.tokens[i];
    token.logits = logits.row(i);
    token.logits_bf16 = logits_bf16.row(i);
    token.attention = attention.rows(i);
    token.mlp = mlp.rows(i);
    token.residual = residual.rows(i);
    for (const std::vector<float>& row : scales.rows(i))
      token.scales.push_back(
          {.input = row[0], .attention = row[1], .mlp = row[2], .residual = row[3], .score = row[4], .router = row[5]});
  }
  return golden;
}

Arithmetic long_context_bf16(const ModelConfig& config, int32_t position) {
  Arithmetic arithmetic = bf16_arithmetic();
  arithmetic.angle = fp32_arithmetic(config, position + 1).angle;
  return arithmetic;
}

int32_t long_context_full_pages(int32_t position) { return position / kPagePositions + 2; }

int32_t long_context_sliding_pages(const ModelConfig& config, int32_t position) {
  return position / kPagePositions - (position - config.window) / kPagePositions + 1;
}

Result<StepTables> fill_long_context(Executor& executor, const ModelConfig& config, int32_t position,
                                     PageLayout layout) {
  StepTables tables;
  tables.sliding_first = (position - config.window) / kPagePositions;
  const auto fill = [&](PagePoolKind pool, int64_t bytes, int32_t first, int32_t count,
                        std::vector<PageId>& table) -> Status {
    std::vector<std::byte> content(static_cast<size_t>(bytes));
    for (int32_t i = 0; i < count; ++i) {
      table.push_back(PageId(i));
      fill_loud_page(config, position, pool, first + i, layout, content);
      RETURN_IF_ERROR(executor.restore_page(pool, table.back(), content));
    }
    return Ok{};
  };
  RETURN_IF_ERROR(fill(PagePoolKind::kFull, executor.info().page_bytes_full, 0, long_context_full_pages(position) - 1,
                       tables.full));
  RETURN_IF_ERROR(fill(PagePoolKind::kSliding, executor.info().page_bytes_sliding, tables.sliding_first,
                       long_context_sliding_pages(config, position), tables.sliding));
  return tables;
}

Result<std::vector<float>> long_context_step(Executor& executor, int32_t position, TokenId token,
                                             const StepTables& tables) {
  const std::vector<TokenId> tokens{token};
  SequenceSpec spec;
  spec.sampling.temperature = 0;
  spec.sampling.top_logprobs = executor.info().vocab_size;
  spec.prompt = tokens;
  executor.open_sequence(0, spec);
  StepRow row;
  row.position = position;
  row.tokens = tokens;
  row.full_pages = tables.full;
  row.sliding_pages = tables.sliding;
  row.sliding_first = tables.sliding_first;
  row.logits = LogitsWanted::kLast;
  StepPlan plan;
  plan.rows.push_back(row);
  ASSIGN_OR_RETURN(const StepTicket ticket, executor.submit(plan));
  ASSIGN_OR_RETURN(const StepResult result, executor.wait(ticket));
  executor.close_sequence(0);
  std::vector<float> logprobs(static_cast<size_t>(executor.info().vocab_size),
                              std::numeric_limits<float>::quiet_NaN());  // of an id that is missing
  for (const TokenLogprob& entry : result.rows[0].sampled.top) logprobs[static_cast<size_t>(entry.id)] = entry.logprob;
  return logprobs;
}

double logprob_ratio(std::span<const float> logits, std::span<const float> logprobs, double error) {
  CHECK(logits.size() == logprobs.size());
  const double size = static_cast<double>(logits.size());
  const double taken =
      (std::accumulate(logits.begin(), logits.end(), 0.0) - std::accumulate(logprobs.begin(), logprobs.end(), 0.0)) /
      size;
  std::vector<float> back;
  for (const float logprob : logprobs) back.push_back(static_cast<float>(double{logprob} + taken));
  return row_ratio(logits, back, error);
}

double long_context_ratio(Executor& executor, const ModelConfig& config, const LongContextGolden& golden,
                          const StepTables& tables) {
  double worst = 0;
  for (const LongContextToken& token : golden.tokens) {
    const auto logprobs = long_context_step(executor, golden.position, token.token, tables);
    if (!logprobs.ok()) {
      std::cerr << logprobs.error().message << "\n";
      return std::numeric_limits<double>::infinity();
    }
    const double error = logits_error(token.scales, long_context_bf16(config, golden.position));
    worst = std::max(worst, logprob_ratio(token.logits, *logprobs, error));
  }
  return worst;
}

}  // namespace boreas
