// boreas generate: one answer, or a conversation, in the terminal. The same path as the server's, without HTTP:
// template, tokenizer, engine, executor, output parser. Text streams to stdout as it comes (reasoning dimmed on a
// terminal), the figures go to stderr.
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <iostream>
#include <mutex>
#include <random>

#include "base/clock.h"
#include "commands.h"
#include "engine/engine.h"
#include "model_loading.h"

namespace boreas {
namespace {

struct GenerateFlags {
  std::string model;
  std::string prompt;
  std::string system;
  std::string tokenizer;    // directory; empty: the model's
  std::string model_shape;  // with dummy weights
  std::string load_format = "auto";
  bool raw = false;  // the prompt as it is, no chat template
  bool no_thinking = false;
  int32_t max_tokens = 512;
  float temperature = -1;  // < 0: the model's default, else 1
  float top_p = -1;
  int64_t seed = -1;  // < 0: a random one
  int32_t threads = 0;
  std::string device = "auto";
};

// From the engine thread to the terminal. Bounded by max_tokens.
class Events {
 public:
  EventSink sink() {
    return [this](TokenEvent&& event) {
      {
        std::lock_guard<std::mutex> lock(mutex_);
        queue_.push_back(std::move(event));
      }
      ready_.notify_one();
    };
  }
  TokenEvent next() {
    std::unique_lock<std::mutex> lock(mutex_);
    ready_.wait(lock, [this] { return !queue_.empty(); });
    TokenEvent event = std::move(queue_.front());
    queue_.pop_front();
    return event;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<TokenEvent> queue_;
};

Result<LoadedModel> load(const GenerateFlags& flags) {
  ModelSource source;
  source.model = flags.model;
  source.model_shape = flags.model_shape;
  source.load_format = flags.load_format;
  source.tokenizer = flags.tokenizer;
  source.needs_template = !flags.raw;
  source.device = flags.device;
  return load_with_text(source);
}

Result<std::unique_ptr<Executor>> one_sequence_executor(const GenerateFlags& flags, const LoadedModel& loaded) {
  DeviceChoice choice;
  choice.device = flags.device;
  choice.threads = flags.threads;
  choice.sequence_slots = 1;
  choice.memory_plan = &std::cerr;
  return make_executor(choice, loaded.model);
}

class Conversation {
 public:
  Conversation(const GenerateFlags& flags, const LoadedModel& loaded, const ExecutorInfo& info, Engine& engine)
      : flags_(flags), loaded_(loaded), info_(info), engine_(engine), colour_(isatty(STDOUT_FILENO) != 0) {
    if (!flags.system.empty()) messages_.push_back({{"role", "system"}, {"content", flags.system}});
  }

  // Answers one user message and remembers both.
  Status turn(const std::string& text) {
    messages_.push_back({{"role", "user"}, {"content", text}});
    ASSIGN_OR_RETURN(const std::vector<TokenId> prompt, flags_.raw ? raw_prompt(text) : chat_prompt());
    ASSIGN_OR_RETURN(Request request, make_request(prompt));
    Events events;
    const auto start = std::chrono::steady_clock::now();
    const Engine::Submitted submitted = engine_.submit(std::move(request), events.sink());
    if (submitted.error)
      return Error{"the prompt of " + std::to_string(prompt.size()) + " tokens does not fit the executor's memory"};
    RETURN_IF_ERROR(flags_.raw ? stream_raw(events, start) : stream_chat(events, start));
    print_figures(prompt.size());
    return Ok{};
  }

 private:
  Result<std::vector<TokenId>> raw_prompt(const std::string& text) const {
    return loaded_.tokenizer->encode(text, {true, true});
  }

  Result<std::vector<TokenId>> chat_prompt() const {
    boost::json::object extra;
    if (flags_.no_thinking) extra["reasoning"] = false;
    ChatRenderOptions options;
    for (TokenId id = 0; id < loaded_.tokenizer->vocab_size(); ++id)
      if (loaded_.tokenizer->is_added(id)) options.markers.emplace_back(loaded_.tokenizer->token_bytes(id));
    options.keep_parts = loaded_.chat_template->reads_content_parts();
    ASSIGN_OR_RETURN(const boost::json::object variables, prepare_chat(messages_, {}, extra, options));
    ASSIGN_OR_RETURN(const std::string rendered, loaded_.chat_template->render(variables));
    return loaded_.tokenizer->encode(rendered, {false, true});
  }

