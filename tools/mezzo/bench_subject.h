// One model in one precision with its inputs, ready to be run again and again: what `mezzo bench`
// measures.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/interpreter/value.h"
#include "compiler/support/status.h"
#include "runtime/exec/executor.h"
#include "tools/mezzo/session.h"

namespace mezzo::cli {

class BenchSubject {
 public:
  // `model` is an ONNX model or a plan. `input` is what `run` takes; "": values are drawn from
  // `seed`, floats from the normal distribution, integers and bools 0 or 1, which serve as indices
  // and labels of most models. InvalidArgument: inputs that do not fit, or an open dimension
  // without --dim where they are drawn.
  static StatusOr<BenchSubject> create(const std::string& model, const SessionOptions& options,
                                       const std::string& input, std::uint64_t seed);

  // Feeds the inputs and runs once; milliseconds.
  StatusOr<double> run();

  // The floating-point outputs of the last run, in their order, one after the other.
  std::vector<double> outputs() const;
  std::uint64_t memory_bytes() const { return session_->memory_bytes(); }
  std::vector<runtime::StepProfile> profile() const { return session_->profile(); }

 private:
  std::unique_ptr<Session> session_;
  std::vector<RuntimeValue> inputs_, outputs_;
};

}  // namespace mezzo::cli
