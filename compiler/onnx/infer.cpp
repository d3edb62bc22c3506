// infer_all_types: ONNX's inference, merged into the IR's types.
//
// ONNX copies the list of all values around it for every subgraph that it enters: quadratic in a
// graph with thousands of Ifs. Where that would copy more than `most_copies` values, each graph is
// inferred by itself (PartInference): nodes with subgraphs are opaque, of the types that the IR has
// (compiler/ops looks into subgraphs in place), and what a subgraph captures is its input.
#include <google/protobuf/arena.h>

#include <exception>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/onnx/check.h"
#include "compiler/onnx/export.h"
#include "compiler/onnx/proto_types.h"
#include "compiler/ops/guarded_schemas.h"
#include "compiler/support/text.h"
#include "onnx/defs/schema.h"
#include "onnx/shape_inference/implementation.h"

namespace mezzo {
namespace {

// Names that ONNX makes up for dimensions it knows nothing about.
bool is_made_up(const Dim& dim) { return dim.symbol.starts_with("unk__"); }

// Stands for the domain of nodes that ONNX must not look at.
constexpr const char* kOpaqueDomain = "ai.mezzo.opaque";

// Calls `visit` with each graph, outermost first, and the message built from it.
template <typename GraphT, typename Visit>
void for_each_pair(GraphT& graph, onnx::GraphProto& proto, const Visit& visit) {
  visit(graph, proto);
  int index = 0;
  for (const auto& node : graph.nodes()) {
    const auto subgraphs = node->subgraphs();
    auto inner = subgraphs.begin();
    for (auto& attribute : *proto.mutable_node(index++)->mutable_attribute()) {
      if (inner == subgraphs.end()) break;
      if (attribute.has_g()) for_each_pair(**inner++, *attribute.mutable_g(), visit);
      for (auto& listed : *attribute.mutable_graphs()) for_each_pair(**inner++, listed, visit);
    }
  }
}

// Knows which nodes ONNX can infer.
class Known {
 public:
  explicit Known(const Model& model) : model_(&model) {
    for (const auto& function : model.functions) {
      functions_.emplace(canonical_domain(function->domain), function->name);
    }
  }
  bool operator()(const Node& node) const {
    return functions_.contains({node.domain(), node.op_type()}) ||
           onnx::OpSchemaRegistry::Schema(node.op_type(),
                                          static_cast<int>(model_->opset(node.domain())),
                                          node.domain()) != nullptr;
  }

