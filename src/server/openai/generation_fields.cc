#include "server/openai/generation_fields.h"

#include <algorithm>
#include <cfloat>
#include <charconv>
#include <limits>

#include "server/request_ids.h"

namespace boreas {

namespace json = boost::json;

namespace {

constexpr double kPenaltyMax = 10;
constexpr float kTemperatureGreedy = 1e-5F;     // below: greedy
constexpr float kTemperatureMin = 0.01F;        // smaller ones are raised to it, or the division would overflow
constexpr float kRepetitionPenaltyMin = 1e-6F;  // likewise; logits of repeated tokens are huge with it already
constexpr float kBiasMax = 100;
constexpr int64_t kInt64Min = std::numeric_limits<int64_t>::min();
constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

struct NumberField {
  const char* name;
  FieldReader::Range range;
  float SamplingParams::*target;
};
constexpr NumberField kNumberFields[] = {
    {"temperature", {0, 2, false}, &SamplingParams::temperature},
    {"top_p", {0, 1, true}, &SamplingParams::top_p},
    {"min_p", {0, 1, false}, &SamplingParams::min_p},
    {"frequency_penalty", {-2, 2, false}, &SamplingParams::frequency_penalty},
    {"presence_penalty", {-2, 2, false}, &SamplingParams::presence_penalty},
    {"repetition_penalty", {0, kPenaltyMax, true}, &SamplingParams::repetition_penalty},
};

struct FlagField {
  const char* name;
  bool GenerationFields::*target;
};
constexpr FlagField kFlagFields[] = {
    {"stream", &GenerationFields::stream},
    {"ignore_eos", &GenerationFields::ignore_eos},
    {"include_stop_str_in_output", &GenerationFields::include_stop_in_output},
    {"skip_special_tokens", &GenerationFields::skip_special_tokens},
    {"return_token_ids", &GenerationFields::return_token_ids},
    {"return_tokens_as_token_ids", &GenerationFields::tokens_as_ids},
};

constexpr UnusedField kUnsupported[] = {
    {"use_beam_search", "false", "beam search is not supported"},
    {"length_penalty", "1 1.0 0 0.0", "beam search is not supported"},
    {"bad_words", "[]", "it is not supported"},
    {"logprob_token_ids", "[]", "it is not supported"},
    {"prompt_logprobs", "", "it is not supported; completions with 'echo' and 'logprobs' score a prompt"},
    {"truncate_prompt_tokens", "", "it is not supported"},
    {"thinking_token_budget", "-1", "it is not supported"},
    {"repetition_detection", "", "it is not supported"},
    {"stream_interval", "1", "only 1 is supported"},
};

void read_numbers(FieldReader& reader, const RequestRules& rules, SamplingParams& sampling) {
  sampling.temperature = rules.sampling.temperature;
  sampling.top_p = rules.sampling.top_p;
  sampling.top_k = rules.sampling.top_k;
  sampling.min_p = rules.sampling.min_p;
  sampling.repetition_penalty = rules.sampling.repetition_penalty;
  for (const NumberField& field : kNumberFields) {
    const std::optional<double> value = reader.number(field.name, field.range);
    if (!value) continue;
    // An open lower bound stays open when the double is rounded to a float.
    sampling.*field.target = std::max(static_cast<float>(*value), field.range.low_open ? FLT_MIN : -FLT_MAX);
  }
  sampling.repetition_penalty = std::max(sampling.repetition_penalty, kRepetitionPenaltyMin);
  if (sampling.temperature < kTemperatureGreedy) {
    sampling.temperature = 0;
  } else {
    sampling.temperature = std::max(sampling.temperature, kTemperatureMin);
  }
  if (const auto top_k = reader.integer("top_k", -1, kInt64Max)) {
    sampling.top_k = static_cast<int32_t>(std::clamp<int64_t>(*top_k, 0, std::numeric_limits<int32_t>::max()));
  }
}

void read_logit_bias(FieldReader& reader, const RequestRules& rules, SamplingParams& sampling) {
  const json::object* bias = reader.object("logit_bias");
  if (!bias) return;
  if (bias->size() > static_cast<size_t>(rules.limits.logit_bias_max)) {
    return reader.fail(invalid_value(
        "logit_bias", "'logit_bias' may have at most " + std::to_string(rules.limits.logit_bias_max) + " entries."));
  }
  for (const auto& entry : *bias) {
    const std::string_view key(entry.key().data(), entry.key().size());
    const std::string path = "logit_bias." + echo_text(key);
    TokenId id = -1;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size() || id < 0 || id >= rules.vocab_size) {
      return reader.fail(
          invalid_value(path, "'" + path + "' is not a token id below " + std::to_string(rules.vocab_size) + "."));
    }
    if (!entry.value().is_number()) {
      return reader.fail(invalid_value(path, "'" + path + "' must be a number."));
    }
    const auto value = static_cast<float>(std::clamp(entry.value().to_number<double>(), -100.0, 100.0));
    sampling.logit_bias.emplace_back(id, std::clamp(value, -kBiasMax, kBiasMax));
  }
}

void read_stop(FieldReader& reader, const RequestLimits& limits, std::vector<std::string>& stop) {
  const json::value* value = reader.find("stop");
  if (!value) return;
  const auto add = [&](const json::value& item, const std::string& path) {
    const json::string* text = item.if_string();
    if (!text) return reader.fail(invalid_value(path, "'" + path + "' must be a string."));
    if (text->empty()) return reader.fail(invalid_value(path, "'" + path + "' must not be empty."));
    if (text->size() > limits.stop_bytes_max) {
      return reader.fail(
          invalid_value(path, "'" + path + "' is longer than " + std::to_string(limits.stop_bytes_max) + " bytes."));
    }
    stop.emplace_back(text->data(), text->size());
  };
  if (value->is_string()) return add(*value, "stop");
  if (!value->is_array()) {
    return reader.fail(invalid_value("stop", "'stop' must be a string or an array of strings."));
  }
  const json::array* items = reader.array("stop", static_cast<size_t>(limits.stop_strings_max));
  if (!items) return;
  for (size_t i = 0; i < items->size(); ++i) add((*items)[i], "stop." + std::to_string(i));
}

void read_stream_options(FieldReader& reader, GenerationFields& fields) {
  const json::object* options = reader.object("stream_options");
  if (!options) return;
  if (!fields.stream) {
    return reader.fail(invalid_value("stream_options", "'stream_options' is only allowed when 'stream' is true."));
  }
  FieldReader inner(*options, "stream_options.");
  fields.include_usage = inner.boolean("include_usage").value_or(false);
  fields.continuous_usage = inner.boolean("continuous_usage_stats").value_or(false) && fields.include_usage;
  if (inner.error()) reader.fail(*inner.error());
}

void read_max_tokens(FieldReader& reader, bool scoring_allowed, GenerationFields& fields) {
  const int64_t low = scoring_allowed ? 0 : 1;
  const std::optional<int64_t> max_tokens = reader.integer("max_tokens", low, kInt64Max);
  const std::optional<int64_t> max_completion = reader.integer("max_completion_tokens", low, kInt64Max);
  fields.max_tokens = max_completion ? max_completion : max_tokens;
  const auto min_tokens = reader.integer("min_tokens", 0, std::numeric_limits<int32_t>::max());
  fields.sampling.min_tokens = static_cast<int32_t>(min_tokens.value_or(0));
  if (fields.max_tokens && min_tokens && *min_tokens > *fields.max_tokens) {
    reader.fail(invalid_value("min_tokens", "'min_tokens' must not be larger than 'max_tokens'."));
  }
}

void read_choices(FieldReader& reader, const RequestLimits& limits, GenerationFields& fields) {
  fields.choices = static_cast<int32_t>(reader.integer("n", 1, limits.choices_max).value_or(1));
  const std::optional<int64_t> best_of = reader.integer("best_of", kInt64Min, kInt64Max);
  if (best_of && *best_of != fields.choices) {
    reader.fail(unsupported_value("best_of", "'best_of' is only supported when it equals 'n'."));
  }
  if (const auto seed = reader.integer("seed", kInt64Min, kInt64Max); seed && *seed != -1) {
    fields.sampling.seed = static_cast<uint64_t>(*seed);
    fields.seeded = true;
  }
}

void read_ids(FieldReader& reader, GenerationFields& fields) {
  fields.priority = static_cast<int32_t>(
      reader.integer("priority", std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()).value_or(0));
  if (const auto salt = reader.string("cache_salt", 128)) {
    if (salt->empty() || salt->find_first_of(std::string_view("@/\\\0", 4)) != std::string_view::npos) {
      reader.fail(invalid_value("cache_salt", "'cache_salt' must not be empty or hold '@', '/', '\\' or NUL."));
    }
    fields.cache_salt = *salt;
  }
  for (const char* key : {"request_id", "rid"}) {
    const std::optional<std::string_view> id = reader.string(key, kRequestIdBytesMax);
    if (!id) continue;
    if (!is_request_id(*id)) reader.fail(invalid_value(key, std::string("'") + key + "' must be printable ASCII."));
    fields.request_id = *id;
  }
}

}  // namespace