  Result<Request> make_request(const std::vector<TokenId>& prompt) const {
    const ModelConfig& config = loaded_.model->config();
    const int32_t left = engine_.context_max() - static_cast<int32_t>(prompt.size());
    if (left < 1)
      return Error{"the prompt has " + std::to_string(prompt.size()) + " tokens, the maximum context length is " +
                   std::to_string(engine_.context_max()) + " tokens"};
    for (TokenId id : prompt)
      if (id >= config.vocab_size)
        return Error{"the tokenizer gives id " + std::to_string(id) + ", the model's vocabulary has " +
                     std::to_string(config.vocab_size)};
    Request request;
    request.prompt = prompt;
    request.max_tokens = std::min(flags_.max_tokens, left);
    request.stop_ids = end_ids(loaded_);
    const auto pick = [](float flag, float model, float otherwise) {
      return flag >= 0 ? flag : model >= 0 ? model : otherwise;
    };
    request.sampling.temperature = pick(flags_.temperature, config.default_temperature, 1.0f);
    request.sampling.top_p = pick(flags_.top_p, config.default_top_p, SamplingDefaults().top_p);
    request.sampling.seed = flags_.seed >= 0 ? static_cast<uint64_t>(flags_.seed) : std::random_device()();
    return request;
  }

  // Ids that a dummy model draws and the tokenizer lacks print as <id>.
  std::string bytes_of(TokenId id) const {
    const std::string_view bytes = loaded_.tokenizer->token_bytes(id);
    return bytes.empty() ? "<" + std::to_string(id) + ">" : std::string(bytes);
  }

  // Waits for events until the end; calls `show(token id)` for each token.
  template <class Show>
  Status follow(Events& events, std::chrono::steady_clock::time_point start, OutputParser::End& end, Show&& show) {
    output_tokens_ = 0;
    for (;;) {
      const TokenEvent event = events.next();
      for (const SampledToken& token : event.tokens) {
        if (output_tokens_++ == 0) first_token_ = std::chrono::steady_clock::now();
        show(token.id);
      }
      std::cout.flush();
      if (!event.finish) continue;
      last_token_ = std::chrono::steady_clock::now();
      start_ = start;
      if (*event.finish == FinishReason::kError) return Error{event.error};
      end = *event.finish == FinishReason::kLength ? OutputParser::End::kLength : OutputParser::End::kStop;
      return Ok{};
    }
  }

  Status stream_chat(Events& events, std::chrono::steady_clock::time_point start) {
    OutputParserOptions options;
    options.starts_in_thinking = !flags_.no_thinking;
    OutputParser parser(loaded_.markers, options);
    ParsedOutput answer;
    std::vector<OutputEvent> pieces;
    OutputParser::End end = OutputParser::End::kStop;
    const auto show = [&](TokenId id) {
      pieces.clear();
      parser.push(id, loaded_.tokenizer->is_special(id) ? std::string() : bytes_of(id), pieces);
      print(pieces);
      answer.add(pieces);
    };
    RETURN_IF_ERROR(follow(events, start, end, show));
    pieces.clear();
    parser.finish(end, pieces);
    print(pieces);
    answer.add(pieces);
    std::cout << plain() << "\n";
    boost::json::object message{{"role", "assistant"}, {"content", answer.content}};
    if (!answer.reasoning.empty()) message["reasoning"] = answer.reasoning;
    messages_.push_back(message);
    return Ok{};
  }

  Status stream_raw(Events& events, std::chrono::steady_clock::time_point start) {
    RawOutput output(RawOutput::Options{});
    bool matched = false;
    OutputParser::End end = OutputParser::End::kStop;
    RETURN_IF_ERROR(follow(events, start, end, [&](TokenId id) {
      std::cout << output.push(bytes_of(id), loaded_.tokenizer->is_special(id), matched);
    }));
    std::cout << output.finish() << "\n";
    return Ok{};
  }

