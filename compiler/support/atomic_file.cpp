#include "compiler/support/atomic_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "compiler/support/mapping_guard.h"
#include "compiler/support/text.h"

namespace mezzo {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBufferBytes = std::size_t{1} << 16;
constexpr int kNameAttempts = 100;
// Larger writes make Linux look for larger runs of free memory, which stalls for seconds once the
// page cache has filled it; from 256 KiB on they save nothing.
constexpr std::size_t kWriteBytes = std::size_t{1} << 18;

Status cannot_write(const std::string& path, int error) {
  std::string hint;
  if (error == ENOENT) hint = ". Hint: the folder it should go into does not exist";
  if (error == EACCES || error == EROFS) hint = ". Hint: choose a place you may write to";
  if (error == ENOSPC || error == EDQUOT) hint = ". Hint: free some space or choose another disk";
  if (error == EFBIG)
    hint = ". Hint: the disk or a limit of the shell (ulimit -f) forbids the size";
  if (error == EFAULT) hint = ". Hint: " + std::string(kMappingDamage);
  return invalid_argument(printable(path) + ": cannot be written: " + std::strerror(error) + hint);
}

// "checkpoint/" and "checkpoint" name the same folder; temporary names go beside it.
std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string parent_folder(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

std::string random_suffix() {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device device;
  std::string suffix;
  for (int i = 0; i < 6; ++i) suffix += kLetters[device() % kLetters.size()];
  return suffix;
}

// Makes what the folder holds (new or renamed entries) survive a loss of power.
int flush_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int result = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  // Some file systems cannot flush a folder and need not.
  return result == EINVAL ? 0 : result;
}

int flush_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int result = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  return result;
}

int write_all(int fd, std::span<const std::byte> bytes, std::int64_t at) {
  while (!bytes.empty()) {
    const std::size_t step = std::min(bytes.size(), kWriteBytes);
    const ssize_t written =
        at < 0 ? ::write(fd, bytes.data(), step) : ::pwrite(fd, bytes.data(), step, at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    if (at >= 0) at += written;
  }
  return 0;
}

}  // namespace

AtomicFile::AtomicFile(std::string path, std::string temporary, int fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {
  buffer_.reserve(kBufferBytes);
}

StatusOr<AtomicFile> AtomicFile::create(const std::string& path) {
  if (path.empty()) return invalid_argument("the output file's name is empty");
  std::error_code error;
  struct stat facts = {};
  const bool exists = ::stat(path.c_str(), &facts) == 0;
  if (exists && S_ISDIR(facts.st_mode)) return cannot_write(path, EISDIR);
  if (exists && !S_ISREG(facts.st_mode)) {
    return invalid_argument(printable(path) +
                            ": cannot be written: it is a device or pipe, and "
                            "output is renamed into place. Hint: name a regular file");
  }
  if (exists && ::access(path.c_str(), W_OK) != 0) return cannot_write(path, errno);
  const std::string target = exists ? fs::canonical(path, error).string() : path;
  if (error) return cannot_write(path, error.value());
  for (int attempt = 0; attempt < kNameAttempts; ++attempt) {
    const std::string temporary = target + ".tmp-" + random_suffix();
    const int fd = ::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) return cannot_write(path, errno);
    AtomicFile file(path, temporary, fd);
    file.target_ = target;
    if (exists && ::fchmod(fd, facts.st_mode & 07777) != 0) return file.error(errno);
    return file;
  }
  return cannot_write(path, EEXIST);
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::exchange(other.fd_, -1)),
      position_(other.position_),
      buffer_(std::move(other.buffer_)) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  if (this == &other) return *this;
  discard();
  path_ = std::move(other.path_);
  target_ = std::move(other.target_);
  temporary_ = std::exchange(other.temporary_, {});
  fd_ = std::exchange(other.fd_, -1);
  position_ = other.position_;
  buffer_ = std::move(other.buffer_);
  return *this;
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

Status AtomicFile::error(int number) const { return cannot_write(path_, number); }

Status AtomicFile::flush() {
  if (fd_ < 0) return internal_error(printable(path_) + ": written to after commit");
  const int number = write_all(fd_, buffer_, -1);
  buffer_.clear();
  return number == 0 ? ok_status() : error(number);
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  position_ += bytes.size();
  if (buffer_.size() + bytes.size() <= kBufferBytes) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return ok_status();
  }
  MEZZO_RETURN_IF_ERROR(flush());
  if (bytes.size() < kBufferBytes) {
    buffer_.assign(bytes.begin(), bytes.end());
    return ok_status();
  }
  const int number = write_all(fd_, bytes, -1);
  return number == 0 ? ok_status() : error(number);
}

