// A zeroed block of memory, aligned to pages, given back on destruction.
#pragma once

#include <cstddef>
#include <utility>

#include "compiler/support/status.h"

namespace mezzo::runtime {

class Buffer {
 public:
  Buffer() = default;
  ~Buffer();
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  // InvalidArgument where the machine has not so much memory. Zero bytes give a valid address.
  static StatusOr<Buffer> allocate(std::size_t bytes);

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace mezzo::runtime
