// Bugs that tests plant to see whether simulation finds them. Only tests/sim's mutant binary is compiled with
// BOREAS_PLANTED_BUGS; everywhere else planted() is the constant false and leaves no code.
#pragma once

#include <cstdint>

namespace boreas {

enum class PlantedBug : uint8_t {
  kNone,
  kStalePage,        // the cache goes on offering a page that it has returned to the pool
  kReferenceCount,   // a choice that joins the shared prompt pages is not counted as an owner of the last one
  kWindowPageEarly,  // a sliding page is returned while queries still see its last keys; plans go on naming it
  kHashCollision,    // the cache trusts a weak hash and does not compare tokens
  kResumePosition,   // after preemption a sequence goes on one position late
  kSwappedPage,      // two swapped pages of a sequence are restored to each other's place
  kSwappedLayer,     // a sliding page is restored from the content of the full page beside it
};

#ifdef BOREAS_PLANTED_BUGS
inline PlantedBug planted_bug = PlantedBug::kNone;
inline bool planted(PlantedBug bug) { return planted_bug == bug; }
#else
constexpr bool planted(PlantedBug) { return false; }
#endif

}  // namespace boreas
