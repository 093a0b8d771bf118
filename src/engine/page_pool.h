// PagePool: which pages of one pool are free and how many owners the others have. It knows ids only, no content. The
// page ledger calls it; one thread. Always: free pages + referenced pages = all pages; a page is free exactly when its
// reference count is 0.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"

namespace boreas {

class PagePool {
 public:
  explicit PagePool(int32_t pages);

  std::optional<PageId> acquire();  // a page with one reference; none where all are in use
  void share(PageId page);          // one owner more
  void release(PageId page);        // one owner less; the last one frees the page

  int32_t pages() const { return static_cast<int32_t>(references_.size()); }
  int32_t pages_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t references(PageId page) const { return references_[index(page)]; }

 private:
  size_t index(PageId page) const;
  std::vector<int32_t> references_;  // [pages]
  std::vector<PageId> free_;         // used as a stack: a page that was just read is likely still in a cache
};

}  // namespace boreas
