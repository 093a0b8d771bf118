// PageLedger and PrefixCache beside a naive model: a list of cached texts with the time since when nobody uses them.
// Random sequences look up, adopt, grow, publish, verify and end; after every operation the cache must hold exactly
// what the model says, and a page must hold the text it is cached for.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>

#include "base/prng.h"
#include "engine/page_ledger.h"
#include "seeds.h"

namespace boreas {
namespace {

constexpr PagePoolKind kKinds[] = {PagePoolKind::kFull, PagePoolKind::kSliding};
using Text = std::vector<TokenId>;  // one symbol a page: all 64 tokens of a page are equal

struct Cached {
  PageId page = kNoPage;
  bool verified = false;
  bool idle = false;
  int64_t idle_since = 0;
  bool passing = false;
};
using Contents = std::map<Text, Cached>;

struct Writer {
  SequencePages pages;
  Text text;
  int32_t positions = 0;
};

class Model {
 public:
  explicit Model(uint64_t seed)
      : prng_(seed),
        window_(static_cast<int32_t>(prng_.between(1, 200))),
        ledger_(pick(4, 24), pick(4, 16), window_, seed) {
    for (const PagePoolKind kind : kKinds) written(kind).resize(static_cast<size_t>(ledger_.pool(kind).pages()));
  }

  void act() {
    const int32_t action = pick(0, 9);
    if (writers_.empty() || (action < 2 && writers_.size() < 4)) return start();
    Writer& writer = writers_[static_cast<size_t>(pick(0, static_cast<int32_t>(writers_.size()) - 1))];
    if (action < 7) return grow(writer);
    if (action < 8) return verify(writer);
    end(static_cast<size_t>(&writer - writers_.data()));
  }

 private:
  int32_t pick(int32_t low, int32_t high) { return static_cast<int32_t>(prng_.between(low, high)); }
  std::vector<Text>& written(PagePoolKind kind) { return written_[static_cast<size_t>(kind)]; }
  Contents& contents(PagePoolKind kind) { return contents_[static_cast<size_t>(kind)]; }
  static Text first(const Text& text, size_t pages) {
    return {text.begin(), text.begin() + static_cast<int64_t>(pages)};
  }

  // What the cache holds, read from its nodes.
  Contents read(PagePoolKind kind) {
    Contents result;
    const PrefixCache& cache = ledger_.cache();
    for (int32_t i = 0; i < cache.nodes_end(); ++i) {
      const PrefixCache::Node& node = cache.node(NodeId(i));
      if (node.serial == 0 || node.at(kind).page == kNoPage) continue;
      Text text;
      for (NodeId up{i}; cache.node(up).parent != kNoNode; up = cache.node(up).parent) {
        text.insert(text.begin(), cache.tokens(up)[0]);
      }
      Cached cached;
      cached.page = node.at(kind).page;
      cached.verified = node.at(kind).verified();
      cached.idle = ledger_.pool(kind).references(cached.page) == 1;
      EXPECT_TRUE(result.emplace(text, cached).second) << "a text twice";
      if (cached.verified) {
        EXPECT_EQ(written(kind)[static_cast<size_t>(cached.page.value)], text);
      }
    }
    return result;
  }

  // Takes over what the cache holds now. Pages that have just become idle did so in the order of `before`.
  void look(
      const std::function<bool(const Text&, const Text&)>& before,
      const std::function<bool(const Text&)>& passing = [](const Text&) { return false; }) {
    for (const PagePoolKind kind : kKinds) {
      Contents now = read(kind);
      std::vector<Text> fresh;
      for (auto& [text, cached] : now) {
        const auto old = contents(kind).find(text);
        const bool was_idle = old != contents(kind).end() && old->second.idle && old->second.page == cached.page;
        if (was_idle) {
          cached.idle_since = old->second.idle_since;
          cached.passing = old->second.passing;
        } else if (cached.idle) {
          fresh.push_back(text);
        }
      }
      std::sort(fresh.begin(), fresh.end(), before);
      for (const Text& text : fresh) {
        now.at(text).idle_since = ++time_;
        now.at(text).passing = kind == PagePoolKind::kSliding && passing(text);
      }
      contents(kind) = std::move(now);
    }
  }

