// What the training kernels read, laid out in the device's memory. Private to runtime/cuda.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/cuda/training.h"
#include "runtime/device/device.h"
#include "runtime/device/device_training.h"

namespace mezzo::runtime::cuda {

// Owns optimizer state, sums, tables and control block.
class TrainingMemory {
 public:
  // InvalidArgument: not enough memory. Internal: a spec that does not fit together.
  Status create(Device& device, const DeviceTrainingSpec& spec);

  const kernels::cuda::TrainingTables& get() const { return tables_; }
  // As they are on the device, in the spec's order.
  std::span<const kernels::cuda::TrainingParameter> parameters() const { return parameters_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  Status check(const DeviceTrainingSpec& spec) const;
  Status add_parameters(Device& device, const DeviceTrainingSpec& spec);
  Status add_states(Device& device, const DeviceTrainingSpec& spec);
  Status add_pieces(Device& device, const DeviceTrainingSpec& spec);
  void set_options(const DeviceTrainingSpec& spec);
  template <typename T>
  StatusOr<T*> allocate(Device& device, std::uint64_t count, std::string_view what);
  template <typename T>
  StatusOr<T*> table(Device& device, const std::vector<T>& rows);

  kernels::cuda::TrainingTables tables_;
  std::vector<kernels::cuda::TrainingParameter> parameters_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
  std::uint64_t bytes_ = 0;
};

}  // namespace mezzo::runtime::cuda
