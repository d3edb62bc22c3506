// What the kernel tests of every kind of row share: operands as bytes, the reference's results, and
// the comparison with them. For implementations of kernel_harness.h.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "tests/kernels/kernel_harness.h"

namespace mezzo::kernels {

inline constexpr std::size_t kGuard = 64;
inline constexpr unsigned char kFill = 0xa5;

// Bytes aligned to 64 with guard bytes behind; all kFill at first.
class Buffer {
 public:
  explicit Buffer(std::size_t size) : size_(size), bytes_(allocate(size)) {
    std::memset(bytes_.get(), kFill, size + kGuard);
  }
  unsigned char* data() { return bytes_.get(); }
  const unsigned char* data() const { return bytes_.get(); }
  std::size_t size() const { return size_; }
  bool is_guard_intact() const {
    for (std::size_t i = 0; i < kGuard; ++i) {
      if (bytes_.get()[size_ + i] != kFill) return false;
    }
    return true;
  }

 private:
  struct Free {
    void operator()(unsigned char* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  static unsigned char* allocate(std::size_t size) {
    return static_cast<unsigned char*>(::operator new[](size + kGuard, std::align_val_t{64}));
  }
  std::size_t size_;
  std::unique_ptr<unsigned char, Free> bytes_;
};

void encode(DType dtype, double number, unsigned char* to, std::int64_t i);
double decode(DType dtype, const unsigned char* from, std::int64_t i);
// Empty for an absent operand.
Buffer encode_all(const TensorDesc& desc, const Numbers& numbers);

// A kernel's results as bytes.
using Results = std::vector<std::vector<unsigned char>>;

// Runs with fresh buffers; `in_place` >= 0: result 0 lies in that operand's buffer.
StatusOr<Results> run_on_host(Kernel& kernel, const KernelRequest& request,
                              const std::vector<Numbers>& operands, int in_place = -1);

// The reference's results in double, or with the request's own dtypes where they must be exact.
Results reference_results(const KernelCase& test);

// Reports results that are not close enough to the reference's as failures.
void compare(const KernelCase& test, const Results& got, const Results& expected);

}  // namespace mezzo::kernels
