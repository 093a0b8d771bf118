// Distinct integer types for things that must not be mixed up. Each is a plain 32- or 64-bit number underneath.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace boreas {

template <class Tag, class Int>
struct Id {
  Int value = 0;
  constexpr Id() = default;
  constexpr explicit Id(Int v) : value(v) {}
  // clang-tidy 14 takes the 0 within the comparison that this makes for a pointer.
  // NOLINTNEXTLINE(modernize-use-nullptr)
  constexpr auto operator<=>(const Id&) const = default;
};

using TokenId = int32_t;  // an index into the vocabulary; plain, because whole arrays of them cross every boundary
using PageId = Id<struct PageTag, int32_t>;
using WorkerId = Id<struct WorkerTag, int32_t>;
using RequestId = Id<struct RequestTag, uint64_t>;

}  // namespace boreas

template <class Tag, class Int>
struct std::hash<boreas::Id<Tag, Int>> {
  size_t operator()(const boreas::Id<Tag, Int>& id) const noexcept { return std::hash<Int>{}(id.value); }
};
