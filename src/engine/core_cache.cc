// What sequences take from the prefix cache when they start, and give to it as they go.
//
// A page is published, pending, when the row that completes it is submitted (a prompt) or applied (generated tokens),
// and verified when a later row of the sequence brings finite logits: pages of a request whose logits are corrupted are
// never handed out.
#include <algorithm>

#include "base/check.h"
#include "engine/core.h"

namespace boreas {

// buffer: storage for a page that is not wholly in the prompt.
PageText EngineCore::page_text(const Sequence& sequence, int32_t index, std::vector<TokenId>& buffer) const {
  const RequestState& request = *sequence.request;
  const auto i = static_cast<size_t>(index);
  if (i < request.page_hashes.size()) {
    return {std::span(request.request.prompt).subspan(i * kPagePositions, kPagePositions), request.page_hashes[i]};
  }
  buffer.resize(kPagePositions);
  for (int32_t offset = 0; offset < kPagePositions; ++offset) {
    buffer[static_cast<size_t>(offset)] = sequence.token_at(index * kPagePositions + offset);
  }
  return {buffer, ledger_.cache().hash_tokens(buffer)};
}

// The last token must always be computed: its logits are wanted. Where prefill is another arithmetic than decode, a
// prompt's rest must be a range of two tokens or more to get the bits of a prefill; so must the rest of a prompt that
// choices share. Scoring needs the logits of every token.
int32_t EngineCore::hit_pages_max(const Sequence& sequence) const {
  if (!limits_.prefix_cache || sequence.computes_as_scored(limits_)) return 0;
  const bool any_length = limits_.one_arithmetic && (sequence.request->share_end == 0 || !sequence.output.empty());
  const int32_t positions = any_length ? sequence.known_length() - 1 : sequence.prompt_length() - 2;
  return page_of(std::max(positions, 0));
}

// Follows the text through the cache, from where the last look ended if that place is still there. What lies before it
// is looked at when it is used.
void EngineCore::find_prefix(Sequence& sequence) {
  const PrefixCache& cache = ledger_.cache();
  PrefixMatch& match = sequence.match;
  const int32_t pages_max = hit_pages_max(sequence);
  if (match.pages > pages_max || !cache.alive(match.node, match.serial)) match = PrefixMatch();
  NodeId node = match.pages > 0 ? match.node : cache.find_root(sequence.request->request.cache_salt);
  std::vector<TokenId> buffer;
  while (node != kNoNode && match.pages < pages_max) {
    node = cache.find_child(node, page_text(sequence, match.pages, buffer));
    if (node == kNoNode || !cache.node(node).at(PagePoolKind::kFull).verified()) return;
    match = {node, cache.node(node).serial, match.pages + 1};
  }
}

// The nodes that the sequence may start from now. Tokens that were generated once must get the same bits again, so a
// sequence that has some takes only pages that it would compute so itself.
std::vector<NodeId> EngineCore::usable_prefix(Sequence& sequence) {
  const PrefixCache& cache = ledger_.cache();
  std::vector<NodeId> nodes(static_cast<size_t>(sequence.match.pages));
  NodeId node = sequence.match.node;
  for (size_t i = nodes.size(); i-- > 0; node = cache.node(node).parent) nodes[i] = node;
  const bool exact_only = limits_.exact_pages_only || (!limits_.one_arithmetic && !sequence.output.empty());
  const auto usable = [&](NodeId id) {
    const PrefixCache::Node& candidate = cache.node(id);
    return candidate.at(PagePoolKind::kFull).verified() && (candidate.exact || !exact_only);
  };
  const auto end = std::find_if_not(nodes.begin(), nodes.end(), usable);
  nodes.erase(end, nodes.end());
  if (nodes.size() < static_cast<size_t>(sequence.match.pages)) sequence.match = PrefixMatch();
  // The pages up to here are computed again if no window is complete; the next text that branches off finds one.
  const auto found = static_cast<int32_t>(nodes.size());
  sequence.pages.keep[0] = {ledger_.first_visible_page(found * kPagePositions), found};
  nodes.resize(static_cast<size_t>(ledger_.adoptable(nodes)));
  return nodes;
}

// How many of its own pages hold what any longer prompt would compute. An executor with two arithmetics may compute a
// prompt's last token as it decodes, and all tokens of a prompt that is scored.
int32_t EngineCore::exact_pages(const Sequence& sequence) {
  return sequence.exact && !sequence.has_scored_prompt() ? page_of(sequence.prompt_length() - 1) : 0;
}

// Where the path of a sequence that starts begins.
void EngineCore::open_path(Sequence& sequence) {
  SequencePages& pages = sequence.pages;
  // Chat templates may leave parts of an answer out of the next prompt, which then goes on from the end of this one.
  const int32_t prompt_end = page_of(sequence.prompt_length());
  pages.keep[1] = {ledger_.first_visible_page(prompt_end * kPagePositions), prompt_end};
  if (!limits_.one_arithmetic) pages.exact_end = exact_pages(sequence);
  if (!limits_.prefix_cache || pages.root != kNoNode) return;  // off, or it shares the pages of another choice
  pages.root = ledger_.cache().pin_root(sequence.request->request.cache_salt);
}

void EngineCore::adopt_prefix(Sequence& sequence, const std::vector<NodeId>& hit) {
  open_path(sequence);
  if (hit.empty()) return;
  ledger_.adopt(sequence.pages, hit);
  sequence.computed = static_cast<int32_t>(hit.size()) * kPagePositions;
  for (const NodeId node : hit) sequence.exact = sequence.exact && ledger_.cache().node(node).exact;
  if (!sequence.exact) sequence.pages.exact_end = 0;
}

// Publishes the whole pages of positions before `end`, which are computed or in flight.
void EngineCore::publish_pages(Sequence& sequence, int32_t end) {
  SequencePages& pages = sequence.pages;
  if (pages.root == kNoNode) return;
  end = std::min(end, sequence.known_length());
  if (sequence.scores_prompt()) --end;  // the next slice writes this position again
  std::vector<TokenId> buffer;
  for (auto index = static_cast<int32_t>(pages.path.size()); (index + 1) * kPagePositions <= end; ++index) {
    if (limits_.exact_pages_only && index >= pages.exact_end) return;
    ledger_.publish(pages, page_text(sequence, index, buffer));
  }
}

void EngineCore::verify_pages(Sequence& sequence, int32_t end) {
  publish_pages(sequence, end);
  SequencePages& pages = sequence.pages;
  const int32_t count = std::min(static_cast<int32_t>(pages.path.size()), page_of(end));
  while (pages.verified < count) ledger_.verify(pages);
}

}  // namespace boreas
