// Which algorithm a library has chosen for which product, kept in a file per device and library so
// that the next start neither searches nor decides otherwise.
//
// The file is text (grammar below), and not trusted: one that is too large, was cut, altered or
// made for another device or library counts as not there and is written anew. An entry is data for
// the library alone, which checks it once more before it is used.
//
//   file     = "mezzo cuBLASLt choices 1\n" device "\n" { entry } "checksum " hex16 "\n"
//   device   = GPU, compute capability, multiprocessors, library version; one line
//   entry    = key " " workspace bytes " " candidates timed " " hex of the algorithm "\n"; key
//              without spaces
//   checksum = FNV-1a, 64 bits, of all bytes before "checksum "
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "compiler/support/status.h"

namespace mezzo::kernels::cuda {

struct BlasLtChoice {
  std::array<std::uint64_t, 8> algorithm{};  // cublasLtMatmulAlgo_t
  std::uint64_t workspace_bytes = 0;
  std::uint64_t timed = 1;  // that it is the fastest of; 1: the first, not timed
  bool operator==(const BlasLtChoice&) const = default;
};

using BlasLtChoices = std::map<std::string, BlasLtChoice, std::less<>>;

inline constexpr std::size_t kMostChoices = 1 << 16;

std::string format_choices(std::string_view device, const BlasLtChoices& choices);
// InvalidArgument: what is wrong with the text.
StatusOr<BlasLtChoices> parse_choices(std::string_view text, std::string_view device);

// The choices of one device. Reads its file when made and writes it when choices have come;
// several processes may do so, each adding to what is there. One thread at a time.
class BlasLtCache {
 public:
  // `folder` empty: nothing is kept.
  BlasLtCache(std::string folder, std::string device);
  ~BlasLtCache();
  BlasLtCache(const BlasLtCache&) = delete;
  BlasLtCache& operator=(const BlasLtCache&) = delete;

  const BlasLtChoice* find(std::string_view key) const;
  void add(const std::string& key, const BlasLtChoice& choice);
  // Forgets a choice that the library did not take.
  void drop(std::string_view key);

  const std::string& path() const { return path_; }
  std::size_t size() const { return choices_.size(); }
  // Writes what has come since. Errors leave the old file.
  Status save();

 private:
  std::string device_;
  std::string path_;  // empty: nothing is kept
  BlasLtChoices choices_;
  std::size_t unsaved_ = 0;
};

}  // namespace mezzo::kernels::cuda
