// What a GPU and the stand-in for one differ in, for device_run.cpp: test_device.cpp has it for the
// stand-in, tests/gpu/test_device.cpp for a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace mezzo::kernels {

// Bytes that device_run puts behind every block and looks at. 0: the device guards blocks itself.
std::size_t guard_bytes();

// Of threads and blocks of what is launched from now on, where the device has a choice.
void set_launch_order(std::uint64_t order);

// What is known of a fault of a kernel beyond the status of the calls, and forgets it.
std::string take_device_fault();

}  // namespace mezzo::kernels
