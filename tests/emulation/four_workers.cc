// The megakernel for the emulated device, cut for four workers: seconds of compile time that the tests of it share.
#include "launch.h"

namespace boreas::emulation {

template void run_block<FourWorkers>(const cuda::StepParams& params);

}  // namespace boreas::emulation
