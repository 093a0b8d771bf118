// For tests of EngineCore: a core over a fake executor and a virtual clock, made on first use with the options that the
// test has set, and what its clients hear. The executor is a parameter, because only tests may name a concrete one.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/core.h"

namespace boreas {

struct Log {
  std::vector<TokenEvent> events;
  std::vector<TokenId> tokens(int32_t choice = 0) const {
    std::vector<TokenId> ids;
    for (const TokenEvent& event : events) {
      for (const SampledToken& token : event.tokens) {
        if (event.choice == choice) ids.push_back(token.id);
      }
    }
    return ids;
  }
  std::optional<FinishReason> finish(int32_t choice = 0) const {
    for (const TokenEvent& event : events) {
      if (event.choice == choice && event.finish) return event.finish;
    }
    return std::nullopt;
  }
};

template <class Fake, class FakeSettings>
class CoreFixture : public ::testing::Test {
 protected:
  EngineCore& core() {
    if (!core_) {
      executor_ = std::make_unique<Fake>(fake);
      core_ = std::make_unique<EngineCore>(*executor_, options, clock);
    }
    return *core_;
  }
  // A fresh core, executor and logs on next use.
  void start_over() {
    core_.reset();
    executor_.reset();
    logs.clear();
    added_ = 0;
  }
  Fake& executor() {
    core();
    return *executor_;
  }
  Request request(int32_t prompt, int32_t max_tokens) {
    Request result;
    for (int32_t i = 0; i < prompt; ++i) result.prompt.push_back((i * 11 + prompt) % 64);
    result.max_tokens = max_tokens;
    return result;
  }
  Log& add(Request added) {
    const uint64_t id = ++added_;
    core().add(RequestId(id), std::move(added), [this, id](TokenEvent&& event) { logs[id].events.push_back(event); });
    return logs[id];
  }
  // What a client hears on an engine of its own.
  Log alone(Request wanted, const FakeSettings& settings, const EngineOptions& lone_options) {
    Fake lone(settings);
    EngineCore lone_core(lone, lone_options, clock);
    Log log;
    lone_core.add(RequestId(1), std::move(wanted), [&log](TokenEvent&& event) { log.events.push_back(event); });
    while (!lone_core.idle()) lone_core.step();
    return log;
  }
  Log alone(Request wanted) { return alone(std::move(wanted), fake, options); }
  void finish_all() {
    for (int i = 0; i < 100000 && !core().idle(); ++i) core().step();
    ASSERT_TRUE(core().idle());
    EXPECT_EQ(core().stats().pages_full_free, core().stats().pages_full);
    EXPECT_EQ(core().stats().pages_sliding_free, core().stats().pages_sliding);
    EXPECT_EQ(executor().open_slots(), 0);
  }

  FakeSettings fake;
  EngineOptions options;
  VirtualClock clock;
  std::map<uint64_t, Log> logs;

 private:
  std::unique_ptr<Fake> executor_;
  std::unique_ptr<EngineCore> core_;
  uint64_t added_ = 0;
};

}  // namespace boreas
