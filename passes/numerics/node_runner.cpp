#include "passes/numerics/node_runner.h"

#include "compiler/ir/clone.h"
#include "passes/pass.h"
#include "passes/precision/insert_casts.h"

namespace mezzo::numerics {
namespace {

// A model of one node; its inputs are the operands that are there, each once.
struct SingleNode {
  Model model;
  Node* node = nullptr;
  std::vector<RuntimeValue> inputs;
};

std::unique_ptr<SingleNode> make_single(const Node& node,
                                        std::span<const RuntimeValue* const> operands,
                                        const Model& source) {
  auto single = std::make_unique<SingleNode>();
  single->model.ir_version = source.ir_version;
  single->model.opsets = source.opsets;
  single->model.graph = std::make_unique<Graph>("node");
  Graph& graph = *single->model.graph;
  ValueMapping mapping;
  for (std::size_t i = 0; i < node.operand_count(); ++i) {
    const Value* value = node.operand(i);
    if (value == nullptr || mapping.count(value) > 0) continue;
    const bool absent = i >= operands.size() || operands[i] == nullptr;
    RuntimeValue given = absent ? RuntimeValue() : *operands[i];
    mapping[value] =
        graph.add_input(value->name(), given.is_tensor() ? given.tensor.type() : value->type);
    single->inputs.push_back(std::move(given));
  }
  single->node = clone_node(graph, node, mapping);
  for (Value* result : single->node->results()) {
    if (result != nullptr) graph.add_output(result);
  }
  return single;
}

}  // namespace

StatusOr<std::vector<RuntimeValue>> run_node(const Node& node,
                                             std::span<const RuntimeValue* const> operands,
                                             const NodeRunnerOptions& options,
                                             const passes::LowSlots* low, DType dtype) {
  const auto single = make_single(node, operands, *options.model);
  if (low != nullptr) {
    passes::PassContext ctx;
    ctx.policy.low = dtype;
    auto assignment = std::make_shared<passes::Assignment>();
    assignment->nodes[single->node] = {true, *low};
    ctx.assignment = std::move(assignment);
    MEZZO_RETURN_IF_ERROR(passes::insert_casts(single->model, ctx).status());
  }
  InterpreterOptions interpreter_options;
  interpreter_options.threads = options.threads;
  Interpreter interpreter(single->model, interpreter_options);
  MEZZO_ASSIGN_OR_RETURN(std::vector<RuntimeValue> outputs,
                         interpreter.run(std::move(single->inputs)));
  // As the node lists them: absent ones in their places.
  std::vector<RuntimeValue> results;
  std::size_t next = 0;
  for (const Value* result : node.results())
    results.push_back(result == nullptr ? RuntimeValue() : std::move(outputs[next++]));
  return results;
}

}  // namespace mezzo::numerics
