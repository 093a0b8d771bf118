#include "build_commit.h"

#include <build_commit_text.h>  // made by every build: BOREAS_COMMIT

namespace boreas {

const char* build_commit() { return BOREAS_COMMIT; }
bool build_is_portable() { return BOREAS_IS_PORTABLE != 0; }

}  // namespace boreas
