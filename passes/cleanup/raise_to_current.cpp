#include "passes/cleanup/raise_to_current.h"

#include <numeric>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/onnx/check.h"
#include "compiler/ops/op_def.h"

namespace mezzo::passes {
namespace {

constexpr std::int64_t kCurrent = 13;
constexpr std::int64_t kDftAxisOperand = 20;
constexpr std::int64_t kHalfPixelRegions = 16;
constexpr std::int64_t kResizePositions = 11;
constexpr std::int64_t kNumpyBroadcasting = 7;  // below, binary ops have an attribute for it
constexpr std::int64_t kScanWithoutBatch = 9;   // below, Scan has a batch axis, and lengths

bool is_softmax_like(const Node& node) {
  return node.is("Softmax") || node.is("LogSoftmax") || node.is("Hardmax");
}

// The node that would be misread at this opset; null if there is none.
const Node* misread(const Graph& graph, std::int64_t opset) {
  for (const auto& node : graph.nodes()) {
    if (is_softmax_like(*node)) {
      const Value* x = node->operand(0);
      const auto rank =
          x != nullptr && x->type.is_tensor() ? x->tensor_type().rank() : std::nullopt;
      const std::int64_t axis = node->int_attribute("axis", 1);
      const bool is_last = axis == -1 || (rank && axis == static_cast<std::int64_t>(*rank) - 1);
      if (!is_last) return node.get();
    }
    if (opset < kNumpyBroadcasting && node->int_attribute("broadcast", 0) != 0) return node.get();
    for (const Graph* inner : node->subgraphs()) {
      if (const Node* found = misread(*inner, opset)) return found;
    }
  }
  return nullptr;
}

std::optional<std::size_t> rank_of(const Value* value) {
  return value != nullptr && value->type.is_tensor() ? value->tensor_type().rank() : std::nullopt;
}

// Below opset 7 a list of slopes belongs to the channels, since then it broadcasts as in numpy, and
// the library's converter does not say so: [C] becomes [C,1,1] for x[N,C,H,W].
bool spread_slopes(Graph& graph) {
  bool changed = false;
  for (Node* node : graph.node_list()) {
    const auto rank = rank_of(node->operand(0));
    if (!node->is("PRelu") || !rank || *rank < 3 || rank_of(node->operand(1)) != 1) continue;
    const Dim& slopes = node->operand(1)->tensor_type().shape->front();
    if (slopes.known() && slopes.value == 1) continue;
    std::vector<std::int64_t> axes(*rank - 2);
    std::iota(axes.begin(), axes.end(), std::int64_t{1});
    Builder builder(graph, nullptr, node);
    node->set_operand(1, builder.op("Unsqueeze", {node->operand(1)}, {{"axes", axes}}));
    changed = true;
  }
  return changed;
}

// RoiAlign took its regions without the half pixel before opset 16, where the attribute came whose
// default is the other way.
bool say_roi_coordinates(Graph& graph) {
  bool changed = false;
  for (Node* node : graph.node_list()) {
    if (node->is("RoiAlign") && !node->has_attribute("coordinate_transformation_mode")) {
      node->set_attribute("coordinate_transformation_mode", std::string("output_half_pixel"));
      changed = true;
    }
    for (Graph* inner : node->subgraphs()) changed = say_roi_coordinates(*inner) || changed;
  }
  return changed;
}

// Resize of opset 10, and Upsample before it, know no attributes for positions; what the library's
// converter makes of them would take the defaults of opset 11, which are others.
void say_resize_positions(Model& model) {
  for_each_graph(*model.graph, [](Graph& graph) {
    for (const auto& node : graph.nodes()) {
      if (!node->is("Resize") || node->has_attribute("coordinate_transformation_mode")) continue;
      node->set_attribute("coordinate_transformation_mode", std::string("asymmetric"));
      node->set_attribute("nearest_mode", std::string("floor"));
    }
  });
}

bool has_prelu(Model& model) {
  bool found = false;
  for_each_graph(*model.graph, [&](Graph& graph) {
    for (const auto& node : graph.nodes()) found = found || node->is("PRelu");
  });
  return found;
}

// The library's converter passes such a node on as it is.
Status refuse_batched_scan(Model& model) {
  if (model.opset() >= kScanWithoutBatch) return ok_status();
  const Node* scan = nullptr;
  for_each_graph(*model.graph, [&](Graph& graph) {
    for (const auto& node : graph.nodes()) scan = node->is("Scan") ? node.get() : scan;
  });
  if (scan == nullptr) return ok_status();
  return unimplemented(describe(*scan) + ": Scan has a batch axis at opset " +
                       std::to_string(model.opset()) +
                       ", which the runtime does not execute. Hint: export the model with a newer "
                       "opset");
}

StatusOr<bool> spread_all_slopes(Model& model) {
  if (model.opset() >= kNumpyBroadcasting || !has_prelu(model)) return false;
  MEZZO_RETURN_IF_ERROR(infer_types(model));  // for ranks
  bool changed = false;
  for_each_graph(*model.graph, [&](Graph& graph) { changed = spread_slopes(graph) || changed; });
  return changed;
}

// DFT's axis was an attribute with default 1 until opset 19 and is an operand with default -2
// since: written down, it means the same in either reading.
bool write_down_dft_axes(Model& model) {
  bool changed = false;
  for_each_graph(*model.graph, [&](Graph& graph) {
    for (const auto& node : graph.nodes()) {
      if (!node->is("DFT") || node->has_attribute("axis") || node->operand(2) != nullptr) continue;
      node->set_attribute("axis", std::int64_t{1});
      changed = true;
    }
  });
  return changed;
}

// REQUIRES: refuse_batched_scan and spread_all_slopes went over the model.
Status raise_and_say(Model& model, std::int64_t version) {
  const std::int64_t from = model.opset();
  if (version >= kDftAxisOperand) write_down_dft_axes(model);
  MEZZO_RETURN_IF_ERROR(raise_opset(model, version));
  if (from < kResizePositions) say_resize_positions(model);
  if (from < kHalfPixelRegions) say_roi_coordinates(*model.graph);
  return ok_status();
}

}  // namespace

Status raise_with_meaning(Model& model, std::int64_t version) {
  if (model.opset() >= version) return ok_status();
  MEZZO_RETURN_IF_ERROR(refuse_batched_scan(model));
  MEZZO_RETURN_IF_ERROR(spread_all_slopes(model).status());
  return raise_and_say(model, version);
}

StatusOr<bool> raise_to_current(Model& model, PassContext& ctx) {
  const std::int64_t opset = model.opset();
  if (opset == 0) return false;
  if (opset >= kCurrent) {
    const bool said = opset < kHalfPixelRegions && say_roi_coordinates(*model.graph);
    return (opset < kDftAxisOperand && write_down_dft_axes(model)) || said;
  }
  MEZZO_RETURN_IF_ERROR(refuse_batched_scan(model));
  MEZZO_ASSIGN_OR_RETURN(bool said, spread_all_slopes(model));
  const Status raised = raise_and_say(model, kCurrent);
  if (raised.ok()) {
    ctx.stats.add("opset-raised", 1);
    return true;
  }
  if (raised.code() == StatusCode::kInternal) return raised;
  said = say_roi_coordinates(*model.graph) || said;
  const Node* node = misread(*model.graph, opset);
  if (node == nullptr) return said;
  return unimplemented(describe(*node) + ": means something else since opset " +
                       std::to_string(kCurrent) +
                       ", and the model could not be raised from opset " + std::to_string(opset) +
                       ": " + raised.message() + ". Hint: export the model with a newer opset");
}

}  // namespace mezzo::passes
