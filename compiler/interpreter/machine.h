// Private to the interpreter: what runs programs.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/interpreter/buffer_pool.h"
#include "compiler/interpreter/interpreter.h"
#include "compiler/interpreter/program.h"

namespace mezzo::interpreter {

// A tensor that is being filled.
struct NewTensor {
  DType dtype = DType::kNone;
  std::vector<std::int64_t> dims;
  std::shared_ptr<std::byte> data;

  HostTensor finish() && { return {dtype, std::move(dims), std::move(data)}; }
};

class Machine {
 public:
  Machine(const Model& model, InterpreterOptions options);

  // The main graph.
  StatusOr<Values> run(Values inputs);

  // One value per input of the program's graph; kNone takes the default. `parent`: the frame of
  // the graph around.
  StatusOr<Values> run_program(Program& program, Values inputs, Frame* parent,
                               bool observed = true);

  // InvalidArgument: negative or too large dims, or no memory.
  StatusOr<NewTensor> allocate(DType dtype, std::vector<std::int64_t> dims);

  const InterpreterOptions& options() const { return options_; }
  // Counts one iteration of `node`. InvalidArgument beyond what a run may have.
  Status count_iteration(const Node& node);
  std::uint64_t peak_bytes() const { return pool_.peak_bytes(); }

 private:
  // `keep`: for the next value with the same data.
  StatusOr<RuntimeValue> constant(const Value& value, bool keep);
  Status run_step(Step& step, Frame& frame, bool observed);
  StatusOr<Values> run_tensor_node(Step& step, Values& operands);
  StatusOr<Values> run_kernel(PreparedNode& prepared, const Node& node, Values& operands);
  Status observe(const Step& step, const Values& operands, const Values& results);

  const Model& model_;
  InterpreterOptions options_;
  BufferPool pool_;
  PrepareContext prepare_;
  std::unordered_map<std::uint64_t, RuntimeValue> constants_;  // by Tensor::id
  std::unique_ptr<Program> program_;
  int depth_ = 0;  // programs within programs
  std::uint64_t iterations_ = 0;
};

// An int64 or bool without dimensions.
StatusOr<HostTensor> scalar_tensor(Machine& machine, DType dtype, std::int64_t value);

// "node 'x' (Loop), operand 1 'n': expected ..., got ..."
Status operand_error(const Node& node, std::size_t operand, const std::string& expected,
                     const RuntimeValue& got);
// The single element of operand `index`, an integer or bool. `fallback` where it is absent.
StatusOr<std::int64_t> integer_operand(const Node& node, const Values& operands, std::size_t index,
                                       std::int64_t fallback);
// The tensor in operand `index`.
StatusOr<const HostTensor*> tensor_operand(const Node& node, const Values& operands,
                                           std::size_t index);

}  // namespace mezzo::interpreter
