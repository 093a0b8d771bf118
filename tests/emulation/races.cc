#include "races.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace boreas::emulation {
namespace {

constexpr uint32_t kMbarriersMax = 128;
constexpr uint32_t kLineBits = 20;

void join(std::vector<uint32_t>& to, const std::vector<uint32_t>& from) {
  uint32_t* out = to.data();
  const uint32_t* in = from.data();
  for (size_t i = 0, count = to.size(); i < count; ++i) out[i] = out[i] > in[i] ? out[i] : in[i];
}

}  // namespace

RaceChecker::RaceChecker(const GridOptions& options)
    : threads_(static_cast<uint32_t>(options.threads)),
      warps_(threads_ / kLanes),
      components_(threads_ + kMbarriersMax),
      polled_words_(options.polled_words),
      polled_(options.polled_words.size(), Times(components_)),
      writes_(options.shared_bytes / 2),
      reads_(size_t{options.shared_bytes / 4} * warps_),
      read_warps_(options.shared_bytes / 4),
      warp_states_(warps_),
      lane_states_(threads_),
      words_(components_) {
  for (WarpState& warp : warp_states_) warp.known.resize(components_);
  barriers_.reserve(kMbarriersMax);
}

// ---- order

uint32_t RaceChecker::known(const Lane& lane, uint32_t who) const {
  const Times& heard = lane_states_[static_cast<size_t>(lane.thread)].heard;
  const uint32_t by_warp = warp_states_[static_cast<size_t>(lane.warp->warp)].known[who];
  return heard.empty() ? by_warp : std::max(by_warp, heard[who]);
}

void RaceChecker::release(const Lane& lane, Times& to) {
  WarpState& warp = warp_states_[static_cast<size_t>(lane.warp->warp)];
  const Times& heard = lane_states_[static_cast<size_t>(lane.thread)].heard;
  join(to, warp.known);
  if (!heard.empty()) join(to, heard);
  to[static_cast<size_t>(lane.thread)] = warp.time++;
}

void RaceChecker::acquire(const Lane& lane, const Times& from) {
  Times& heard = lane_states_[static_cast<size_t>(lane.thread)].heard;
  if (heard.empty()) heard = from;
  else join(heard, from);
}

void RaceChecker::sync_warp(int32_t warp) {
  WarpState& state = warp_states_[static_cast<size_t>(warp)];
  const size_t first = static_cast<size_t>(warp) * kLanes;
  for (size_t lane = first; lane < first + kLanes; ++lane) {
    Times& heard = lane_states_[lane].heard;
    if (!heard.empty()) join(state.known, heard);
    heard.clear();
  }
  for (size_t lane = first; lane < first + kLanes; ++lane) state.known[lane] = state.time;
  ++state.time;
}

void RaceChecker::sync_warps(uint32_t warps) {
  Times all(components_);
  for (uint32_t left = warps; left != 0; left &= left - 1) {
    sync_warp(std::countr_zero(left));
    join(all, warp_states_[static_cast<size_t>(std::countr_zero(left))].known);
  }
  for (uint32_t left = warps; left != 0; left &= left - 1) {
    warp_states_[static_cast<size_t>(std::countr_zero(left))].known = all;
  }
}

RaceChecker::Barrier& RaceChecker::barrier_at(uint32_t address) {
  for (Barrier& barrier : barriers_) {
    if (barrier.address == address) return barrier;
  }
  CHECK(barriers_.size() < kMbarriersMax);
  return barriers_.emplace_back(Barrier{address, 0, Times(components_), Times(components_)});
}

void RaceChecker::arrive(const Lane& lane, uint32_t barrier) { release(lane, barrier_at(barrier).arrived); }

void RaceChecker::complete_phase(uint32_t address, const std::vector<LandedBytes>& landed) {
  Barrier& barrier = barrier_at(address);
  const uint32_t copies = threads_ + static_cast<uint32_t>(&barrier - barriers_.data());
  const uint32_t time = ++barrier.phases;
  for (const LandedBytes& range : landed) {
    if (range.barrier != address) continue;
    for (uint32_t half = range.to / 2; half < (range.to + range.bytes) / 2; ++half) writes_[half] = {time, copies, 0};
  }
  barrier.arrived[copies] = time;
  barrier.completed = barrier.arrived;
}

void RaceChecker::pass(const Lane& lane, uint32_t barrier) { acquire(lane, barrier_at(barrier).completed); }

void RaceChecker::store_word(const Lane& lane) {
  release(lane, words_);
  ++words_stored_;
}

void RaceChecker::load_word(const Lane& lane) {
  uint32_t& seen = lane_states_[static_cast<size_t>(lane.thread)].words_seen;
  if (seen == words_stored_) return;
  seen = words_stored_;
  acquire(lane, words_);
}

