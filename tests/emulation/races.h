// Finds accesses to a block's shared memory that nothing orders, though this run happened to do them in a good order: a
// race by vector clocks. grid.cc makes one per block if GridOptions::check_races; memory.cc and warp.cc tell it events.
//
// Every lane has a time that grows with what it does for others to see. A lane knows, for every other lane, up to which
// of its times it has heard; an access is ordered after an earlier one if the lane knows the time of that one.
//   warp_sync, barriers       all who meet know what any of them knew
//   mbarrier arrival, try     whoever passes a phase knows what those who arrived at it knew
//   bulk copy                 who issues it must know all earlier accesses to its bytes; who reads them must have
//                             passed the phase that the copy completed
//   polled words of shared    who reads one knows what those who stored it knew (GridOptions::polled_words; the chip
//   memory                    does a warp's shared accesses in order)
//   hop words                 who reads any word knows what all who stored words in this block knew: more than is true,
//                             because an order can come back through other blocks
// Other collectives of a warp order nothing (as in PTX: they are no memory barriers).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "grid.h"

namespace boreas::emulation {

class RaceChecker {
 public:
  explicit RaceChecker(const GridOptions& options);

  // ---- accesses; an error message if one races with an earlier one, else empty
  std::string read(const Lane& lane, uint32_t address, uint32_t bytes, const Where& where);
  std::string write(const Lane& lane, uint32_t address, uint32_t bytes, const Where& where);
  std::string issue_copy(const Lane& lane, uint32_t to, uint32_t bytes);

  // ---- what orders them
  void sync_warp(int32_t warp);
  void sync_warps(uint32_t warps);  // a bit each
  void arrive(const Lane& lane, uint32_t barrier);
  void complete_phase(uint32_t barrier, const std::vector<LandedBytes>& landed);
  void pass(const Lane& lane, uint32_t barrier);
  void store_word(const Lane& lane);
  void load_word(const Lane& lane);

 private:
  using Times = std::vector<uint32_t>;  // [threads + mbarriers], of lanes and of the copies of a barrier
  struct Write {
    uint32_t time = 0, who = 0, where = 0;  // who: index in Times; time 0: none
  };
  struct Reads {  // of the lanes of one warp at one time
    uint32_t time = 0, lanes = 0, where = 0;
  };
  struct Barrier {
    uint32_t address = 0, phases = 0;  // completed
    Times arrived, completed;
  };
  struct LaneState {
    Times heard;  // since the last sync_warp; empty: nothing
    uint32_t words_seen = 0;
  };
  struct WarpState {
    Times known;  // by all lanes
    uint32_t time = 1;
  };

  uint32_t known(const Lane& lane, uint32_t who) const;
  void release(const Lane& lane, Times& to);
  void acquire(const Lane& lane, const Times& from);
  Barrier& barrier_at(uint32_t address);
  Times* polled_at(uint32_t address);  // null: not a polled word
  std::string check_write(const Lane& lane, uint32_t half, const char* what) const;
  std::string check_reads(const Lane& lane, uint32_t word, const char* what) const;
  std::string message(uint32_t address, const char* what, const char* before, uint32_t before_who,
                      uint32_t before_where) const;
  uint32_t pack(const Where& where);
  std::string text(uint32_t where) const;

  uint32_t threads_, warps_, components_;
  std::vector<uint32_t> polled_words_;
  std::vector<Times> polled_;  // what those who stored each of them knew
  std::vector<const char*> files_;
  std::vector<Write> writes_;         // [shared_bytes / 2]
  std::vector<Reads> reads_;          // [shared_bytes / 4][warps], since the last write
  std::vector<uint32_t> read_warps_;  // [shared_bytes / 4], those of reads_ that count
  std::vector<WarpState> warp_states_;
  std::vector<LaneState> lane_states_;
  std::vector<Barrier> barriers_;
  Times words_;  // what those who stored words knew
  uint32_t words_stored_ = 0;
};

}  // namespace boreas::emulation
