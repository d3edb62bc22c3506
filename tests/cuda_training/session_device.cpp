// Linked with tests of the trainer: their sessions train on the device of the stand-ins.
#include <cstdio>

#include "tests/cuda_training/host_device.h"
#include "tests/cuda_training/session_device.h"
#include "training_session.h"

namespace mezzo::test {
namespace {

const bool kOnDevice = [] {
  auto device = open_host_device();
  if (!device.ok()) std::fprintf(stderr, "%s\n", device.status().message().c_str());
  if (device.ok()) session_device() = std::move(device).value();
  return device.ok();
}();

}  // namespace

bool sessions_are_on_device() { return kOnDevice && session_device() != nullptr; }

}  // namespace mezzo::test