void refuse_allowed_ids(FieldReader& reader, const GenerationFields& fields, const std::string& other) {
  if (fields.sampling.allowed_ids.empty()) return;
  reader.fail(invalid_value("allowed_token_ids", "'allowed_token_ids' cannot be combined with '" + other +
                                                     "': together they may allow nothing."));
}

GenerationFields read_generation_fields(FieldReader& reader, const RequestRules& rules, bool scoring_allowed) {
  GenerationFields fields;
  fields.model = reader.string("model", 1024).value_or("");
  read_numbers(reader, rules, fields.sampling);
  for (const FlagField& field : kFlagFields) {
    fields.*field.target = reader.boolean(field.name).value_or(fields.*field.target);
  }
  reader.boolean("spaces_between_special_tokens");  // no effect on byte-level BPE
  fields.add_special_tokens = reader.boolean("add_special_tokens");
  read_logit_bias(reader, rules, fields.sampling);
  read_stop(reader, rules.limits, fields.stop);
  const int32_t last_id = rules.vocab_size - 1;
  fields.stop_token_ids = reader.integers("stop_token_ids", static_cast<size_t>(rules.limits.stop_ids_max), 0, last_id)
                              .value_or(std::vector<TokenId>());
  if (auto allowed = reader.integers("allowed_token_ids", static_cast<size_t>(rules.vocab_size), 0, last_id)) {
    if (allowed->empty()) reader.fail(invalid_value("allowed_token_ids", "'allowed_token_ids' must not be empty."));
    fields.sampling.allowed_ids = std::move(*allowed);
  }
  read_stream_options(reader, fields);
  read_max_tokens(reader, scoring_allowed, fields);
  read_choices(reader, rules.limits, fields);
  read_ids(reader, fields);
  fields.format = read_output_format(reader);
  if (fields.format.bound()) refuse_allowed_ids(reader, fields, fields.format.field);
  return fields;
}

