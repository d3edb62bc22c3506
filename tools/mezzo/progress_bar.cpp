#include "tools/mezzo/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace mezzo::cli {

ProgressBar::ProgressBar(std::string label, std::uint64_t total, bool quiet)
    : label_(std::move(label)), total_(std::max<std::uint64_t>(1, total)) {
  const char* term = std::getenv("TERM");
  terminal_ =
      !quiet && ::isatty(STDERR_FILENO) == 1 && (term == nullptr || std::strcmp(term, "dumb") != 0);
}

void ProgressBar::update(std::uint64_t done) {
  if (!terminal_) return;
  constexpr std::uint64_t kCells = 24;
  const std::uint64_t filled = std::min(done, total_) * kCells / total_;
  const std::string bar = std::string(filled, '#') + std::string(kCells - filled, '.');
  std::fprintf(stderr, "\r%s [%s] %llu/%llu\x1b[K", label_.c_str(), bar.c_str(),
               static_cast<unsigned long long>(done), static_cast<unsigned long long>(total_));
  std::fflush(stderr);
  shown_ = true;
}

void ProgressBar::finish() {
  if (!shown_) return;
  std::fprintf(stderr, "\r\x1b[K");
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace mezzo::cli
