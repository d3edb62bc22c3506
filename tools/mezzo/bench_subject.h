// One model in one precision, ready to be run again and again: what `mezzo bench` measures.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/support/status.h"
#include "runtime/exec/executor.h"
#include "runtime/io/npz.h"
#include "tools/mezzo/compile_model.h"

namespace mezzo::cli {

// The arrays that are fed to the graph's inputs, by name.
struct BenchInputs {
  struct Array {
    DType dtype = DType::kNone;
    std::vector<std::int64_t> shape;
    std::vector<std::byte> bytes;
  };
  std::map<std::string, Array> arrays;
  std::string source;  // for messages: the npz, or "" where they were drawn

  static StatusOr<BenchInputs> read(const std::string& npz);
};

class BenchSubject {
 public:
  // `model` is an ONNX model or a plan; `compile` is not asked for a plan. Inputs without an array
  // are drawn from `seed`: floats from the normal distribution, integers and bools 0 or 1, which
  // serve as indices and labels of most models; they are added to `inputs`, so that the next
  // subject gets the same. InvalidArgument: an array of another shape or type.
  static StatusOr<BenchSubject> create(const std::string& model, const CompileOptions& compile,
                                       const runtime::ExecutorOptions& options, BenchInputs& inputs,
                                       std::uint64_t seed);

  // Feeds the inputs and runs once; milliseconds.
  StatusOr<double> run();

  // The floating-point outputs, in their order, one after the other.
  std::vector<double> outputs() const;
  // Arenas, workspace and weights that the runs read.
  std::uint64_t memory_bytes() const;
  std::vector<runtime::StepProfile> profile() const { return executor_->profile(); }

 private:
  Status bind(BenchInputs& inputs, std::uint64_t seed);

  struct Feed {
    std::vector<std::byte> bytes;  // in the input's own type
    std::byte* to;
  };
  std::unique_ptr<runtime::Executor> executor_;
  std::vector<Feed> feeds_;
};

}  // namespace mezzo::cli
