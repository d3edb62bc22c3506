// Tests set here in which order things happen, what is left out, and read what happened. The
// environment sets the same for whole programs; README.md lists the variables.
#pragma once

#include <cstdint>
#include <string>

namespace cuda_on_cpu {

struct Counts {
  std::uint64_t calls = 0;         // that can be told to fail, see fail_call()
  std::uint64_t kernels = 0;       // launched by themselves or as nodes of graphs
  std::uint64_t copies = 0;        // and memsets
  std::uint64_t graphs = 0;        // launched
  std::uint64_t waits = 0;         // calls that let the host wait for the device
  std::uint64_t stream_waits = 0;  // cudaStreamWaitEvent, for events that had been recorded
  std::uint64_t allocations = 0;   // made
  std::uint64_t blocks_alive = 0;  // of device and pinned memory
  std::uint64_t peak_bytes = 0;    // of device memory
};

Counts counts();

// 0: all work is done when it is put into a stream. Others: as late as possible, now and then
// earlier, and the streams that may go on in an order that the seed decides.
void set_stream_order(std::uint64_t seed);
// The order of threads and blocks: see Order in device/grid.h.
void set_thread_order(std::uint64_t seed);
// The most blocks that grids of strided loops have, for kernels prepared and run from now on; 0: as
// many as on a device.
void set_most_blocks(std::int64_t most);
// The n-th call of cudaStreamWaitEvent from now on, counted from 1, has no effect; 0: none. Calls
// for events that were never recorded do not count.
void ignore_stream_wait(std::uint64_t n);

// The n-th call from now on, counted from 1, does nothing and gives an error; 0: none does. Calls
// of libcudart count, and those of cuBLASLt and cuDNN that make handles, choose or launch.
void fail_call(std::uint64_t n);
// From the n-th call on every call gives cudaErrorLaunchFailure, until take_fault(); 0: none does.
void lose_device(std::uint64_t n);

// What the last faulty kernel did, empty if none did anything wrong. After a fault every call gives
// cudaErrorLaunchFailure, as on a device; this clears it.
std::string take_fault();

}  // namespace cuda_on_cpu
