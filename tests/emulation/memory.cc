// Memory of the emulated device: what kernels may read of global memory, mbarriers, bulk copies and the rules of shared
// memory. Called through device_emulation.h and, for landing copies, by the turns of grid.cc.
#include <algorithm>
#include <cstring>

#include "grid.h"
#include "races.h"

namespace boreas::emulation {
namespace {

struct Region {
  uintptr_t first, end;
  std::string name;
};
std::vector<Region> regions;
size_t last_region = 0;

bool holds(const Region& region, uintptr_t address, uint64_t bytes) {
  return address >= region.first && address < region.end && bytes <= region.end - address;
}

bool is_registered(const void* memory, uint64_t bytes) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(memory);
  if (last_region < regions.size() && holds(regions[last_region], address, bytes)) return true;
  for (size_t i = 0; i < regions.size(); ++i) {
    if (!holds(regions[i], address, bytes)) continue;
    last_region = i;
    return true;
  }
  return false;
}

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

// The region that an address lies in or follows, for messages.
std::string nearest_region(const void* memory) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(memory);
  const Region* nearest = nullptr;
  for (const Region& region : regions) {
    if (region.first <= address && (nearest == nullptr || region.first > nearest->first)) nearest = &region;
  }
  if (nearest == nullptr) return hex(address) + " is not in registered memory";
  return hex(address) + " is at byte " + std::to_string(address - nearest->first) + " of " + nearest->name + ", of " +
         std::to_string(nearest->end - nearest->first) + " bytes";
}

// Phase parity, arrivals that the phase still waits for, arrivals of the next one, bytes that copies owe.
struct Mbarrier {
  uint64_t phase : 1;
  uint64_t pending : 20;
  uint64_t expected : 20;
  int64_t bytes : 23;
};
static_assert(sizeof(Mbarrier) == 8);

Mbarrier load(const Block& block, uint32_t barrier) {
  Mbarrier value;
  std::memcpy(&value, block.shared + barrier, sizeof value);
  return value;
}

bool is_barrier(const Block& block, uint32_t barrier) {
  if (barrier % 8 != 0 || barrier >= block.shared_bytes || block.shared_bytes - barrier < 8) return false;
  return std::all_of(block.shadow + barrier, block.shadow + barrier + 8, [](uint8_t s) { return s == kBarrierObject; });
}

void check_barrier(const Block& block, uint32_t barrier, const Where& where) {
  if (!is_barrier(block, barrier)) fail("no mbarrier was initialised at shared " + hex(barrier), where);
}

void complete_if_due(Block& block, uint32_t barrier, Mbarrier value) {
  if (value.pending == 0 && value.bytes == 0) {
    value.pending = value.expected;
    value.phase ^= 1;
    if (block.races != nullptr) block.races->complete_phase(barrier, block.landed);
    const auto owed = [&](const LandedBytes& range) {
      if (range.barrier != barrier) return false;
      std::memset(block.shadow + range.to, kWritten, range.bytes);
      return true;
    };
    block.landed.erase(std::remove_if(block.landed.begin(), block.landed.end(), owed), block.landed.end());
  }
  std::memcpy(block.shared + barrier, &value, sizeof value);
  ++events;
}

bool in_range(int64_t bytes) { return bytes >= -int64_t{kBarrierCountMax} && bytes <= int64_t{kBarrierCountMax}; }

}  // namespace

void register_memory(const void* memory, uint64_t bytes, const std::string& name) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(memory);
  regions.push_back({first, first + bytes, name});
}

void forget_memory() { regions.clear(); }

void check_memory(const void* address, uint32_t bytes, const char* what, const Where& where) {
  if (reinterpret_cast<uintptr_t>(address) % bytes != 0) {
    fail(std::string(what) + ": " + hex(reinterpret_cast<uintptr_t>(address)) + " is not a multiple of " +
             std::to_string(bytes),
         where);
  }
  if (!is_registered(address, bytes)) {
    fail(std::string(what) + ": " + nearest_region(address) + " (register_memory)", where);
  }
}

void bad_shared_access(uint32_t address, uint32_t bytes, const char* what, const Where& where) {
  const Block& block = *current->block;
  const std::string head = "shared " + std::string(what) + " of " + std::to_string(bytes) + " bytes at " + hex(address);
  if (address % bytes != 0) fail(head + ": misaligned", where);
  if (address >= block.shared_bytes || bytes > block.shared_bytes - address) {
    fail(head + ": the block has " + std::to_string(block.shared_bytes) + " bytes", where);
  }
  for (uint32_t i = address; i < address + bytes; ++i) {
    const char* why = nullptr;
    if (block.shadow[i] == kBarrierObject) why = "an mbarrier lies there";
    if (block.shadow[i] == kInFlight) why = "a bulk copy fills them and its phase has not completed";
    if (why != nullptr) fail(head + ": " + why + " (" + hex(i) + ")", where);
  }
  fail(head + ": nobody has written a whole word of them", where);
}

void check_race(uint32_t address, uint32_t bytes, bool load, const Where& where) {
  RaceChecker& races = *current->block->races;
  const std::string race =
      load ? races.read(*current, address, bytes, where) : races.write(*current, address, bytes, where);
  if (!race.empty()) fail(race, where);
}

void note_word(bool load) {
  RaceChecker& races = *current->block->races;
  if (load) races.load_word(*current);
  else races.store_word(*current);
}

