#include "fuzz_target.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace mezzo::fuzz {
namespace {

namespace fs = std::filesystem;

void write_bytes(const fs::path& path, Bytes bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  demand(fd >= 0, "cannot write the scratch file", path.native());
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    demand(written > 0, "cannot write the scratch file", path.native());
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  ::close(fd);
}

class Scratch {
 public:
  Scratch() {
    // Files are made for every input: memory is faster than a disk, and fsync costs nothing there.
    const fs::path memory = "/dev/shm";
    const bool usable = ::access(memory.c_str(), W_OK) == 0 && ::getenv("TMPDIR") == nullptr;
    std::string pattern = (usable ? memory : fs::temp_directory_path()) / "mezzo-fuzz-XXXXXX";
    demand(::mkdtemp(pattern.data()) != nullptr, "cannot make a scratch folder", pattern);
    root_ = pattern;
    fs::create_directories(root_ / "model" / "sub");
    fs::create_directories(root_ / "out");
    std::string data(8192, '\0');
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7);
    const Bytes bytes = std::as_bytes(std::span(data));
    write_bytes(root_ / "outside.bin", bytes);
    write_bytes(root_ / "model" / "weights.bin", bytes);
    write_bytes(root_ / "model" / "sub" / "more.bin", bytes.first(400));
    fs::create_symlink("../outside.bin", root_ / "model" / "link.bin");
    fs::create_directory_symlink("..", root_ / "model" / "up");
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const fs::path& root() const { return root_; }

 private:
  fs::path root_;
};

const fs::path& scratch_root() {
  static const Scratch scratch;
  return scratch.root();
}

}  // namespace

std::uint32_t choice_for(Bytes bytes) {
  std::uint32_t hash = 2166136261U;  // FNV-1a, whose upper bits are the better ones
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<std::uint32_t>(byte)) * 16777619U;
  return hash >> 8;
}

void demand(bool holds, std::string_view what, std::string_view detail) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %.*s: %.*s\n", static_cast<int>(what.size()), what.data(),
               static_cast<int>(detail.size()), detail.data());
  std::abort();
}

void demand_ok(const Status& status, std::string_view what) {
  demand(status.ok(), what, status.message());
}

bool accepted(const Status& status, std::string_view what) {
  demand(status.code() != StatusCode::kInternal, what, status.message());
  demand(status.message().find('\n') == std::string::npos, "an error of several lines",
         status.message());
  return status.ok();
}

std::string write_scratch(std::string_view name, Bytes bytes) {
  const fs::path path = scratch_root() / "model" / name;
  write_bytes(path, bytes);
  return path.string();
}

std::string output_path(std::string_view name) { return (scratch_root() / "out" / name).string(); }

}  // namespace mezzo::fuzz
