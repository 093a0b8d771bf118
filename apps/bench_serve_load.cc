#include "bench_serve_load.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <span>
#include <thread>

#include "base/check.h"
#include "base/prng.h"

namespace boreas {

namespace json = boost::json;

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kProgressEvery = std::chrono::milliseconds(500);
constexpr auto kStopPoll = std::chrono::milliseconds(50);
constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr int32_t kUnreachablePerClient = 3;  // in a row, before the server counts as gone

std::shared_ptr<const Conversation> borrowed(const Conversation& conversation) {
  return {std::shared_ptr<const Conversation>(), &conversation};
}

class Load {
 public:
  // conversations: all of them, for the open loop.
  Load(const ConversationSource& source, std::span<const Conversation> conversations, const ServeLoadOptions& options)
      : source_(source), conversations_(conversations), options_(options) {
    for (const Conversation& conversation : conversations) requests_ += conversation.turns.size();
    const int32_t clients = options.rate > 0 ? 1 : options.clients;
    unreachable_max_ = clients * kUnreachablePerClient;
  }

  LoadResult run() {
    const int64_t start_ns = now_ns();
    begin_until_ns_ =
        options_.seconds_max > 0 ? start_ns + static_cast<int64_t>(options_.seconds_max * kNsPerSecond) : INT64_MAX;
    std::thread workers([this] {
      if (options_.rate > 0) open_loop();
      else closed_loop();
      const std::lock_guard lock(mutex_);
      over_ = true;
      changed_.notify_all();
    });
    watch();
    workers.join();
    int64_t end_ns = start_ns;
    for (const ChatRecord& record : result_.records) end_ns = std::max(end_ns, record.end_ns);
    result_.seconds = static_cast<double>(end_ns - start_ns) / kNsPerSecond;
    return std::move(result_);
  }