  void expect_unchanged(PagePoolKind kind, const Contents& expected) {
    const Contents now = read(kind);
    ASSERT_EQ(now.size(), expected.size());
    for (const auto& [text, cached] : expected) {
      const auto found = now.find(text);
      ASSERT_TRUE(found != now.end());
      ASSERT_EQ(found->second.page, cached.page);
    }
  }

  // The model's eviction: the oldest idle page, passing ones first.
  void evict_one(PagePoolKind kind, std::array<Contents, 2>& expected) {
    Contents& list = expected[static_cast<size_t>(kind)];
    auto oldest = list.end();
    for (auto entry = list.begin(); entry != list.end(); ++entry) {
      if (!entry->second.idle) continue;
      const auto key = [](const Cached& cached) { return std::pair(!cached.passing, cached.idle_since); };
      if (oldest == list.end() || key(entry->second) < key(oldest->second)) oldest = entry;
    }
    ASSERT_TRUE(oldest != list.end());
    const Text text = oldest->first;
    list.erase(oldest);
    if (kind == PagePoolKind::kFull) expected[1].erase(text);
  }

  // The longest beginning of the text that may be adopted, found by trying all.
  size_t expected_hit(const Text& text) {
    size_t best = 0;
    for (size_t count = 1; count <= text.size(); ++count) {
      const auto full = contents(PagePoolKind::kFull).find(first(text, count));
      if (full == contents(PagePoolKind::kFull).end() || !full->second.verified) break;
      bool complete = true;
      const int32_t position = static_cast<int32_t>(count) * kPagePositions;
      for (int32_t key = std::max(0, position - window_ + 1); key < position; ++key) {
        const auto page = contents(PagePoolKind::kSliding).find(first(text, static_cast<size_t>(page_of(key)) + 1));
        complete = complete && page != contents(PagePoolKind::kSliding).end() && page->second.verified;
      }
      if (complete) best = count;
    }
    return best;
  }

  PageText page_text(TokenId symbol) {
    buffer_.assign(kPagePositions, symbol);
    return {buffer_, ledger_.cache().hash_tokens(buffer_)};
  }

  void start() {
    Writer writer;
    writer.pages.writer = ++writer_ids_;
    for (int32_t i = pick(1, 6); i > 0; --i) writer.text.push_back(pick(0, 1));
    PrefixCache& cache = ledger_.cache();
    writer.pages.root = cache.pin_root("");
    std::vector<NodeId> nodes;
    NodeId node = writer.pages.root;
    for (const TokenId symbol : writer.text) {
      node = cache.find_child(node, page_text(symbol));
      if (node == kNoNode || !cache.node(node).at(PagePoolKind::kFull).verified()) break;
      nodes.push_back(node);
    }
    nodes.resize(static_cast<size_t>(ledger_.adoptable(nodes)));
    ASSERT_EQ(nodes.size(), expected_hit(writer.text));
    if (!nodes.empty()) ledger_.adopt(writer.pages, nodes);
    writer.positions = static_cast<int32_t>(nodes.size()) * kPagePositions;
    for (size_t i = 0; i < nodes.size(); ++i) {
      EXPECT_EQ(written(PagePoolKind::kFull)[static_cast<size_t>(writer.pages.full[i].value)],
                first(writer.text, i + 1));
    }
    writers_.push_back(std::move(writer));
    look([](const Text& a, const Text& b) { return a < b; });
  }

