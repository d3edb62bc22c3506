// What implementations of layer_harness.h share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "tests/kernels/layer_harness.h"

namespace mezzo::kernels {

inline constexpr std::size_t kGuardBytes = 64;
inline constexpr unsigned char kNaNBytes = 0xff;  // NaN in every floating dtype

double read_number(const std::byte* at, DType dtype);
void write_number(std::byte* at, DType dtype, double value);

// Memory as the runtime gives it: aligned, and with bytes of its own right behind.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes) : bytes_(bytes), memory_(allocate(bytes + kGuardBytes)) {
    std::memset(memory_.get(), kNaNBytes, bytes + kGuardBytes);
  }
  std::byte* get() { return memory_.get(); }
  bool intact() const {
    return std::all_of(memory_.get() + bytes_, memory_.get() + bytes_ + kGuardBytes,
                       [](std::byte value) { return value == std::byte{kNaNBytes}; });
  }

 private:
  struct Free {
    void operator()(std::byte* at) const { ::operator delete[](at, std::align_val_t{64}); }
  };
  using Memory = std::unique_ptr<std::byte, Free>;
  static Memory allocate(std::size_t bytes) {
    return Memory(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{64})));
  }

  std::size_t bytes_;
  Memory memory_;
};

std::vector<Guarded> make_buffers(const std::vector<TensorDesc>& descs);
void fill(Guarded& buffer, const TensorDesc& desc, const Values& values);

Outcome run_layer_on_host(Kernel& kernel, const KernelRequest& request,
                          const std::vector<Values>& operands);

}  // namespace mezzo::kernels
