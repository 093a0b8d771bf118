// The comparison arms' kernel for the emulated device, cut for four workers: compiled once, apart from the tests of it.
#include "launch_segment.h"

namespace boreas::emulation {

template void run_segment_block<FourWorkers>(const cuda::StepParams& params, const cuda::SegmentParams& segment);

}  // namespace boreas::emulation