  // One page more of the text, or a symbol more where it is all computed.
  void grow(Writer& writer) {
    if (static_cast<int32_t>(writer.text.size()) * kPagePositions == writer.positions)
      writer.text.push_back(pick(0, 1));
    SequencePages& pages = writer.pages;
    const int32_t first_live = pages.sliding_first;
    ledger_.leave_window(pages, writer.positions);
    look([](const Text& a, const Text& b) { return a.size() < b.size(); },
         [&](const Text& text) { return static_cast<int32_t>(text.size()) > pages.adopted; });
    EXPECT_GE(pages.sliding_first, first_live);
    std::array<Contents, 2> expected = contents_;
    const int32_t end = writer.positions + kPagePositions;
    int32_t idle[2];
    for (const PagePoolKind kind : kKinds) {
      idle[static_cast<size_t>(kind)] = static_cast<int32_t>(std::count_if(
          contents(kind).begin(), contents(kind).end(), [](const auto& entry) { return entry.second.idle; }));
      EXPECT_EQ(ledger_.available(kind), ledger_.pool(kind).pages_free() + idle[static_cast<size_t>(kind)]);
    }
    const bool possible = ledger_.available(PagePoolKind::kFull) > 0 && ledger_.available(PagePoolKind::kSliding) > 0;
    const bool full_used_up = ledger_.pool(PagePoolKind::kFull).pages_free() == 0;
    if (possible && full_used_up) evict_one(PagePoolKind::kFull, expected);
    // With a full page goes its sliding page, back to the pool if nobody uses it.
    int32_t dropped = 0;
    for (const auto& [text, cached] : contents_[1]) dropped += cached.idle && !expected[1].contains(text);
    const bool sliding_used_up = ledger_.pool(PagePoolKind::kSliding).pages_free() + dropped == 0;
    if (possible && sliding_used_up) evict_one(PagePoolKind::kSliding, expected);
    ASSERT_EQ(ledger_.cover(pages, writer.positions, end), possible);
    for (const PagePoolKind kind : kKinds) expect_unchanged(kind, expected[static_cast<size_t>(kind)]);
    if (!possible) return;
    const auto index = static_cast<size_t>(page_of(writer.positions));
    written(PagePoolKind::kFull)[static_cast<size_t>(pages.full[index].value)] = first(writer.text, index + 1);
    written(PagePoolKind::kSliding)[static_cast<size_t>(pages.sliding[index].value)] = first(writer.text, index + 1);
    writer.positions = end;
    ledger_.publish(pages, page_text(writer.text[index]));
    look([](const Text& a, const Text& b) { return a < b; });
  }

  void verify(Writer& writer) {
    while (writer.pages.verified < static_cast<int32_t>(writer.pages.path.size())) ledger_.verify(writer.pages);
    look([](const Text& a, const Text& b) { return a < b; });
  }

  void end(size_t index) {
    Writer& writer = writers_[index];
    const auto verified = static_cast<size_t>(writer.pages.verified);
    const Text text = writer.text;
    ledger_.release(writer.pages);
    writers_.erase(writers_.begin() + static_cast<int64_t>(index));
    look([](const Text& a, const Text& b) { return a.size() > b.size(); });
    // Whatever was evicted meanwhile: all that is good is there for the next.
    for (size_t count = 1; count <= verified; ++count) {
      const auto found = contents(PagePoolKind::kFull).find(first(text, count));
      ASSERT_TRUE(found != contents(PagePoolKind::kFull).end() && found->second.verified);
    }
    if (!writers_.empty()) return;
    for (const PagePoolKind kind : kKinds) {
      ASSERT_EQ(ledger_.available(kind), ledger_.pool(kind).pages());
      for (const auto& entry : contents(kind)) ASSERT_TRUE(entry.second.verified) << "a pending page is left";
    }
  }

  Prng prng_;
  const int32_t window_;
  PageLedger ledger_;
  std::array<std::vector<Text>, 2> written_;  // by PagePoolKind: the text that a page was last written for
  std::array<Contents, 2> contents_;
  std::vector<Writer> writers_;
  std::vector<TokenId> buffer_;
  uint64_t writer_ids_ = 0;
  int64_t time_ = 0;
};

TEST(PrefixCacheModel, HoldsAndEvictsWhatANaiveListWould) {
  for (Seeds seeds(400, 4); seeds.next();) {
    SCOPED_TRACE("seed " + std::to_string(seeds.seed()));
    Model model(seeds.seed());
    for (int i = 0; i < 300 && !::testing::Test::HasFailure(); ++i) model.act();
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
}

}  // namespace
}  // namespace boreas
