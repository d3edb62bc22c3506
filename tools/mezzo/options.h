// Options that several commands share.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/report/records.h"
#include "compiler/support/status.h"
#include "passes/pass.h"
#include "passes/pass_runner.h"

namespace CLI {
class App;
}

namespace mezzo::cli {

// Precision policy as given on the command line; to_policy() checks and translates. What is not
// given (empty) is as the policy file, the preset, or else the default policy says.
struct PolicyOptions {
  std::string policy_file, preset;
  std::string precision;    // "fp16", "bf16" or, for train and compile, "fp32"
  bool force_fp32 = false;  // --fp32
  std::string assign, io, target, pad_channels;
  std::vector<std::string> pins, deny_ops, allow_ops;

  void add_to(CLI::App& app, bool takes_fp32, bool has_io);
  // InvalidArgument: the policy file cannot be read or is none.
  StatusOr<passes::PrecisionPolicy> to_policy() const;
  // Does anything given say which type to run in? (--precision, --policy, --preset)
  bool ask_for_precision() const;
  // For digests of a run: the policy in effect where a file or a preset gives it, else only the
  // precision asked for ("" if none is).
  std::string describe() const;
};

passes::PadOptions padding_of(const passes::PrecisionPolicy& policy);

// InvalidArgument where a --pin matches no node, or --deny-op or --allow-op names an operator that
// neither the model nor the catalogue has: most likely a slip. In a policy file, which may serve
// many models, a name that is nearly one of an operator is worth a warning. `records` are those of
// the run.
Status check_policy_used(const passes::PrecisionPolicy& policy, Records& records);

struct DumpOptions {
  std::string dump_to;
  void add_to(CLI::App& app);
  passes::RunnerOptions to_runner() const;
};

// "--dim batch=32", repeatable.
struct DimOptions {
  std::vector<std::string> texts;
  void add_to(CLI::App& app);
  StatusOr<std::map<std::string, std::int64_t>> parse() const;
};

// Worker threads: --threads, else OMP_NUM_THREADS, else the cores this process may use.
struct ThreadOptions {
  int threads = 0;
  void add_to(CLI::App& app);
  int count() const;
};

}  // namespace mezzo::cli