 private:
  const Model* model_;
  std::set<std::pair<std::string, std::string>> functions_;
};

// Leaves the types of inputs and of what ONNX cannot infer, so that nothing stale gets in the way.
void keep_given_types(const Graph& graph, onnx::GraphProto& proto, const Known& known) {
  proto.clear_value_info();
  for (auto& output : *proto.mutable_output()) {
    const Value* value = graph.find(output.name());
    if (value && value->producer() && known(*value->producer())) output.clear_type();
  }
  for (const auto& node : graph.nodes()) {
    if (known(*node)) continue;
    for (const Value* result : node->results()) {
      if (result && !result->is_graph_output() && result->type.kind != Type::Kind::kUnknown) {
        value_info_to_proto({result->name(), result->type, {}, {}}, *proto.add_value_info());
      }
    }
  }
}

bool contradict(const TensorType& a, const TensorType& b) {
  if (a.dtype != DType::kNone && b.dtype != DType::kNone && a.dtype != b.dtype) return true;
  if (!a.shape || !b.shape) return false;
  if (a.shape->size() != b.shape->size()) return true;
  for (std::size_t i = 0; i < a.shape->size(); ++i) {
    const Dim& x = (*a.shape)[i];
    const Dim& y = (*b.shape)[i];
    if (x.known() && y.known() && x.value != y.value) return true;
  }
  return false;
}

Type merge(Type inferred, const Type& old) {
  if (inferred.denotation.empty()) inferred.denotation = old.denotation;
  if (inferred.kind != old.kind) return inferred;
  if (inferred.kind != Type::Kind::kTensor && inferred.kind != Type::Kind::kSparseTensor) {
    return inferred.element ? inferred : old;
  }
  TensorType& tensor = inferred.tensor;
  if (contradict(tensor, old.tensor)) return inferred;
  if (tensor.dtype == DType::kNone) tensor.dtype = old.tensor.dtype;
  if (!tensor.shape) tensor.shape = old.tensor.shape;
  if (!old.tensor.shape) return inferred;
  for (std::size_t i = 0; i < tensor.shape->size(); ++i) {
    Dim& dim = (*tensor.shape)[i];
    const Dim& known = (*old.tensor.shape)[i];
    const bool open = !dim.known() && (dim.symbol.empty() || is_made_up(dim));
    if (open && (known.known() || !known.symbol.empty())) dim = known;
    if (dim.denotation.empty()) dim.denotation = known.denotation;
  }
  return inferred;
}

// Names made up for one graph mean something else in another.
void forget_made_up(Type& type) {
  if (!type.tensor.shape) return;
  for (Dim& dim : *type.tensor.shape) {
    if (is_made_up(dim)) dim.symbol.clear();
  }
}

enum class Symbols : std::uint8_t { kOfModel, kOfGraph };

template <typename ValueInfoProtos>
Status merge_all(const ValueInfoProtos& infos, Graph& graph, Symbols symbols) {
  for (const auto& info : infos) {
    Value* value = graph.find(info.name());
    const bool given = value && (value->is_initializer() ||
                                 (value->is_graph_input() && graph.parent() == nullptr));
    if (!value || given) continue;
    MEZZO_ASSIGN_OR_RETURN(Type type, type_from_proto(info.type()));
    if (symbols == Symbols::kOfGraph) forget_made_up(type);
    if (type.kind != Type::Kind::kUnknown) value->type = merge(std::move(type), value->type);
  }
  return ok_status();
}

Status merge_graph(const onnx::GraphProto& proto, Graph& graph, Symbols symbols) {
  MEZZO_RETURN_IF_ERROR(merge_all(proto.input(), graph, symbols));
  MEZZO_RETURN_IF_ERROR(merge_all(proto.value_info(), graph, symbols));
  return merge_all(proto.output(), graph, symbols);
}

Status infer(onnx::ModelProto& proto, bool propagate_data) {
  try {
    const onnx::ShapeInferenceOptions options(false, 0, propagate_data);
    onnx::shape_inference::InferShapes(proto, &guarded_schemas(), options);
  } catch (const std::exception& error) {
    return invalid_argument("ONNX's shape inference: " + printable(error.what(), 1000));
  }
  return ok_status();
}

Status build_for_inference(const Model& model, onnx::ModelProto& proto) {
  ProtoOptions elided;
  elided.weights = Weights::kElided;
  MEZZO_RETURN_IF_ERROR(to_proto(model, elided, proto));
  const Known known(model);
  for_each_pair(
      *model.graph, *proto.mutable_graph(),
      [&](const Graph& graph, onnx::GraphProto& out) { keep_given_types(graph, out, known); });
  return ok_status();
}

// Entries that ONNX would copy below `graph`, of which `around` are visible around it.
std::uint64_t copied_values(const Graph& graph, std::uint64_t around) {
  around += graph.inputs().size() + graph.initializers().size() + graph.node_count();
  std::uint64_t copies = 0;
  for (const auto& node : graph.nodes()) {
    for (const Graph* inner : node->subgraphs()) copies += around + copied_values(*inner, around);
  }
  return copies;
}

class PartInference {
  using Parts = std::vector<std::pair<Graph*, onnx::GraphProto*>>;

 public:
  // `shell` is built for inference, in an arena; its graph is taken apart.
  explicit PartInference(onnx::ModelProto& shell) : shell_(shell) {
    auto& opset = *shell.add_opset_import();
    opset.set_domain(kOpaqueDomain);
    opset.set_version(1);
  }

