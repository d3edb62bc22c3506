// Runs a program to its end or its time limit.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace mezzo::gpu {

struct ProcessResult {
  int status = -1;  // exit status; 128 + signal; 124: stopped at the limit; 127: not started
  double seconds = 0;
  std::string output;  // standard output and error, the last kMostOutput characters
};

inline constexpr std::size_t kMostOutput = 64 << 10;

// `program` is looked up in PATH if it has no slash.
ProcessResult run_process(const std::vector<std::string>& command, double limit_s);

}  // namespace mezzo::gpu
