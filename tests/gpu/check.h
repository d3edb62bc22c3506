// What the parts of gpu_check share: where things are, how long there is, and how a part ends.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tests/gpu/process.h"

namespace mezzo::gpu {

using Json = nlohmann::json;

// "verdict" of a part and of the whole. What was cut off or never begun is not passed.
inline constexpr std::string_view kPassed = "passed", kFailed = "failed", kCutOff = "cut off",
                                  kNotRun = "not run", kAbsent = "absent";

// The worst that a part of the whole came to: failed, else cut off, else passed. What is absent on
// the machine (PyTorch, compute-sanitizer) leaves the whole as it is.
std::string_view worse(std::string_view a, std::string_view b);

struct Check {
  std::string folder;  // what came along: bin/, lib/, networks/, refs/
  std::string work;    // for files of the runs
  std::vector<std::string>
      loader;          // before a program of ours, where this machine's C library is old
  Environment ours;    // of our programs
  Environment others;  // of the machine's programs
  double start_s = 0, limit_s = 460;
  int jobs = 1;                                     // programs at once, where time is not measured
  std::string kernels = "*", references, networks;  // which; empty: all
  std::string networks_folder = "networks";         // below `folder`
  int steps = 24;                                   // of the networks
  bool with_torch = true;
  std::string python = "python3";
  std::uint64_t device_bytes = 0;

  // `name` is below bin/.
  std::vector<std::string> program(const std::string& name) const;
  ProcessResult run(const std::vector<std::string>& command, double limit_s,
                    const Environment& more = {}) const;
  ProcessResult run_other(const std::vector<std::string>& command, double limit_s,
                          const Environment& more = {}) const;
  // The point in time when this part of the limit has gone by.
  double until(double part) const { return start_s + part * limit_s; }
};

// Calls `work` for 0 to count - 1, `jobs` at a time, each in one thread.
void in_parallel(std::size_t count, int jobs, const std::function<void(std::size_t)>& work);

// One line on standard output, with the time since the start.
void tell(const Check& check, const std::string& text);

// Comma-separated names; empty: `all`.
std::vector<std::string> chosen(const std::string& names, const std::vector<std::string>& all);

// The file's text parsed; Json::discarded where it cannot be.
Json read_json(const std::string& path);
std::vector<Json> read_json_lines(const std::string& path);

}  // namespace mezzo::gpu
