// The policy of one run: which low type, what is pinned. Read from options (later also from a
// file), printed in every report.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/support/dtype.h"

namespace mezzo::passes {

enum class AssignMethod : std::uint8_t { kCut, kPropagate };
enum class IoTypes : std::uint8_t { kKeep, kLow };

struct PrecisionPolicy {
  DType low = DType::kFloat16;  // kFloat16 or kBFloat16
  bool force_fp32 = false;      // --fp32: everything stays
  AssignMethod assign = AssignMethod::kCut;
  IoTypes io = IoTypes::kKeep;
  std::string target = "cpu";  // cost model: cpu, v100, a100, h100
  bool pin_embedding = true;
  bool pin_normalization = true;
  bool pin_softmax = true;
  bool pin_loss = true;
  std::vector<std::string> pins;      // regular expressions on node names (and result names)
  std::vector<std::string> deny_ops;  // op types
  std::vector<std::string> allow_ops;

  // Name and value of every setting, for reports.
  std::vector<std::pair<std::string, std::string>> describe() const;
};

}  // namespace mezzo::passes
