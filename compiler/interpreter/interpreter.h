// Executes a graph node by node, whatever it holds: shapes that depend on the data, If, Loop, Scan,
// calls of local functions, sequences and optionals. It is the way to run what cannot become a plan
// (compiler/plan), and to look at every tensor of a run: calibration, comparison and the search for
// the first NaN observe one.
//
// A node's kernel is prepared when operands of new types and sizes first reach it, by the same
// lowering (compiler/ops) and the same kernels that plans use; it is kept for the next time. An
// operator without a kernel runs as its decomposition or its ONNX function body. Every node rounds
// its results to their declared types, and nothing is fused.
//
// Ownership: the model must outlive the interpreter and not change meanwhile. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "compiler/interpreter/value.h"
#include "compiler/ir/graph.h"
#include "compiler/support/status.h"
#include "kernels/kernel.h"

namespace mezzo {

// A node that has just run. Absent operands and results are null; so are results nobody reads that
// the kernel did not make.
struct NodeRun {
  const Node& node;
  std::span<const RuntimeValue* const> operands;
  std::span<const RuntimeValue* const> results;
};

// Called for every node in the order of execution, those inside If, Loop, Scan and calls once per
// time they run (before the node that holds them), those of decompositions and function bodies not.
// An error ends the run.
using NodeObserver = std::function<Status(const NodeRun&)>;

struct InterpreterOptions {
  int threads = 1;
  kernels::Backend backend = kernels::Backend::kCpu;
  // Of all Loops and Scans in a run together: beyond it the run ends with an error.
  std::uint64_t most_iterations = 1'000'000;
  // Bytes of values alive together; 0: as much as the machine has memory.
  std::uint64_t most_bytes = 0;
  NodeObserver observer;
};

class Interpreter {
 public:
  // Calls of local functions run if `expand-functions` or `inline-functions` went over the model.
  // REQUIRES: nodes mean what they mean at opset 13 or later (`raise-to-current`).
  Interpreter(const Model& model, InterpreterOptions options);
  ~Interpreter();

  // One value per input of the main graph, in its order; kNone takes the default where the input
  // has one. Gives the outputs in order. InvalidArgument: an operand's size or value does not suit
  // its node (named), a loop without end, too little memory. Unimplemented: no kernel (names node
  // and reason).
  StatusOr<std::vector<RuntimeValue>> run(std::vector<RuntimeValue> inputs);

  // A tensor with memory of the interpreter's, for making inputs. InvalidArgument: too large.
  StatusOr<HostTensor> make_tensor(DType dtype, std::vector<std::int64_t> dims,
                                   std::span<const std::byte> bytes);

  std::uint64_t peak_bytes() const;  // of values alive together so far

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mezzo
