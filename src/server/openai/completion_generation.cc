#include "server/openai/completion_generation.h"

#include <algorithm>

namespace boreas {

CompletionGeneration::CompletionGeneration(Serving& serving, std::shared_ptr<HttpResponder> responder,
                                           CompletionPlan plan)
    : Generation(serving, std::move(responder), std::move(plan.generation)),
      plan_(std::move(plan)),
      prompt_logprobs_(plan_.prompts.size()),
      waiting_(plan_.prompts.size()) {
  choices_.reserve(static_cast<size_t>(choice_count()));
  for (int32_t i = 0; i < choice_count(); ++i) {
    choices_.emplace_back(
        RawOutput::Options{fields().skip_special_tokens, fields().stop, fields().include_stop_in_output});
  }
}

void CompletionGeneration::take(int32_t index, TokenEvent& event) {
  const auto prompt = static_cast<size_t>(index / fields().choices);
  const bool scores_prompt = plan_.echo && plan_.logprobs >= 0;
  // The scores of a prompt come with the first event of its choice 0; other choices have to wait for it.
  if (scores_prompt && event.choice == 0 && !choices_[static_cast<size_t>(index)].echoed) {
    prompt_logprobs_[prompt] = std::move(event.prompt_logprobs);
  } else if (scores_prompt && !choices_[static_cast<size_t>(index - event.choice)].echoed) {
    waiting_[prompt].emplace_back(index, std::move(event));
    return;
  }
  Choice& choice = choices_[static_cast<size_t>(index)];
  if (!choice.finish_reason.empty()) return;  // ended while later events waited
  if (plan_.echo && !choice.echoed) echo_prompt(index);
  choice.echoed = true;

  const TokenId last = event.tokens.empty() ? -1 : event.tokens.back().id;
  bool stopped = false;
  for (size_t i = 0; i < event.tokens.size() && !stopped; ++i) {
    const bool ends_output = event.finish == FinishReason::kStop && i + 1 == event.tokens.size();
    stopped = push_token(choice, event.tokens[i], ends_output);
  }
  const bool ended = stopped || event.finish.has_value();
  if (ended) {
    settle(choice, choice.output.finish(), true);
    finish(choice, stopped ? FinishReason::kStop : *event.finish, last);
  }
  if (streams()) send_chunk(index);
  if (ended) finish_choice(index, stopped && !event.finish);

  std::vector<std::pair<int32_t, TokenEvent>> waiting = std::move(waiting_[prompt]);
  waiting_[prompt].clear();
  for (auto& [waiting_index, waiting_event] : waiting) take(waiting_index, waiting_event);
}

// Puts the prompt in front of the text, with the scores of its tokens.
void CompletionGeneration::echo_prompt(int32_t index) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  const CompletionPlan::Prompt& prompt = prompt_of(index);
  choice.text = prompt.text;
  choice.characters = count_characters(prompt.text);
  choice.characters_pushed = choice.characters;
  if (plan_.logprobs < 0) return;
  const std::vector<SampledToken>& scores = prompt_logprobs_[static_cast<size_t>(index / fields().choices)];
  Utf8Stream text;
  int64_t offset = 0;
  for (size_t i = 0; i < prompt.ids.size(); ++i) {
    CompletionLogprob entry;
    entry.of_prompt = true;
    entry.text_offset = std::min(offset, choice.characters);
    entry.scored = i > 0 && i <= scores.size();
    if (entry.scored) entry.token = scores[i - 1];
    entry.token.id = prompt.ids[i];
    choice.ready.push_back(std::move(entry));
    if (i > 0 || !prompt.bos_added) offset += count_characters(text.push(model().texts.bytes(prompt.ids[i])));
  }
}

