// A bar on standard error for work of known length; nothing where that is no terminal.
#pragma once

#include <cstdint>
#include <string>

namespace mezzo::cli {

class ProgressBar {
 public:
  ProgressBar(std::string label, std::uint64_t total, bool quiet = false);
  ~ProgressBar() { finish(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(std::uint64_t done);
  // Takes the bar away, so that what is printed next starts on a clean line. Idempotent.
  void finish();

 private:
  std::string label_;
  std::uint64_t total_;
  bool shown_ = false, terminal_ = false;
};

}  // namespace mezzo::cli