 private:
  // The caller's thread: tells how far it is and passes on the wish to stop.
  void watch() {
    const bool terminal = ::isatty(STDERR_FILENO) != 0;
    const int64_t start_ns = now_ns();
    int64_t shown_ns = start_ns;
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kStopPoll, [this] { return over_; })) {
      if (options_.stop && *options_.stop && !quit_) {
        quit_ = true;
        result_.interrupted = true;
      }
      if (options_.on_progress) options_.on_progress();
      const auto every = std::chrono::nanoseconds(terminal ? kProgressEvery : 20 * kProgressEvery).count();
      if (!options_.show_progress || now_ns() - shown_ns < every) continue;
      shown_ns = now_ns();
      print_progress(static_cast<double>(shown_ns - start_ns) / kNsPerSecond, terminal);
    }
    if (options_.show_progress && terminal) std::fprintf(stderr, "\r\033[K");
  }

  void print_progress(double seconds, bool terminal) const {
    const std::string of = requests_ > 0 ? " of " + std::to_string(requests_) : "";
    const std::string note = options_.progress_note ? options_.progress_note() : "";
    std::fprintf(stderr, "%s%zu%s requests, %d under way, %zu failed, %lld tokens, %.1f tok/s, %.0f s%s%s",
                 terminal ? "\r\033[K" : "", result_.records.size(), of.c_str(), under_way_.load(), failed_,
                 static_cast<long long>(output_tokens_), static_cast<double>(output_tokens_) / seconds, seconds,
                 note.c_str(), terminal ? "" : "\n");
    std::fflush(stderr);
  }

  void closed_loop() {
    std::vector<std::thread> clients;
    std::mutex source_mutex;
    const auto next = [this, &source_mutex] {
      const std::lock_guard lock(source_mutex);
      return may_begin() ? source_() : nullptr;
    };
    for (int32_t i = 0; i < options_.clients; ++i) {
      clients.emplace_back([this, &next] {
        HttpClient client(options_.target, options_.timeout_ms);
        while (const std::shared_ptr<const Conversation> conversation = next()) converse(client, *conversation);
      });
    }
    for (std::thread& client : clients) client.join();
  }

  void open_loop() {
    Prng prng(options_.seed ^ fnv1a_64("arrivals", 8));
    const double turns = static_cast<double>(requests_) / static_cast<double>(conversations_.size());
    const double gap_s = turns / options_.rate;
    std::vector<std::thread> workers;
    double due_s = 0;
    const Clock::time_point start = Clock::now();
    for (const Conversation& conversation : conversations_) {
      const auto due = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(due_s));
      if (!sleep_until(due) || !may_begin()) break;
      due_s += -std::log(1 - static_cast<double>(prng.uniform())) * gap_s;
      if (hand_over(conversation, workers)) continue;
      for (size_t turn = 0; turn < conversation.turns.size(); ++turn) add(not_sent());
    }
    {
      const std::lock_guard lock(mutex_);
      all_due_ = true;
      due_changed_.notify_all();
    }
    for (std::thread& worker : workers) worker.join();
  }

  // To an idle worker or one more of them. False: there are kOpenMax and all are busy.
  bool hand_over(const Conversation& conversation, std::vector<std::thread>& workers) {
    const std::lock_guard lock(mutex_);
    if (due_.size() >= idle_workers_) {
      if (workers.size() >= static_cast<size_t>(kOpenMax)) return false;
      ++idle_workers_;
      workers.emplace_back([this] { work_off(); });
    }
    due_.push_back(&conversation);
    due_changed_.notify_one();
    return true;
  }

  void work_off() {
    HttpClient client(options_.target, options_.timeout_ms);
    std::unique_lock lock(mutex_);
    while (true) {
      due_changed_.wait(lock, [this] { return !due_.empty() || all_due_; });
      if (due_.empty()) return;
      const Conversation& conversation = *due_.front();
      due_.pop_front();
      --idle_workers_;
      lock.unlock();
      converse(client, conversation);
      lock.lock();
      ++idle_workers_;
    }
  }

  void converse(HttpClient& client, const Conversation& conversation) {
    const bool closed = options_.rate <= 0;
    for (size_t turn = 0; turn < conversation.turns.size() && may_begin(); ++turn) {
      const std::string body = request_body(conversation, turn, options_);
      ++under_way_;
      ChatRecord record = ask_patiently(client, body, closed);
      --under_way_;
      add(std::move(record));
    }
  }

  bool may_begin() const { return !quit_ && now_ns() < begin_until_ns_; }

  ChatRecord ask_patiently(HttpClient& client, const std::string& body, bool asks_again) {
    const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(options_.timeout_ms);
    int32_t waits = 0;
    while (true) {
      int32_t retry_after_s = -1;
      ChatRecord record = ask_stream(client, body, quit_, retry_after_s);
      record.waits_429 = waits;
      if (!asks_again || record.error != "http_429") return record;
      const Clock::time_point again = Clock::now() + std::chrono::seconds(retry_after_s < 0 ? 1 : retry_after_s);
      if (again >= deadline || !sleep_until(again)) return record;
      ++waits;
    }
  }

  static ChatRecord not_sent() {
    ChatRecord record;
    record.error = "too_many_open";
    record.sent_ns = record.end_ns = now_ns();
    return record;
  }

  void add(ChatRecord record) {
    if (record.error == kInterrupted && record.arrivals.empty()) return;
    const std::lock_guard lock(mutex_);
    output_tokens_ += record.output_tokens;
    failed_ += record.error.empty() ? 0 : 1;
    unreachable_ = record.error == "unreachable" ? unreachable_ + 1 : 0;
    if (unreachable_ >= unreachable_max_) result_.lost_server = quit_ = true;
    result_.records.push_back(std::move(record));
  }

  // False: it is to end before.
  bool sleep_until(Clock::time_point due) {
    while (Clock::now() < due && !quit_) std::this_thread::sleep_until(std::min(due, Clock::now() + kStopPoll));
    return !quit_;
  }

  const ConversationSource& source_;
  const std::span<const Conversation> conversations_;
  const ServeLoadOptions& options_;
  size_t requests_ = 0;  // 0: nobody knows
  int64_t begin_until_ns_ = INT64_MAX;
  int32_t unreachable_max_ = 0;
  std::atomic<bool> quit_ = false;
  std::atomic<int32_t> under_way_ = 0;  // requests
  std::mutex mutex_;                    // guards what follows
  std::condition_variable changed_;
  bool over_ = false;
  LoadResult result_;
  int64_t output_tokens_ = 0;
  size_t failed_ = 0;
  int32_t unreachable_ = 0;
  // Of the open loop: who is due, and who can take it.
  std::condition_variable due_changed_;
  std::deque<const Conversation*> due_;
  size_t idle_workers_ = 0;
  bool all_due_ = false;
};

}  // namespace

std::string request_body(const Conversation& conversation, size_t turn, const ServeLoadOptions& options) {
  const Turn& asked = conversation.turns[turn];
  const auto end = conversation.messages.begin() + static_cast<std::ptrdiff_t>(asked.messages);
  json::object body;
  body["model"] = options.model;
  body["messages"] = json::array(conversation.messages.begin(), end);
  if (!conversation.tools.empty()) body["tools"] = conversation.tools;
  body["max_tokens"] = asked.answer_tokens;
  body["temperature"] = options.temperature;
  // One seed for all would draw the same token for all of them at a position, where made-up weights hardly care.
  const std::string text = json::serialize(body["messages"]);
  body["seed"] = static_cast<int64_t>((options.seed ^ fnv1a_64(text.data(), text.size())) & INT32_MAX);
  body["stream"] = true;
  body["stream_options"] = json::object{{"include_usage", true}, {"continuous_usage_stats", true}};
  if (options.ignore_eos) body["ignore_eos"] = true;
  return json::serialize(body);
}

LoadResult run_load(const std::vector<Conversation>& conversations, const ServeLoadOptions& options) {
  if (conversations.empty()) return {};
  size_t next = 0;
  const ConversationSource source = [&] {
    return next < conversations.size() ? borrowed(conversations[next++]) : nullptr;
  };
  return Load(source, conversations, options).run();
}

LoadResult run_load(const ConversationSource& source, const ServeLoadOptions& options) {
  CHECK(options.rate <= 0);
  return Load(source, {}, options).run();
}

std::string first_error_of(const LoadResult& result) {
  for (const ChatRecord& record : result.records)
    if (!record.error.empty() && record.error != kInterrupted) return record.error + ": " + record.message;
  return {};
}

}  // namespace boreas
