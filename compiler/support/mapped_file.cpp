#include "compiler/support/mapped_file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "compiler/support/mapping_guard.h"
#include "compiler/support/text.h"

namespace mezzo {
namespace {

// Pages of a mapping that the process keeps while it reads on. Giving back costs some microseconds.
constexpr std::uint64_t kKeptBytes = std::uint64_t{16} << 20;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// O_NONBLOCK: opening a named pipe must not wait for a writer before we can refuse it.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

int open_beneath(int folder, const std::string& relative) {
  open_how how = {};
  how.flags = kOpenFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  const long file = ::syscall(SYS_openat2, folder, relative.c_str(), &how, sizeof how);
  // Kernels before 5.6 and some sandboxes lack the call: without it the last part alone is safe.
  if (file >= 0 || (errno != ENOSYS && errno != EPERM)) return static_cast<int>(file);
  return ::openat(folder, relative.c_str(), kOpenFlags | O_NOFOLLOW);
}

Status cannot_read(const std::string& path, int error) {
  return invalid_argument(printable(path) + ": cannot be read: " + std::strerror(error));
}

}  // namespace

StatusOr<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  const Descriptor file(::open(path.c_str(), kOpenFlags));
  if (file.get() < 0) return cannot_read(path, errno);
  return map(file.get(), path);
}

StatusOr<std::shared_ptr<const MappedFile>> MappedFile::open_inside(const std::string& folder,
                                                                    const std::string& relative) {
  const std::string path = folder + "/" + relative;
  const Descriptor root(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (root.get() < 0) return cannot_read(path, errno);
  const Descriptor file(open_beneath(root.get(), relative));
  if (file.get() < 0) return cannot_read(path, errno);
  return map(file.get(), path);
}

StatusOr<std::shared_ptr<const MappedFile>> MappedFile::map(int descriptor,
                                                            const std::string& path) {
  struct stat facts = {};
  if (::fstat(descriptor, &facts) != 0) return cannot_read(path, errno);
  if (S_ISDIR(facts.st_mode)) {
    return invalid_argument(printable(path) + ": expected a file, got a folder");
  }
  if (!S_ISREG(facts.st_mode)) {
    return invalid_argument(printable(path) +
                            ": expected a regular file, got a device or pipe. Hint: write the "
                            "data to a file first, it is mapped into memory");
  }
  const auto size = static_cast<std::size_t>(facts.st_size);
  const std::byte* data = nullptr;
  if (size > 0) {
    void* mapping = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapping == MAP_FAILED) return cannot_read(path, errno);
    data = static_cast<const std::byte*>(mapping);
    watch_mapping(data, size);
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(path, data, size));
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  unwatch_mapping(data_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::note_read(std::uint64_t bytes) const {
  if (read_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes >= kKeptBytes) release();
}

void MappedFile::release() const {
  read_bytes_.store(0, std::memory_order_relaxed);
  // Only advice: where it is refused the pages stay, and nothing else changes.
  if (data_ != nullptr) ::madvise(const_cast<std::byte*>(data_), size_, MADV_DONTNEED);
}

StatusOr<std::span<const std::byte>> MappedFile::slice(std::uint64_t offset,
                                                       std::uint64_t length) const {
  if (offset > size_ || length > size_ - offset) {
    return invalid_argument(printable(path_) + ": needs " + std::to_string(length) +
                            " bytes at offset " + std::to_string(offset) + ", but the file has " +
                            std::to_string(size_) + ". Hint: the file may be truncated");
  }
  return bytes().subspan(offset, length);
}

}  // namespace mezzo