void refuse_used(FieldReader& reader, const UnusedField* fields, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const json::value* value = reader.find(fields[i].name);
    if (!value) continue;
    const bool small =
        (!value->is_object() || value->get_object().empty()) && (!value->is_array() || value->get_array().empty());
    const std::string allowed = std::string(" ") + fields[i].allowed + " ";
    if (small && allowed.find(" " + json::serialize(*value) + " ") != std::string::npos) continue;
    // serialize() prints doubles as 1E0: compare whole ones as integers, too.
    const std::optional<int64_t> whole = whole_number(*value, -1, 1);
    if (whole && allowed.find(" " + std::to_string(*whole) + " ") != std::string::npos) continue;
    reader.fail(unsupported_value(fields[i].name, std::string("'") + fields[i].name + "': " + fields[i].message + "."));
  }
}

void refuse_unsupported(FieldReader& reader) { refuse_used(reader, kUnsupported, std::size(kUnsupported)); }

std::vector<TokenId> stop_ids(const GenerationFields& fields, const RequestRules& rules) {
  std::vector<TokenId> ids = fields.stop_token_ids;
  if (!fields.ignore_eos) ids.insert(ids.end(), rules.eos_ids.begin(), rules.eos_ids.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

ApiResult<int32_t> output_budget(const GenerationFields& fields, const RequestLimits& limits, int64_t context_max,
                                 int64_t prompt_tokens, const std::string& prompt_field) {
  const bool scores_only = fields.max_tokens && *fields.max_tokens == 0;
  const int64_t left = context_max - prompt_tokens;
  if (left < (scores_only ? 0 : 1)) return context_length_exceeded(prompt_field, context_max, prompt_tokens);
  int64_t wanted = fields.max_tokens.value_or(left);
  if (limits.strict_max_tokens && fields.max_tokens && wanted > left) {
    return context_length_exceeded(prompt_field, context_max, prompt_tokens);
  }
  if (limits.output_tokens_max > 0 && !scores_only) wanted = std::min<int64_t>(wanted, limits.output_tokens_max);
  return static_cast<int32_t>(std::min(wanted, left));
}

Request engine_request(const GenerationFields& fields, const RequestRules& rules, std::vector<TokenId> prompt,
                       int32_t max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling = fields.sampling;
  if (!fields.seeded) request.sampling.seed = random_u64();
  request.choices = fields.choices;
  request.max_tokens = max_tokens;
  request.stop_ids = stop_ids(fields, rules);
  if (request.sampling.min_tokens > 0) request.sampling.suppressed_ids = request.stop_ids;
  request.priority = fields.priority;
  request.cache_salt = fields.cache_salt;
  return request;
}

std::optional<ApiError> bind_output(OutputRules rules, const GenerationFields& fields, const RequestRules& model,
                                    const std::string& field, Request& request) {
  rules.end_ids = model.eos_ids;
  if (rules.begin == OutputRules::Begin::kRaw) {
    rules.end_ids.insert(rules.end_ids.end(), fields.stop_token_ids.begin(), fields.stop_token_ids.end());
  }
  // Where only the end is left, the end must be possible: what is suppressed is up to the constraint.
  rules.min_tokens = fields.sampling.min_tokens;
  rules.suppressed_ids = std::move(request.sampling.suppressed_ids);
  request.sampling.suppressed_ids.clear();
  Result<ConstraintMaker> maker = constraint_maker(std::move(rules));
  if (!maker.ok()) return invalid_value(field, "'" + field + "': " + maker.error().message + ".");
  request.make_constraint = std::move(*maker);
  return std::nullopt;
}

}  // namespace boreas
