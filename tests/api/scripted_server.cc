// A server for clients that live in other processes: the node tests and stream_load. It writes by simple rules, so that
// a client can ask for what it wants to see:
//   a prompt with tools and without a tool result  -> thinks, then calls the tool "read_file"
//   any other prompt                               -> thinks, then says one sentence
//   --forever                                      -> words without end
// Prints its port and runs until its standard input closes.
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <string>

#include "test_server.h"

namespace boreas {
namespace {

constexpr char kSentence[] =
    "The user wants a list.<|END_THINKING|><|START_TEXT|>The sorted list is here.<|END_TEXT|><|END_OF_TURN_TOKEN|>";
constexpr char kCall[] =
    "I read the file.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"read_file\", "
    "\"parameters\": {\"path\": \"/tmp/list.txt\"}}\n]<|END_ACTION|><|END_OF_TURN_TOKEN|>";
constexpr char kWords[] = "and on it goes with the table of the list ";

// Looks at a prompt when its first token is due and remembers what to write for it.
class Author {
 public:
  explicit Author(bool forever) : forever_(forever) {}
  void learn(const TestServer& server) {
    const std::lock_guard lock(mutex_);
    tokenizer_ = &server.tokenizer();
    sentence_ = server.ids(kSentence);
    call_ = server.ids(kCall);
    words_ = server.ids(kWords);
  }
  TokenId next(std::span<const TokenId> prompt, int32_t output_index) {
    const std::lock_guard lock(mutex_);
    if (tokenizer_ == nullptr) return 0;
    if (forever_) return words_[static_cast<size_t>(output_index) % words_.size()];
    if (output_index == 0) calls_[prompt.data()] = wants_call(tokenizer_->decode(prompt, false));
    const std::vector<TokenId>& text = calls_[prompt.data()] ? call_ : sentence_;
    return text[std::min(static_cast<size_t>(output_index), text.size() - 1)];
  }

 private:
  static bool wants_call(const std::string& prompt) {
    return prompt.find("\"description\"") != std::string::npos &&
           prompt.find("<|START_TOOL_RESULT|>") == std::string::npos;
  }

  const bool forever_;
  std::mutex mutex_;
  const Tokenizer* tokenizer_ = nullptr;
  std::vector<TokenId> sentence_, call_, words_;
  std::map<const TokenId*, bool> calls_;
};

int run(int argc, char** argv) {
  TestServerOptions options;
  bool forever = false;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&] { return i + 1 < argc ? std::atoi(argv[++i]) : 0; };
    if (flag == "--forever") forever = true;
    if (flag == "--step-us") options.fake.step_ns = value() * int64_t{1000};
    if (flag == "--slots") options.fake.sequence_slots = options.fake.rows_max = options.engine.running_max = value();
    if (flag == "--waiting") options.engine.waiting_max = value();
  }
  options.fake.tokens_max = 8192;
  options.fake.pages_full = 64 * options.fake.sequence_slots;
  options.fake.pages_sliding = 4 * options.fake.sequence_slots + 256;
  options.fake.full_logits = false;
  options.fake.reads = !forever;  // what the fake executor itself costs is not the server's
  options.fake.steps_in_flight_max = 2;
  options.engine.step_tokens_max = 8192;
  options.server.http.sweep_interval_ms = HttpOptions().sweep_interval_ms;
  options.scripted = false;
  Author author(forever);
  options.fake.script = [&author](std::span<const TokenId> prompt, int32_t output_index) {
    return author.next(prompt, output_index);
  };
  TestServer server(options);
  author.learn(server);
  std::cout << server.port() << std::endl;
  char byte;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}

}  // namespace
}  // namespace boreas

int main(int argc, char** argv) { return boreas::run(argc, argv); }
