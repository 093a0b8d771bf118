#include "test_server.h"

#include <utility>

#include "base/check.h"
#include "test_client.h"

namespace boreas {

TestServerOptions::TestServerOptions() {
  server.version = "0.0.0-test";
  server.model_names = {"tiny", "org/tiny"};
  server.http.sweep_interval_ms = 20;
  fake.vocab_size = 512;
  fake.context_max = 4096;
  fake.window = 128;
  fake.sequence_slots = 64;
  fake.rows_max = 64;
  fake.tokens_max = 2048;
  fake.pages_full = 1024;
  fake.pages_sliding = 512;
  engine.running_max = 64;
  engine.waiting_max = 64;
}

TestServer::TestServer(TestServerOptions options) : options_(std::move(options)) {
  set_log_level("off");
  const std::string directory = std::string(BOREAS_SOURCE_DIR) + "/models/tiny";
  Result<Tokenizer> tokenizer = Tokenizer::load(directory);
  CHECK(tokenizer.ok());
  tokenizer_ = std::make_unique<Tokenizer>(std::move(*tokenizer));
  Result<ChatTemplate> chat_template = ChatTemplate::load(directory);
  CHECK(chat_template.ok());
  chat_template_ = std::make_unique<ChatTemplate>(std::move(*chat_template));
  Result<OutputMarkers> markers = find_output_markers(*tokenizer_);
  CHECK(markers.ok());
  end_of_turn_ = markers->end_of_turn;
  script_ = {end_of_turn_};

  if (options_.scripted) {
    options_.fake.script = [this](std::span<const TokenId>, int32_t output_index) { return next_token(output_index); };
  }
  executor_ = std::make_unique<FakeExecutor>(options_.fake);
  engine_ = std::make_unique<Engine>(*executor_, options_.engine, clock_);
  baseline_ = engine_->stats();

  served_.engine = engine_.get();
  served_.tokenizer = tokenizer_.get();
  served_.chat_template = chat_template_.get();
  served_.clock = &clock_;
  served_.markers = *markers;
  served_.eos_ids = {end_of_turn_};
  served_.vocab_size = options_.fake.vocab_size;
  served_.fingerprint = "fp_test";
  Result<std::unique_ptr<Server>> server = Server::start(options_.server);
  if (!server.ok()) std::fprintf(stderr, "%s\n", server.error().message.c_str());
  CHECK(server.ok());
  server_ = std::move(*server);
  if (options_.ready) make_ready();
}

TestServer::~TestServer() {
  release();
  server_->shut_down();
  server_.reset();
  engine_.reset();
}

void TestServer::make_ready() { server_->ready(served_); }

TokenId TestServer::next_token(int32_t output_index) {
  std::unique_lock lock(mutex_);
  is_held_ = holds_;
  if (is_held_) changed_.notify_all();
  changed_.wait(lock, [this] { return !holds_; });
  is_held_ = false;
  auto index = static_cast<size_t>(output_index);
  if (repeats_) index %= script_.size();
  return index < script_.size() ? script_[index] : end_of_turn_;
}

void TestServer::hold() {
  const std::lock_guard lock(mutex_);
  holds_ = true;
}

void TestServer::wait_until_held() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_held_; });
}

bool TestServer::wait_for_requests(int32_t count) {
  return eventually([this, count] {
    const EngineStats stats = engine_->stats();
    return stats.running + stats.waiting == count;
  });
}

void TestServer::release() {
  const std::lock_guard lock(mutex_);
  holds_ = false;
  changed_.notify_all();
}

std::vector<TokenId> TestServer::ids(const std::string& text) const {
  Result<std::vector<TokenId>> ids = tokenizer_->encode(text, {false, true});
  CHECK(ids.ok());
  return *ids;
}

void TestServer::write_ids(std::vector<TokenId> output) {
  const std::lock_guard lock(mutex_);
  script_ = std::move(output);
  repeats_ = false;
}

void TestServer::write(const std::string& output) { write_ids(ids(output)); }

void TestServer::write_forever(const std::string& unit) {
  write(unit);
  const std::lock_guard lock(mutex_);
  repeats_ = true;
}

bool TestServer::idle_at_baseline() {
  return eventually([this] {
    const EngineStats now = engine_->stats();
    return now.running == 0 && now.waiting == 0 && now.pages_full_free == baseline_.pages_full_free &&
           now.pages_sliding_free == baseline_.pages_sliding_free;
  });
}

}  // namespace boreas
