// Any bytes as an npz or npy file and as a safetensors file; every array that is listed is read.
#include <cstdint>
#include <string>

#include "compiler/support/dtype.h"
#include "fuzz_target.h"
#include "runtime/io/npz.h"
#include "runtime/io/safetensors.h"

namespace mezzo::fuzz {
namespace {

// A deflated member may be a thousand times its size in the file; what reading many would cost in
// time says nothing new.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 24;

// Touches first and last byte: the sanitizers see whether they are there.
std::uint64_t touch(std::span<const std::byte> bytes) {
  if (bytes.empty()) return 0;
  return static_cast<std::uint64_t>(bytes.front()) + static_cast<std::uint64_t>(bytes.back());
}

void read_npz(const std::string& path) {
  const auto file = runtime::NpzFile::open(path);
  if (!accepted(file.status(), "NpzFile::open")) return;
  std::uint64_t left = kMostBytes, sum = 0;
  for (const auto& array : file->arrays()) {
    if (array.bytes > left) break;
    left -= array.bytes;
    const auto data = file->read(array.name);
    if (!accepted(data.status(), "NpzFile::read")) continue;
    demand(data->bytes.size() == array.bytes, "an array has the bytes that were announced");
    sum += touch(data->bytes);
  }
  demand(sum < kMostBytes * 512, "bytes add up");
}

void read_safetensors(const std::string& path) {
  const auto file = runtime::SafetensorsFile::open(path);
  if (!accepted(file.status(), "SafetensorsFile::open")) return;
  std::uint64_t sum = 0;
  for (const auto& entry : file->entries()) {
    demand(file->find(entry.name) == &entry, "names are distinct");
    sum += touch(entry.bytes);
  }
  demand(sum <= file->entries().size() * 510, "bytes add up");
}

void run(Bytes bytes) {
  const std::string path = write_scratch("arrays", bytes);
  read_npz(path);
  read_safetensors(path);
}

}  // namespace

const Target arrays_target = {"arrays", run, nullptr};

}  // namespace mezzo::fuzz
