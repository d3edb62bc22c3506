// Private to the interpreter: a graph with its values numbered.
//
// A run of a graph holds its values in the slots of a frame; the frame of a graph inside a node
// leads to that of the graph around it. Constants stand in the program, whatever graph owns them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "compiler/interpreter/prepared_node.h"
#include "compiler/interpreter/value.h"
#include "compiler/ir/graph.h"

namespace mezzo::interpreter {

// Where an operand comes from.
struct Ref {
  enum class Kind : std::uint8_t { kAbsent, kConstant, kSlot };
  Kind kind = Kind::kAbsent;
  int depth = 0;      // kSlot: graphs to go outwards
  int index = 0;      // of the constant or slot
  bool last = false;  // kSlot of depth 0: nobody reads it afterwards
};

class Machine;
struct Frame;
struct Program;
struct Step;

using Values = std::vector<RuntimeValue>;

// Runs a node that is more than a kernel: control flow, sequences, optionals. Results are one per
// result of the node; surplus ones are dropped.
using Handler = StatusOr<Values> (*)(Machine&, Step&, Frame&, Values& operands, bool observed);

// Null for nodes that have none.
Handler find_control_flow(const Node& node);
Handler find_container_op(const Node& node);

struct Step {
  const Node* node = nullptr;
  Handler handler = nullptr;  // null: a kernel runs
  std::vector<Ref> operands;
  std::vector<int> results;                      // slots; -1: not wanted
  std::vector<int> dead;                         // slots to clear afterwards
  std::vector<std::unique_ptr<Program>> graphs;  // of node->subgraphs(), in their order
  PreparedNodes prepared;
};

struct Program {
  const Graph* graph = nullptr;
  int slots = 0;
  std::vector<int> inputs;    // slot per graph input
  std::vector<Ref> defaults;  // per graph input: a constant or absent
  std::vector<RuntimeValue> constants;
  std::vector<Step> steps;
  std::vector<Ref> outputs;
};

struct Frame {
  const Program* program = nullptr;
  Frame* parent = nullptr;
  std::vector<RuntimeValue> slots;
};

// Gives the value of a constant; called once for each that the graph reads.
using ConstantSource = std::function<StatusOr<RuntimeValue>(const Value&)>;

// Unimplemented: a constant of strings or the like.
StatusOr<std::unique_ptr<Program>> build_program(const Graph& graph, const ConstantSource& source);

// The value, or an absent one.
const RuntimeValue& read(const Ref& ref, const Frame& frame);

}  // namespace mezzo::interpreter
