#include "eval_likelihood_command.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <thread>

#include "eval_likelihood.h"
#include "eval_report.h"
#include "model_loading.h"

namespace boreas {

Status run_likelihood(const LikelihoodFlags& flags) {
  if (flags.folder.empty()) return Error{"--likelihood needs a checkpoint: boreas eval MODEL --likelihood", "model"};
  ModelSource source;
  source.model = flags.folder;
  source.needs_template = false;
  ASSIGN_OR_RETURN(const LoadedModel loaded, load_with_text(source));
  const std::string file = flags.text_file.empty() ? loaded.directory + "/likelihood.jsonl" : flags.text_file;
  ASSIGN_OR_RETURN(const std::vector<ScoredText> texts, read_scored_texts(file, *loaded.tokenizer, flags.tokens_max));
  const std::shared_ptr<const Model> model = loaded.model;
  Oracle oracle = [model](const ScoredText& text) -> Result<std::vector<float>> {
    return reference_forward(*model, text.tokens).logits;
  };
  if (!flags.oracle.empty()) {
    ASSIGN_OR_RETURN(oracle, read_oracle_folder(flags.oracle, model->config().vocab_size));
  }
  DeviceChoice choice;
  choice.device = flags.device;
  choice.threads = flags.threads;
  choice.sequence_slots = 1;
  ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor, make_executor(choice, model));
  const int32_t processors = std::max(1, static_cast<int32_t>(std::thread::hardware_concurrency()));
  const int32_t threads = flags.threads > 0 ? std::min(flags.threads, processors) : processors;
  ASSIGN_OR_RETURN(const LikelihoodResult result, measure_likelihood(*executor, texts, oracle, threads));
  const std::string oracle_name = flags.oracle.empty() ? "boreas' FP32 forward pass" : flags.oracle;
  std::cout << texts.size() << " texts of " << file << " on " << executor->info().device << ", oracle: " << oracle_name
            << "\n";
  print_likelihood(std::cout, result);
  if (flags.json_file.empty()) return Ok{};
  boost::json::object json{{"model", flags.folder},
                           {"device", executor->info().device},
                           {"texts", file},
                           {"oracle", oracle_name},
                           {"likelihood", likelihood_json(result)}};
  return write_file(flags.json_file, boost::json::serialize(json) + "\n");
}

}  // namespace boreas
