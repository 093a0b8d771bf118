#include "build_commit.h"

#include <build_commit_text.h>  // made by every build: BOREAS_COMMIT

namespace boreas {

const char* build_commit() { return BOREAS_COMMIT; }

}  // namespace boreas
