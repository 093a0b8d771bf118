#include "server/openai/chat_generation.h"

#include <algorithm>
#include <utility>

#include "server/request_ids.h"

namespace boreas {

namespace {

constexpr size_t kCallIdDigits = 24;

bool ends_output(const TokenEvent& event, size_t token) {
  return event.finish == FinishReason::kStop && token + 1 == event.tokens.size();
}

}  // namespace

ChatGeneration::ChatGeneration(Serving& serving, std::shared_ptr<HttpResponder> responder, ChatPlan plan)
    : Generation(serving, std::move(responder), std::move(plan.generation)), plan_(std::move(plan)) {
  choices_.reserve(static_cast<size_t>(choice_count()));
  for (int32_t i = 0; i < choice_count(); ++i)
    choices_.emplace_back(OutputParser(model().served.markers, plan_.parser));
}

void ChatGeneration::open_stream() {
  for (int32_t index = 0; index < choice_count(); ++index) {
    JsonWriter writer = begin_chunk();
    writer.begin_object().field("index", int64_t{index}).key("delta").begin_object();
    writer.field("role", "assistant").field("content", "").end_object();
    writer.field_null("logprobs").field_null("finish_reason").end_object();
    if (fields().return_token_ids && index == 0) {
      writer.end_array().key("prompt_token_ids");
      append_ids(writer, plan_.prompt_ids);
      end_chunk_members(writer);
    } else {
      end_chunk(writer);
    }
  }
}

std::string_view ChatGeneration::text_of(TokenId id, bool ends_output) {
  const bool is_eos =
      std::find(model().rules.eos_ids.begin(), model().rules.eos_ids.end(), id) != model().rules.eos_ids.end();
  // A stop token leaves text only if asked for; the end of the turn never does.
  if (ends_output && (is_eos || !fields().include_stop_in_output)) return {};
  if (fields().skip_special_tokens && model().texts.is_special(id)) return {};
  text_ = model().texts.bytes(id);
  return text_;
}

void ChatGeneration::take(int32_t index, TokenEvent& event) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  events_.clear();
  const TokenId last = event.tokens.empty() ? -1 : event.tokens.back().id;
  bool stopped = false;
  for (size_t i = 0; i < event.tokens.size() && !stopped; ++i) {
    SampledToken& token = event.tokens[i];
    count_output_token();
    const TokenId id = token.id;
    if (keeps_tokens()) choice.tokens.push_back(std::move(token));
    stopped = choice.parser.push(id, text_of(id, ends_output(event, i)), events_);
    // With log-probabilities each token's entry travels with its own text.
    if (keeps_tokens()) emit(index, events_);
  }
  const bool ended = stopped || event.finish.has_value();
  if (ended) {
    const bool length = !stopped && event.finish == FinishReason::kLength;
    choice.parser.finish(length ? OutputParser::End::kLength : OutputParser::End::kStop, events_);
  }
  emit(index, events_);
  if (!ended) return;
  finish(index, stopped ? FinishReason::kStop : *event.finish, last);
  finish_choice(index, stopped && !event.finish);
}

void ChatGeneration::finish(int32_t index, FinishReason reason, TokenId last_token) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  choice.stop_reason = "null";
  choice.finish_reason = "stop";
  const auto& stop_ids = fields().stop_token_ids;
  if (choice.parser.stopped_by_string()) {
    choice.stop_reason.clear();
    JsonWriter(choice.stop_reason).string(choice.parser.matched_stop());
  } else if (reason == FinishReason::kLength) {
    choice.finish_reason = "length";
  } else if (std::find(stop_ids.begin(), stop_ids.end(), last_token) != stop_ids.end()) {
    choice.stop_reason = std::to_string(last_token);
  } else if (choice.parser.complete_tool_calls() > 0) {
    choice.finish_reason = plan_.named_tool ? "stop" : "tool_calls";
  }
  if (!streams()) return choice.output.set_complete(choice.parser);
  JsonWriter writer = begin_chunk();
  writer.begin_object().field("index", int64_t{index}).key("delta").begin_object().end_object();
  append_token_members(writer, choice, true);
  writer.field("finish_reason", choice.finish_reason).key("stop_reason").raw(choice.stop_reason).end_object();
  end_chunk(writer);
}

