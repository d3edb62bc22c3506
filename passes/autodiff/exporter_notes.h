// What PyTorch's exporter notes about a graph: layers and parameters that its optimiser took away.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"

namespace mezzo::passes {

// The path of the module that the node was called in, as torch.export notes it: the deepest entry
// of "['', 'net', 'net.1', 'conv2d']" before the function's own name. "" where nothing is noted.
std::string module_of(const Node& node);

// InvalidArgument naming the layers, if torch.export's optimiser noted that it folded
// BatchNormalizations into convolutions: their scale and bias cannot be trained any more and their
// statistics no longer move.
Status check_nothing_folded(const Graph& graph);

// Convolutions whose weights have the names that the TorchScript exporter gives to what it
// computed. It does so with a BatchNormalization behind it, and notes nothing.
std::vector<std::string> convolutions_with_computed_weights(const Graph& graph);

// What values were in the PyTorch module, by name, as the exporter notes in their value_info:
// "PARAMETER", "BUFFER", "CONSTANT_TENSOR", "USER_INPUT"; kComputedKind for what it computed from
// none of the module's parameters (positions of a grid, weights of an interpolation).
inline constexpr const char* kComputedKind = "COMPUTED";
std::unordered_map<std::string, std::string> noted_kinds(const Graph& graph);

// Floating-point initializers that are neither parameter nor buffer of the module, by these notes:
// the exporter has computed them. Empty where the graph has no such notes, or where parameters are
// lost (see below), which are then most likely among these, transposed.
std::vector<const Value*> computed_initializers(const Graph& graph);

// Parameters of the PyTorch module that the graph was made from, as the notes on its nodes name
// them ("p_net_1_weight"), that no initializer stands for: the exporter has computed with them.
// Sorted; empty for graphs without notes.
std::vector<std::string> lost_parameters(const Graph& graph);

// Parameters that the exported program's signature lists, and that neither an initializer nor a
// note on a node tells of: unused, tied to another, or computed with until no trace was left, as a
// scale of 1 + 0. Sorted; empty for graphs without a signature.
std::vector<std::string> untraced_parameters(const Graph& graph);

// The call of the exported program that a node stems from; "" without a note.
std::string exporter_note(const Node& node);

// The call that such a note tells of: "torch.ops.aten.embedding.default" and the arguments as
// written, "%p_e_weight", "%ids", "0". Empty for other notes.
struct NotedCall {
  std::string target;
  std::vector<std::string> arguments;
};
NotedCall noted_call(const Node& node);

// "p_net_1_weight" and so on, in the order of the call's arguments, in lower case: exporters
// differ.
std::vector<std::string> parameters_in_note(const std::string& note);
// How notes spell an initializer: "Net.1.weight" is "p_net_1_weight".
std::string noted_parameter(const std::string& initializer);
// The parameter's name in its module, told from the node's place in it; as noted where that fails.
std::string parameter_name(const Node& node, const std::string& noted);

}  // namespace mezzo::passes