bool CompletionGeneration::push_token(Choice& choice, SampledToken& token, bool ends_output) {
  count_output_token();
  const TokenId id = token.id;
  const auto& eos = model().rules.eos_ids;
  const bool is_eos = std::find(eos.begin(), eos.end(), id) != eos.end();
  // A stop token leaves text only if asked for, an end-of-sequence token only if special ones are shown as well.
  std::string bytes;
  if (!ends_output || (is_eos ? !fields().skip_special_tokens : fields().include_stop_in_output)) {
    bytes = model().texts.bytes(id);
  }
  const bool special = model().texts.is_special(id);
  if (keeps_tokens()) {
    choice.token_offsets.push_back(choice.characters_pushed);
    choice.tokens.push_back(std::move(token));
    if (!special || !fields().skip_special_tokens) choice.characters_pushed += count_characters(bytes);
  }
  bool stopped = false;
  const std::string text = choice.output.push(bytes, special, stopped);
  settle(choice, text, false);
  return stopped;
}

// Takes over text that became visible, and the tokens it settles.
void CompletionGeneration::settle(Choice& choice, std::string_view text, bool all) {
  choice.text += text;
  choice.characters += count_characters(text);
  if (!keeps_tokens()) return;
  const int64_t settled = choice.output.tokens_settled();
  size_t count = choice.tokens.size();
  if (!all) count = std::min(count, static_cast<size_t>(std::max<int64_t>(settled - choice.tokens_settled, 0)));
  for (size_t i = 0; i < count; ++i) {
    choice.ready.push_back(
        {std::move(choice.tokens[i]), true, false, std::min(choice.token_offsets[i], choice.characters)});
  }
  const auto end = static_cast<std::ptrdiff_t>(count);
  choice.tokens.erase(choice.tokens.begin(), choice.tokens.begin() + end);
  choice.token_offsets.erase(choice.token_offsets.begin(), choice.token_offsets.begin() + end);
  choice.tokens_settled += static_cast<int64_t>(count);
}

void CompletionGeneration::finish(Choice& choice, FinishReason reason, TokenId last_token) {
  choice.stop_reason = "null";
  choice.finish_reason = "stop";
  const auto& stop_ids = fields().stop_token_ids;
  if (choice.output.stopped_by_string()) {
    choice.stop_reason.clear();
    JsonWriter(choice.stop_reason).string(choice.output.matched_stop());
  } else if (reason == FinishReason::kLength) {
    choice.finish_reason = "length";
  } else if (std::find(stop_ids.begin(), stop_ids.end(), last_token) != stop_ids.end()) {
    choice.stop_reason = std::to_string(last_token);
  }
}

void CompletionGeneration::append_choice(JsonWriter& writer, int32_t index) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  writer.begin_object().field("index", int64_t{index}).field("text", choice.text).key("logprobs");
  if (plan_.logprobs >= 0) {
    append_completion_logprobs(writer, model().texts, fields().tokens_as_ids, choice.ready);
  } else {
    writer.null();
  }
  if (fields().return_token_ids) {
    writer.key("token_ids").begin_array();
    for (const CompletionLogprob& entry : choice.ready) {
      if (!entry.of_prompt) writer.integer(entry.token.id);
    }
    writer.end_array().key("prompt_token_ids");
    append_ids(writer, prompt_of(index).ids);
  }
  writer.key("finish_reason");
  choice.finish_reason.empty() ? writer.null() : writer.string(choice.finish_reason);
  if (!choice.finish_reason.empty()) writer.key("stop_reason").raw(choice.stop_reason);
  writer.end_object();
  choice.text.clear();
  choice.ready.clear();
}

void CompletionGeneration::send_chunk(int32_t index) {
  const Choice& choice = choices_[static_cast<size_t>(index)];
  if (choice.text.empty() && choice.finish_reason.empty()) return;
  JsonWriter writer = begin_chunk();
  append_choice(writer, index);
  end_chunk(writer);
}

void CompletionGeneration::append_choices(JsonWriter& writer) {
  for (int32_t i = 0; i < choice_count(); ++i) append_choice(writer, i);
}

}  // namespace boreas