void ChatGeneration::emit(int32_t index, std::vector<OutputEvent>& events) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  for (const OutputEvent& event : events) {
    if (event.kind == OutputEvent::Kind::kToolCallStart)
      choice.call_ids.push_back("call_" + random_base62(kCallIdDigits));
  }
  if (!streams()) {
    choice.output.add(events);
    events.clear();
    return;
  }
  for (const OutputEvent& event : events) {
    if (event.kind == OutputEvent::Kind::kReasoning && !plan_.include_reasoning) continue;
    JsonWriter writer = begin_chunk();
    writer.begin_object().field("index", int64_t{index}).key("delta");
    append_delta(writer, event, choice);
    append_token_members(writer, choice, false);
    writer.field_null("finish_reason").end_object();
    end_chunk(writer);
  }
  events.clear();
}

void ChatGeneration::append_reasoning(JsonWriter& writer, std::string_view text) {
  const ReasoningField field = options().reasoning_field;
  if (field != ReasoningField::kReasoningContent) writer.field("reasoning", text);
  if (field != ReasoningField::kReasoning) writer.field("reasoning_content", text);
}

void ChatGeneration::append_delta(JsonWriter& writer, const OutputEvent& event, const Choice& choice) {
  writer.begin_object();
  switch (event.kind) {
    case OutputEvent::Kind::kReasoning:
      append_reasoning(writer, event.text);
      break;
    case OutputEvent::Kind::kContent:
      writer.field("content", event.text);
      break;
    case OutputEvent::Kind::kToolCallStart:
    case OutputEvent::Kind::kToolCallArguments: {
      const bool start = event.kind == OutputEvent::Kind::kToolCallStart;
      writer.key("tool_calls").begin_array().begin_object().field("index", int64_t{event.tool_index});
      if (start) {
        writer.field("id", choice.call_ids[static_cast<size_t>(event.tool_index)]).field("type", "function");
      }
      writer.key("function").begin_object();
      if (start) writer.field("name", event.text);
      writer.field("arguments", start ? std::string_view() : std::string_view(event.text));
      writer.end_object().end_object().end_array();
    }
  }
  writer.end_object();
}

void ChatGeneration::append_token_members(JsonWriter& writer, Choice& choice, bool all) {
  size_t count = choice.tokens.size();
  if (!all) {
    const int64_t settled = choice.parser.tokens_settled() - choice.tokens_sent;
    count = std::min(count, static_cast<size_t>(std::max<int64_t>(settled, 0)));
  }
  const std::span<const SampledToken> tokens(choice.tokens.data(), count);
  if (plan_.logprobs && count > 0) {
    writer.key("logprobs");
    append_chat_logprobs(writer, model().texts, fields().tokens_as_ids, tokens);
  } else {
    writer.field_null("logprobs");
  }
  if (fields().return_token_ids) {
    writer.key("token_ids").begin_array();
    for (const SampledToken& token : tokens) writer.integer(token.id);
    writer.end_array();
  }
  choice.tokens_sent += static_cast<int64_t>(count);
  choice.tokens.erase(choice.tokens.begin(), choice.tokens.begin() + static_cast<std::ptrdiff_t>(count));
}

void ChatGeneration::append_message(JsonWriter& writer, const Choice& choice) {
  const ParsedOutput& output = choice.output;
  writer.begin_object().field("role", "assistant").key("content");
  const bool only_thought = !output.reasoning.empty() && choice.finish_reason == "length";
  if (output.content.empty() && (!output.calls.empty() || only_thought)) {
    writer.null();
  } else {
    writer.string(output.content);
  }
  writer.field_null("refusal");
  if (plan_.include_reasoning && !output.reasoning.empty()) append_reasoning(writer, output.reasoning);
  if (!output.calls.empty()) {
    writer.key("tool_calls").begin_array();
    for (size_t i = 0; i < output.calls.size(); ++i) {
      writer.begin_object().field("id", choice.call_ids[i]).field("type", "function").key("function");
      writer.begin_object().field("name", output.calls[i].name).field("arguments", output.calls[i].arguments);
      writer.end_object().end_object();
    }
    writer.end_array();
  }
  writer.end_object();
}

void ChatGeneration::append_choices(JsonWriter& writer) {
  for (size_t i = 0; i < choices_.size(); ++i) {
    Choice& choice = choices_[i];
    writer.begin_object().field("index", static_cast<int64_t>(i)).key("message");
    append_message(writer, choice);
    append_token_members(writer, choice, true);
    writer.field("finish_reason", choice.finish_reason).key("stop_reason").raw(choice.stop_reason).end_object();
  }
}

void ChatGeneration::append_extras(JsonWriter& writer) {
  if (!fields().return_token_ids) return;
  writer.key("prompt_token_ids");
  append_ids(writer, plan_.prompt_ids);
}

int64_t ChatGeneration::reasoning_tokens() const {
  int64_t sum = 0;
  for (const Choice& choice : choices_) sum += choice.parser.reasoning_tokens();
  return sum;
}

}  // namespace boreas
