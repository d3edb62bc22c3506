// The folder that `mezzo train --out` writes into.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/status.h"

namespace mezzo::cli {

// Folders that open() made are removed again, if empty, unless keep() was called: a run that fails
// before its first step leaves nothing behind.
class RunFolder {
 public:
  // Could a run be written there? Changes nothing. InvalidArgument: a file is in the way, no
  // permission, or DIR/checkpoint exists and is no checkpoint.
  static Status check(const std::string& path);
  static StatusOr<RunFolder> open(const std::string& path);

  ~RunFolder();
  RunFolder(RunFolder&&) noexcept = default;
  RunFolder& operator=(RunFolder&&) = delete;

  void keep() { made_.clear(); }
  std::string file(std::string_view name) const;
  std::string checkpoint() const { return file("checkpoint"); }

 private:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
  std::vector<std::string> made_;  // outermost first
};

}  // namespace mezzo::cli
