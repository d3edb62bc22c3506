// --device: where a model is run or trained.
#pragma once

#include <memory>
#include <string>

#include "compiler/plan/device_kind.h"
#include "compiler/support/status.h"
#include "runtime/device/device.h"
#include "runtime/exec/executor.h"

namespace CLI {
class App;
}

namespace mezzo::cli {

struct DeviceArguments {
  std::string name = "cpu";  // "cuda", "cuda:1"
  bool allow_tf32 = false;
  int timed_algorithms = 1;

  void add_to(CLI::App& app);
  void add_name_to(CLI::App& app);  // --device alone, for commands that compute nothing
  DeviceKind kind() const { return device_of(name.substr(0, name.find(':'))); }
  // Null for the CPU. An error says what is missing: this build's CUDA part, a library, a driver, a
  // device.
  StatusOr<std::shared_ptr<runtime::Device>> open() const;
};

// Tells on standard error which steps the device leaves to the host, if there are any.
void tell_host_steps(const runtime::Executor& executor);

}  // namespace mezzo::cli
