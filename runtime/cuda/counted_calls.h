// Counts what the module asks of CUDA's libraries.
//
// The linker puts the functions of counted_calls.cpp before those of the libraries, by --wrap (the
// target mezzo_cuda_counted_calls lists them), so that a kernel row cannot put work into a stream,
// nor anything wait for the device, without being counted.
#pragma once

#include "runtime/device/device.h"

namespace mezzo::runtime::cuda {

// Of this process until now, in all its threads, whatever the device. Work that is captured counts
// like work that is done: whoever captures knows when.
DeviceCounts counted_calls();

}  // namespace mezzo::runtime::cuda
