// Memory of a process that is in RAM now, as Linux counts it.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace boreas {

// Of this process, or of `process` ("self" or its id); 0: unknown.
inline int64_t resident_bytes(const std::string& process = "self") {
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/" + process + "/statm") >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace boreas
