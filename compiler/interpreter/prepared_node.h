// Private to the interpreter: a node made ready for operands of certain types and sizes.
//
// The node is cloned into a graph of its own whose inputs have those types. Inference then tells
// the results' sizes, and lowering or decomposition what to run. Where that takes the values of
// operands (a Reshape's shape, TopK's k), small ones become constants of that graph, and the
// prepared node serves these values alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/interpreter/value.h"
#include "compiler/ir/graph.h"
#include "compiler/support/status.h"
#include "kernels/kernel.h"

namespace mezzo::interpreter {

struct Program;

struct PreparedNode {
  enum class Form : std::uint8_t {
    kKernel,
    kAlias,  // the result is operand inputs[0] with other dims
    kGraph,  // a decomposition or function body
  };
  Form form = Form::kKernel;
  std::vector<int>
      inputs;  // per operand of the kernel or input of the graph: the node's operand, or -1
  std::vector<kernels::TensorDesc> results;  // of the node; not present(): not made
  std::vector<int> in_place;                // operands of the kernel whose buffer result 0 may take
  std::unique_ptr<kernels::Kernel> kernel;  // kKernel
  std::unique_ptr<Model> model;             // kGraph
  std::unique_ptr<Program> program;         // kGraph

  PreparedNode();
  ~PreparedNode();
};

// How much of the operands is taken for constant.
enum class Known : std::uint8_t { kTypes, kIntegers, kNumbers };

struct PrepareContext {
  const Model* model = nullptr;  // gives the opsets
  kernels::Backend backend = kernels::Backend::kCpu;
  int threads = 1;
  std::function<StatusOr<RuntimeValue>(const Value&)> constants;
};

// An operand, a tensor or absent.
struct GivenOperand {
  const RuntimeValue* value = nullptr;
  bool constant = false;  // the same in every run, and it outlives what is prepared
};
using Operands = std::span<const GivenOperand>;

// What has been prepared for one node.
class PreparedNodes {
 public:
  // The node for these operands. Errors name the node.
  StatusOr<PreparedNode*> get(const Node& node, Operands operands, const PrepareContext& context);

 private:
  Known known_ = Known::kTypes;
  std::string key_;  // of the operands last asked for
  std::unordered_map<std::string, std::unique_ptr<PreparedNode>> by_key_;
};

// Upper bounds for the results of operators whose sizes depend on the data (NonZero, Unique,
// Compress, NonMaxSuppression), as far as operand types and constants tell; the kernel says how
// much it filled. REQUIRES: operand types are static.
void bound_results(Node& node);

}  // namespace mezzo::interpreter