// ---- accesses

RaceChecker::Times* RaceChecker::polled_at(uint32_t address) {
  for (size_t i = 0; i < polled_words_.size(); ++i) {
    if (polled_words_[i] == address) return &polled_[i];
  }
  return nullptr;
}

std::string RaceChecker::check_write(const Lane& lane, uint32_t half, const char* what) const {
  const Write& last = writes_[half];
  if (last.time == 0 || last.who == static_cast<uint32_t>(lane.thread) || known(lane, last.who) >= last.time) return "";
  return message(half * 2, what, "was written", last.who, last.where);
}

std::string RaceChecker::check_reads(const Lane& lane, uint32_t word, const char* what) const {
  for (uint32_t left = read_warps_[word]; left != 0; left &= left - 1) {
    const uint32_t warp = static_cast<uint32_t>(std::countr_zero(left));
    const Reads& reads = reads_[size_t{word} * warps_ + warp];
    for (uint32_t lanes = reads.lanes; lanes != 0; lanes &= lanes - 1) {
      const uint32_t who = warp * kLanes + static_cast<uint32_t>(std::countr_zero(lanes));
      if (who == static_cast<uint32_t>(lane.thread) || known(lane, who) >= reads.time) continue;
      return message(word * 4, what, "was read", who, reads.where);
    }
  }
  return "";
}

std::string RaceChecker::read(const Lane& lane, uint32_t address, uint32_t bytes, const Where& place) {
  if (const Times* polled = polled_at(address)) {
    acquire(lane, *polled);
    return "";
  }
  const uint32_t where = pack(place);
  const uint32_t warp = static_cast<uint32_t>(lane.warp->warp);
  const uint32_t time = warp_states_[warp].time;
  for (uint32_t word = address / 4; word < (address + bytes) / 4; ++word) {
    for (uint32_t half = 2 * word; half < 2 * word + 2; ++half) {
      std::string error = check_write(lane, half, "reads");
      if (!error.empty()) return error;
    }
    Reads& reads = reads_[size_t{word} * warps_ + warp];
    if (reads.time != time || (read_warps_[word] >> warp & 1) == 0) reads = {time, 0, where};
    reads.lanes |= 1u << lane.lane;
    read_warps_[word] |= 1u << warp;
  }
  return "";
}

std::string RaceChecker::write(const Lane& lane, uint32_t address, uint32_t bytes, const Where& place) {
  if (Times* polled = polled_at(address)) {
    release(lane, *polled);
    return "";
  }
  const uint32_t where = pack(place);
  const uint32_t time = warp_states_[static_cast<size_t>(lane.warp->warp)].time;
  for (uint32_t half = address / 2; half < (address + bytes) / 2; ++half) {
    std::string error = check_write(lane, half, "writes");
    if (error.empty()) error = check_reads(lane, half / 2, "writes");
    if (!error.empty()) return error;
    writes_[half] = {time, static_cast<uint32_t>(lane.thread), where};
    read_warps_[half / 2] = 0;
  }
  return "";
}

std::string RaceChecker::issue_copy(const Lane& lane, uint32_t to, uint32_t bytes) {
  for (uint32_t word = to / 4; word < (to + bytes) / 4; ++word) {
    std::string error = check_reads(lane, word, "copies over");
    for (uint32_t half = 2 * word; half < 2 * word + 2 && error.empty(); ++half) {
      error = check_write(lane, half, "copies over");
      writes_[half] = {};
    }
    if (!error.empty()) return error;
    read_warps_[word] = 0;
  }
  return "";
}

// ---- messages

uint32_t RaceChecker::pack(const Where& where) {
  size_t file = 0;
  while (file < files_.size() && files_[file] != where.file) ++file;
  if (file == files_.size()) files_.push_back(where.file);
  return static_cast<uint32_t>(file) << kLineBits | static_cast<uint32_t>(where.line);
}

std::string RaceChecker::text(uint32_t where) const {
  return text_of({files_[where >> kLineBits], static_cast<int32_t>(where & ((1u << kLineBits) - 1))});
}

std::string RaceChecker::message(uint32_t address, const char* what, const char* before, uint32_t before_who,
                                 uint32_t before_where) const {
  char at[16];
  std::snprintf(at, sizeof at, "0x%x", address);
  std::string who = "a bulk copy";
  if (before_who < threads_) {
    who = "warp " + std::to_string(before_who / kLanes) + " lane " + std::to_string(before_who % kLanes) + " at " +
          text(before_where);
  }
  return "race: " + std::string(what) + " shared " + at + ", which " + before + " by " + who +
         ", and nothing orders the two";
}

}  // namespace boreas::emulation
