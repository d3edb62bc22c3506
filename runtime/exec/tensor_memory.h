// Where the tensors of a plan lie: the arenas, filled with weights and constants, in the host's
// memory or on a device.
//
// On a device, what the host fills or looks at (inputs, outputs, parameters, gradients, states, the
// training part's scalars) has a second home in the host's memory; upload() and download() carry a
// tensor between the two. The pages of that second home take memory once they are touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/plan/plan.pb.h"
#include "compiler/support/status.h"
#include "runtime/device/device.h"
#include "runtime/exec/buffer.h"

namespace mezzo::runtime {

// Gives the bytes of a tensor in the weights file, by name. They must stay valid as long as a copy
// of the source lives, and the executor keeps one; aligned to 64 bytes they are used in place, else
// copied.
using WeightSource = std::function<StatusOr<std::span<const std::byte>>(const std::string& name)>;

struct MemoryUse {
  std::uint64_t arena_bytes = 0;      // as planned, all arenas
  std::uint64_t workspace_bytes = 0;  // shared by all kernels
  std::uint64_t copied_bytes = 0;     // constants that could not be used where they are mapped
  std::uint64_t held_bytes = 0;       // by kernels: constants in the form they read
  std::uint64_t total() const { return arena_bytes + workspace_bytes + copied_bytes + held_bytes; }
};

class TensorMemory {
 public:
  // `device` null: the host. REQUIRES: check_plan() found no fault; the device outlives the memory.
  static StatusOr<TensorMemory> create(const proto::Plan& plan, const WeightSource& weights,
                                       Device* device);

  // Where kernels find a tensor.
  std::byte* address(int tensor) const { return addresses_[index(tensor)]; }
  // Where the host finds it. REQUIRES: the host's memory, or a tensor with a second home.
  std::byte* host(int tensor) const {
    return device_ == nullptr ? address(tensor) : mirror_.data() + mirror_offsets_[index(tensor)];
  }
  // Is there a second home, which only what the host fills or looks at has?
  bool has_second_home(int tensor) const {
    return device_ != nullptr && mirror_offsets_[index(tensor)] != kNoHome;
  }

  // Between the host's home of a tensor and the device's; both wait. Nothing happens without a
  // device. REQUIRES: a second home, where there is a device.
  Status upload(int tensor);
  Status download(int tensor);

  std::uint64_t arena_bytes() const { return arena_bytes_; }
  std::uint64_t copied_bytes() const { return copied_bytes_; }

 private:
  static constexpr std::uint64_t kNoHome = ~std::uint64_t{0};
  static std::size_t index(int tensor) { return static_cast<std::size_t>(tensor); }
  Status allocate_arenas(const proto::Plan& plan);
  Status load(const proto::Tensor& tensor, std::byte*& address, std::span<const std::byte> data);
  Status write(std::byte* to, const void* from, std::size_t bytes);
  StatusOr<std::byte*> allocate(std::uint64_t bytes, const std::string& what);
  Status make_mirror(const proto::Plan& plan);

  Device* device_ = nullptr;
  std::vector<Buffer> buffers_;
  std::vector<std::unique_ptr<DeviceMemory>> blocks_;
  std::vector<std::byte*> arenas_, addresses_;
  std::vector<std::uint64_t> sizes_;               // of tensors
  std::map<const std::byte*, std::byte*> copied_;  // where a constant lies -> its copy
  Buffer mirror_;
  std::vector<std::uint64_t> mirror_offsets_;  // kNoHome: none
  std::uint64_t arena_bytes_ = 0, copied_bytes_ = 0;
};

}  // namespace mezzo::runtime
