// Whether numbers that a user or a caller set are in range: one line an option, one wording for all.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/result.h"

namespace boreas {

struct Bound {
  const char* name;  // of the option; also the error's parameter
  int64_t value, low, high;
};

// Error: the first value outside [low, high], with its name and both ends.
inline Status check_bounds(std::initializer_list<Bound> bounds) {
  for (const Bound& bound : bounds)
    if (bound.value < bound.low || bound.value > bound.high)
      return Error{std::string(bound.name) + " is " + std::to_string(bound.value) + ", expected " +
                       std::to_string(bound.low) + " to " + std::to_string(bound.high),
                   bound.name};
  return Ok{};
}

}  // namespace boreas
