// IndexList: a doubly linked list of small indices, each in it at most once; every operation takes constant time and
// none allocates once the highest index has been seen. The prefix cache keeps its idle pages in such lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"

namespace boreas {

class IndexList {
 public:
  int32_t size() const { return size_; }
  bool contains(int32_t index) const {
    return static_cast<size_t>(index) < links_.size() && links_[static_cast<size_t>(index)].listed;
  }
  int32_t front() const { return first_; }  // -1: empty

  void push_back(int32_t index) {
    if (static_cast<size_t>(index) >= links_.size()) links_.resize(static_cast<size_t>(index) + 1);
    Link& link = at(index);
    CHECK(!link.listed);
    link = {last_, -1, true};
    (last_ < 0 ? first_ : at(last_).next) = index;
    last_ = index;
    ++size_;
  }

  void erase(int32_t index) {
    CHECK(contains(index));
    const Link link = at(index);
    (link.previous < 0 ? first_ : at(link.previous).next) = link.next;
    (link.next < 0 ? last_ : at(link.next).previous) = link.previous;
    at(index) = Link();
    --size_;
  }

  void reserve(size_t indices) { links_.reserve(indices); }

 private:
  struct Link {
    int32_t previous = -1;
    int32_t next = -1;
    bool listed = false;
  };
  Link& at(int32_t index) { return links_[static_cast<size_t>(index)]; }

  std::vector<Link> links_;
  int32_t first_ = -1;
  int32_t last_ = -1;
  int32_t size_ = 0;
};

}  // namespace boreas