void barrier_init(uint32_t barrier, uint32_t arrivals, const Where& where) {
  Block& block = *current->block;
  if (barrier % 8 != 0) fail("mbarrier_init: shared " + hex(barrier) + " is not a multiple of 8", where);
  if (barrier >= block.shared_bytes || block.shared_bytes - barrier < 8) {
    fail("mbarrier_init: shared " + hex(barrier) + " is outside of the block's " + std::to_string(block.shared_bytes) +
             " bytes",
         where);
  }
  if (arrivals == 0 || arrivals > kBarrierCountMax) {
    fail("mbarrier_init: " + std::to_string(arrivals) + " arrivals, 1 to 2^20 - 1 are allowed", where);
  }
  for (uint32_t i = barrier; i < barrier + 8; ++i) {
    if (block.shadow[i] >= kBarrierObject) {
      fail("mbarrier_init: an mbarrier or bytes of a copy lie at shared " + hex(i), where);
    }
  }
  std::memset(block.shadow + barrier, kBarrierObject, 8);
  Mbarrier value = {};
  value.pending = value.expected = arrivals;
  std::memcpy(block.shared + barrier, &value, sizeof value);
  ++events;
}

void barrier_arrive(uint32_t barrier, uint32_t bytes, const Where& where) {
  touch(where);
  Block& block = *current->block;
  check_barrier(block, barrier, where);
  Mbarrier value = load(block, barrier);
  if (!in_range(int64_t{value.bytes} + int64_t{bytes})) {
    fail("mbarrier at shared " + hex(barrier) + " cannot expect that many bytes: " + barrier_text(block, barrier),
         where);
  }
  if (value.pending == 0) {
    fail("one arrival too many at the mbarrier at shared " + hex(barrier) + ": " + barrier_text(block, barrier), where);
  }
  if (block.races != nullptr) block.races->arrive(*current, barrier);
  value.bytes = value.bytes + int64_t{bytes};
  value.pending = value.pending - 1;
  complete_if_due(block, barrier, value);
}

bool barrier_passed(uint32_t barrier, uint32_t parity, const Where& where) {
  const Block& block = *current->block;
  check_barrier(block, barrier, where);
  if (parity > 1) fail("the parity of a phase is 0 or 1, not " + std::to_string(parity), where);
  const bool passed = load(block, barrier).phase != parity;
  if (passed && block.races != nullptr) block.races->pass(*current, barrier);
  return passed;
}

std::string barrier_text(const Block& block, uint32_t barrier) {
  if (!is_barrier(block, barrier)) return "not initialised";
  const Mbarrier value = load(block, barrier);
  return "phase parity " + std::to_string(value.phase) + ", " + std::to_string(value.pending) + " of " +
         std::to_string(value.expected) + " arrivals missing, " + std::to_string(value.bytes) + " bytes owed";
}

void issue_copy(const Copy& copy, const Where& where) {
  touch(where);
  Block& block = *copy.block;
  const uintptr_t from = reinterpret_cast<uintptr_t>(copy.from);
  if (copy.to % 16 != 0 || from % 16 != 0 || copy.bytes % 16 != 0 || copy.bytes == 0) {
    fail("bulk_copy of " + std::to_string(copy.bytes) + " bytes from " + hex(from) + " to shared " + hex(copy.to) +
             ": not all three are multiples of 16",
         where);
  }
  if (copy.to >= block.shared_bytes || copy.bytes > block.shared_bytes - copy.to) {
    fail("bulk_copy of " + std::to_string(copy.bytes) + " bytes to shared " + hex(copy.to) + ": the block has " +
             std::to_string(block.shared_bytes) + " bytes",
         where);
  }
  if (!is_registered(copy.from, copy.bytes)) {
    fail("bulk_copy of " + std::to_string(copy.bytes) + " bytes: " + nearest_region(copy.from) + " (register_memory)",
         where);
  }
  check_barrier(block, copy.barrier, where);
  for (uint32_t i = copy.to; i < copy.to + copy.bytes; i += 8) {
    uint64_t shadow;
    std::memcpy(&shadow, block.shadow + i, sizeof shadow);
    if ((shadow & 0x0202020202020202ull) != 0) {
      fail("bulk_copy to shared " + hex(copy.to) + ": an mbarrier or bytes of another copy lie at " + hex(i), where);
    }
  }
  if (block.races != nullptr) {
    const std::string race = block.races->issue_copy(*current, copy.to, copy.bytes);
    if (!race.empty()) fail(race, where);
  }
  // Whoever still reads the old bytes must not see them.
  std::memset(block.shadow + copy.to, kInFlight, copy.bytes);
  std::memset(block.shared + copy.to, 0xff, copy.bytes);
  grid->copies.push_back(copy);
  ++block.copies_left;
  ++grid->result.copies;
  ++events;
}

void land_copy(size_t index) {
  const Copy copy = grid->copies[index];
  grid->copies.erase(grid->copies.begin() + static_cast<ptrdiff_t>(index));
  Block& block = *copy.block;
  std::memcpy(block.shared + copy.to, copy.from, copy.bytes);
  --block.copies_left;
  block.landed.push_back({copy.to, copy.bytes, copy.barrier});
  Mbarrier value = load(block, copy.barrier);
  if (!in_range(int64_t{value.bytes} - int64_t{copy.bytes})) {
    fail_run("a copy brings more bytes to the mbarrier at shared " + hex(copy.barrier) + " of block " +
             std::to_string(block.block) + " than it can count: " + barrier_text(block, copy.barrier));
  }
  value.bytes = value.bytes - int64_t{copy.bytes};
  complete_if_due(block, copy.barrier, value);
}

void check_no_copies(const Block& block) {
  if (block.copies_left != 0) {
    fail_run("block " + std::to_string(block.block) + " has returned and " + std::to_string(block.copies_left) +
             " of its bulk copies have not landed");
  }
}

}  // namespace boreas::emulation
