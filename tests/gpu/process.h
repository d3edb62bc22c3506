// Runs a program to its end or its time limit.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace mezzo::gpu {

using Environment = std::map<std::string, std::string>;  // set in the program, beside the own

struct ProcessResult {
  int status = -1;       // of exit(); 128 + the signal that ended it; 127: not started
  bool cut_off = false;  // stopped at the limit
  double seconds = 0;
  std::string command;  // one line
  std::string output;   // standard output and error, the last kMostOutput characters

  bool ok() const { return status == 0 && !cut_off; }
};

inline constexpr std::size_t kMostOutput = 64 << 10;

// `command[0]` is looked up in PATH if it has no slash. All that the program has started ends with
// it, be it by the limit or by its own end; one that cannot be killed is left behind.
ProcessResult run_process(const std::vector<std::string>& command, double limit_s,
                          const Environment& environment = {});

// For the report: command, how it ended ("exit 1", "signal 11 (Segmentation fault)", "stopped at
// the limit"), seconds and the end of the output.
nlohmann::json describe(const ProcessResult& run);

// Seconds on a clock that only goes forward.
double now_s();

}  // namespace mezzo::gpu
