#include "runtime/exec/buffer.h"

#include <sys/mman.h>

#include <string>

namespace mezzo::runtime {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

Buffer::~Buffer() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

StatusOr<Buffer> Buffer::allocate(std::size_t bytes) {
  const std::size_t rounded = bytes == 0 ? kPage : (bytes + kPage - 1) / kPage * kPage;
  void* address =
      mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    return invalid_argument("cannot get " + std::to_string(rounded) +
                            " bytes of memory. Hint: a smaller batch size needs less");
  }
  // Large arenas on huge pages save most TLB misses; a refusal changes nothing but speed.
  if (rounded >= kHugePage) madvise(address, rounded, MADV_HUGEPAGE);
  Buffer buffer;
  buffer.data_ = static_cast<std::byte*>(address);
  buffer.bytes_ = rounded;
  return buffer;
}

}  // namespace mezzo::runtime