Status AtomicFile::write_zeros(std::uint64_t count) {
  constexpr std::array<std::byte, 4096> kZeros = {};
  while (count > 0) {
    const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(count, kZeros.size()));
    MEZZO_RETURN_IF_ERROR(write(std::span(kZeros).first(step)));
    count -= step;
  }
  return ok_status();
}

Status AtomicFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (offset > position_ || bytes.size() > position_ - offset) {
    return internal_error(printable(path_) + ": write_at beyond what was written");
  }
  MEZZO_RETURN_IF_ERROR(flush());
  const int number = write_all(fd_, bytes, static_cast<std::int64_t>(offset));
  return number == 0 ? ok_status() : error(number);
}

Status AtomicFile::finish() {
  MEZZO_RETURN_IF_ERROR(flush());
  if (::fsync(fd_) != 0) return error(errno);
  if (mappings_damaged()) {
    return invalid_argument(printable(path_) + ": is not written, as " +
                            std::string(kMappingDamage));
  }
  return ok_status();
}

Status AtomicFile::commit() {
  MEZZO_RETURN_IF_ERROR(finish());
  if (::close(std::exchange(fd_, -1)) != 0) return error(errno);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return error(errno);
  temporary_.clear();
  const int number = flush_folder(parent_folder(target_));
  return number == 0 ? ok_status() : error(number);
}

AtomicDirectory::AtomicDirectory(std::string path, std::string temporary)
    : path_(std::move(path)), temporary_(std::move(temporary)) {}

StatusOr<AtomicDirectory> AtomicDirectory::create(const std::string& path) {
  if (path.empty()) return invalid_argument("the output folder's name is empty");
  const std::string target = without_trailing_slash(path);
  struct stat facts = {};
  if (::stat(target.c_str(), &facts) == 0 && !S_ISDIR(facts.st_mode)) {
    return cannot_write(target, ENOTDIR);
  }
  for (int attempt = 0; attempt < kNameAttempts; ++attempt) {
    const std::string temporary = target + ".tmp-" + random_suffix();
    if (::mkdir(temporary.c_str(), 0777) == 0) return AtomicDirectory(target, temporary);
    if (errno != EEXIST) return cannot_write(target, errno);
  }
  return cannot_write(target, EEXIST);
}

AtomicDirectory::AtomicDirectory(AtomicDirectory&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, {})) {}

AtomicDirectory& AtomicDirectory::operator=(AtomicDirectory&& other) noexcept {
  if (this == &other) return *this;
  discard();
  path_ = std::move(other.path_);
  temporary_ = std::exchange(other.temporary_, {});
  return *this;
}

AtomicDirectory::~AtomicDirectory() { discard(); }

void AtomicDirectory::discard() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
  temporary_.clear();
}

Status AtomicDirectory::error(int number) const { return cannot_write(path_, number); }

std::string AtomicDirectory::file(std::string_view name) const {
  return temporary_ + "/" + std::string(name);
}

Status AtomicDirectory::commit() {
  std::error_code failure;
  for (auto entry = fs::recursive_directory_iterator(temporary_, failure);
       !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
    const bool is_folder = entry->is_directory(failure);
    const std::string name = entry->path().string();
    const int number = is_folder ? flush_folder(name) : flush_file(name);
    if (number != 0) return error(number);
  }
  if (failure) return error(failure.value());
  if (const int number = flush_folder(temporary_); number != 0) return error(number);

  std::string replaced;
  if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0) {
    replaced = std::exchange(temporary_, {});  // the old folder now bears the temporary name
  } else if (errno == ENOENT) {                // no old folder
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) return error(errno);
    temporary_.clear();
  } else if (errno == EINVAL || errno == ENOSYS) {  // the file system cannot exchange
    replaced = path_ + ".old-" + random_suffix();
    if (::rename(path_.c_str(), replaced.c_str()) != 0) return error(errno);
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
      const int number = errno;
      if (::rename(replaced.c_str(), path_.c_str()) != 0) return error(errno);
      return error(number);
    }
    temporary_.clear();
  } else {
    return error(errno);
  }
  if (const int number = flush_folder(parent_folder(path_)); number != 0) return error(number);
  if (!replaced.empty()) fs::remove_all(replaced, failure);
  return failure ? error(failure.value()) : ok_status();
}

Status write_file(const std::string& path, std::string_view text) {
  MEZZO_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  MEZZO_RETURN_IF_ERROR(file.write(text));
  return file.commit();
}

}  // namespace mezzo