  Status run(Graph& graph, onnx::GraphProto& proto) {
    Parts parts;
    int index = 0;
    for (const auto& node : graph.nodes()) {
      onnx::NodeProto& out = *proto.mutable_node(index++);
      if (!node->subgraphs().empty()) make_opaque(*node, out, proto, parts);
    }
    give_types(graph, proto);
    shell_.mutable_graph()->Swap(&proto);
    if (!infer(shell_, true).ok()) MEZZO_RETURN_IF_ERROR(infer(shell_, false));
    shell_.mutable_graph()->Swap(&proto);
    MEZZO_RETURN_IF_ERROR(merge_graph(proto, graph, Symbols::kOfGraph));
    for (const auto& [inner, inner_proto] : parts) {
      MEZZO_RETURN_IF_ERROR(run(*inner, *inner_proto));
    }
    return ok_status();
  }

 private:
  void make_opaque(const Node& node, onnx::NodeProto& out, onnx::GraphProto& proto, Parts& parts) {
    const auto subgraphs = node.subgraphs();
    auto inner = subgraphs.begin();
    const auto take = [&](onnx::GraphProto& graph) {
      parts.emplace_back(
          *inner++, google::protobuf::Arena::CreateMessage<onnx::GraphProto>(shell_.GetArena()));
      parts.back().second->Swap(&graph);
    };
    for (auto& attribute : *out.mutable_attribute()) {
      if (attribute.has_g()) take(*attribute.mutable_g());
      for (auto& listed : *attribute.mutable_graphs()) take(listed);
    }
    out.clear_attribute();
    out.set_domain(kOpaqueDomain);
    for (const Value* result : node.results()) {
      if (result && !result->is_graph_output()) add_typed(*result, *proto.mutable_value_info());
    }
  }

  // Of what is captured, and of outputs that opaque nodes give.
  static void give_types(const Graph& graph, onnx::GraphProto& proto) {
    std::set<const Value*> captures;
    const auto note = [&](const Value* value) {
      if (value && value->graph() != &graph && captures.insert(value).second)
        add_typed(*value, *proto.mutable_input());
    };
    for (const auto& node : graph.nodes()) {
      for (std::size_t i = 0; i < node->operand_count(); ++i) note(node->operand(i));
    }
    for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
      const Value* output = graph.outputs()[i];
      note(output);
      const bool opaque = output->producer() && !output->producer()->subgraphs().empty();
      auto& info = *proto.mutable_output(static_cast<int>(i));
      if (opaque && output->type.kind != Type::Kind::kUnknown)
        type_to_proto(output->type, *info.mutable_type());
    }
  }

  template <typename ValueInfoProtos>
  static void add_typed(const Value& value, ValueInfoProtos& infos) {
    if (value.type.kind == Type::Kind::kUnknown) return;
    value_info_to_proto({value.name(), value.type, {}, {}}, *infos.Add());
  }

  onnx::ModelProto& shell_;
};

}  // namespace

Status infer_all_types(Model& model, std::uint64_t most_copies) {
  // In an arena, as a message of many small ones is: taken apart at once.
  google::protobuf::Arena arena;
  auto& inferred = *google::protobuf::Arena::CreateMessage<onnx::ModelProto>(&arena);
  MEZZO_RETURN_IF_ERROR(build_for_inference(model, inferred));
  if (copied_values(*model.graph, 0) > most_copies) {
    auto& graph = *google::protobuf::Arena::CreateMessage<onnx::GraphProto>(&arena);
    graph.Swap(inferred.mutable_graph());
    return PartInference(inferred).run(*model.graph, graph);
  }
  if (!infer(inferred, true).ok()) {
    // Propagation looks at data that plain inference does not; without it a model may still pass.
    MEZZO_RETURN_IF_ERROR(build_for_inference(model, inferred));
    MEZZO_RETURN_IF_ERROR(infer(inferred, false));
  }
  Status status;
  for_each_pair(*model.graph, *inferred.mutable_graph(),
                [&](Graph& graph, const onnx::GraphProto& out) {
                  if (status.ok()) status = merge_graph(out, graph, Symbols::kOfModel);
                });
  return status;
}

}  // namespace mezzo
