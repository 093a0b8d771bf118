// A whole server in this process: FakeExecutor, Engine, Server, with the tokenizer and the chat template of
// models/tiny. What the model "writes" is a script that a test sets; markers in it are written by name.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "exec/fake/fake_executor.h"
#include "server/server.h"

namespace boreas {

struct TestServerOptions {
  ServerOptions server;
  EngineOptions engine;
  FakeOptions fake;
  bool ready = true;     // false: stays "loading" until make_ready()
  bool scripted = true;  // false: the fake executor's own tokens
  TestServerOptions();
};

class TestServer {
 public:
  explicit TestServer(TestServerOptions options = {});
  ~TestServer();

  uint16_t port() const { return server_->port(); }
  Server& server() { return *server_; }
  Engine& engine() { return *engine_; }
  FakeExecutor& executor() { return *executor_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  void make_ready();

  // Every request from now on gets these tokens, then END_OF_TURN for ever. "<|END_TEXT|>" and the like are markers.
  void write(const std::string& output);
  void write_ids(std::vector<TokenId> output);
  // The output is `unit` repeated for ever.
  void write_forever(const std::string& unit);
  std::vector<TokenId> ids(const std::string& text) const;

  // From now on the model stops before it writes a token, and the engine with it, until release().
  void hold();
  // Until the engine stands still, because something has got so far.
  void wait_until_held();
  // Until so many requests are with the engine; false: they did not come.
  bool wait_for_requests(int32_t count);
  void release();

  // Waits until nothing runs or waits and all pages are free or cached as at the start.
  bool idle_at_baseline();

 private:
  TokenId next_token(int32_t output_index);

  TestServerOptions options_;
  SteadyClock clock_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ChatTemplate> chat_template_;
  std::unique_ptr<FakeExecutor> executor_;
  std::unique_ptr<Engine> engine_;
  ServedModel served_;
  EngineStats baseline_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool holds_ = false, is_held_ = false;
  std::vector<TokenId> script_;
  bool repeats_ = false;
  TokenId end_of_turn_ = -1;
  std::unique_ptr<Server> server_;  // first to go
};

}  // namespace boreas