  void print(const std::vector<OutputEvent>& pieces) {
    for (const OutputEvent& piece : pieces) {
      const bool reasoning = piece.kind == OutputEvent::Kind::kReasoning;
      if (reasoning != dimmed_) {
        if (dimmed_) std::cout << plain() << "\n\n";
        if (reasoning && colour_) std::cout << "\033[2m";
        dimmed_ = reasoning;
      }
      if (piece.kind == OutputEvent::Kind::kToolCallStart) std::cout << "\n[calls " << piece.text << "] ";
      else std::cout << piece.text;
    }
  }
  std::string plain() {
    dimmed_ = false;
    return colour_ ? "\033[0m" : "";
  }

  void print_figures(size_t prompt_tokens) const {
    const auto ms = [](auto from, auto to) { return std::chrono::duration<double, std::milli>(to - from).count(); };
    std::cerr << "[" << prompt_tokens << " prompt tokens, " << output_tokens_ << " generated";
    if (output_tokens_ > 0) std::cerr << ", first after " << static_cast<int64_t>(ms(start_, first_token_)) << " ms";
    if (output_tokens_ > 1)
      std::cerr << ", " << (output_tokens_ - 1) * 1e3 / std::max(ms(first_token_, last_token_), 1e-3) << " tok/s";
    std::cerr << ", " << info_.device << (loaded_.model->is_dummy() ? ", dummy weights" : "") << "]\n";
  }

  const GenerateFlags& flags_;
  const LoadedModel& loaded_;
  const ExecutorInfo& info_;
  Engine& engine_;
  bool colour_;
  bool dimmed_ = false;
  boost::json::array messages_;
  int64_t output_tokens_ = 0;
  std::chrono::steady_clock::time_point start_, first_token_, last_token_;
};

Status run(const GenerateFlags& flags) {
  ASSIGN_OR_RETURN(const LoadedModel loaded, load(flags));
  ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor, one_sequence_executor(flags, loaded));
  SteadyClock clock;
  EngineOptions options;
  options.running_max = 1;
  Engine engine(*executor, options, clock);
  Conversation conversation(flags, loaded, executor->info(), engine);
  if (!flags.prompt.empty()) return conversation.turn(flags.prompt);
  const bool interactive = isatty(STDIN_FILENO) != 0;
  for (std::string line;;) {
    if (interactive) std::cerr << "> " << std::flush;
    if (!std::getline(std::cin, line)) return Ok{};
    if (!line.empty()) RETURN_IF_ERROR(conversation.turn(line));
  }
}

}  // namespace

void add_generate_command(Command app, int& exit_code) {
  const Command command = app.add_subcommand("generate", "answer a prompt, or chat line by line, in the terminal");
  auto flags = std::make_shared<GenerateFlags>();
  command.add_option("model,--model", flags->model, "checkpoint directory or hub id");
  command.add_option("-p,--prompt", flags->prompt, "the user's message; without it, lines of standard input");
  command.add_option("--system", flags->system, "a system message in front");
  command.add_flag("--raw", flags->raw, "continue the prompt as it is, without the chat template");
  command.add_flag("--no-thinking", flags->no_thinking, "ask for an answer without reasoning");
  command.add_option("--max-tokens", flags->max_tokens, "generated tokens at most").between(1, 1 << 20).show_default();
  command.add_option("--temperature", flags->temperature, "0: greedy; default: the checkpoint's, else 1")
      .between(0.0, 2.0);
  command.add_option("--top-p", flags->top_p, "default: the checkpoint's, else 0.95").between(1e-6, 1.0);
  command.add_option("--seed", flags->seed, "the same seed gives the same text; default: a random one")
      .between(int64_t{0}, INT64_MAX);
  command.add_option("--device", flags->device, "auto, cpu, cuda or cuda:INDEX").show_default();
  command.add_option("--threads", flags->threads, "CPU threads, 0: all").between(0, 1024);
  command.add_option("--load-format", flags->load_format, "auto, or dummy for made-up weights")
      .one_of({"auto", "dummy"});
  command.add_option("--model-shape", flags->model_shape, "shape for dummy weights");
  command.add_option("--tokenizer", flags->tokenizer, "directory of tokenizer and template, if not the model's");
  command.callback([=, &exit_code] {
    const Status status = run(*flags);
    if (status.ok()) return;
    std::cerr << "boreas generate: " << status.error().message << "\n";
    exit_code = 2;
  });
}

}  // namespace boreas
