#include "compiler/onnx/check.h"

#include <exception>
#include <set>
#include <string>
#include <vector>

#include "compiler/onnx/export.h"
#include "compiler/onnx/proto_builder.h"
#include "compiler/ops/guarded_schemas.h"
#include "compiler/support/text.h"
#include "onnx/checker.h"
#include "onnx/defs/schema.h"
#include "onnx/shape_inference/implementation.h"

namespace mezzo {
namespace {

bool is_elided(const onnx::TensorProto& tensor) {
  return tensor.data_location() == onnx::TensorProto::EXTERNAL;
}

// Makes inputs of the main graph's elided initializers.
void show_as_inputs(onnx::GraphProto& graph) {
  std::set<std::string, std::less<>> inputs;
  for (const auto& input : graph.input()) inputs.insert(input.name());
  google::protobuf::RepeatedPtrField<onnx::TensorProto> kept;
  for (auto& tensor : *graph.mutable_initializer()) {
    if (!is_elided(tensor)) {
      kept.Add()->Swap(&tensor);
    } else if (!inputs.contains(tensor.name())) {
      auto& input = *graph.add_input();
      input.set_name(tensor.name());
      auto& type = *input.mutable_type()->mutable_tensor_type();
      type.set_elem_type(tensor.data_type());
      type.mutable_shape();
      for (const auto dim : tensor.dims()) type.mutable_shape()->add_dim()->set_dim_value(dim);
    }
  }
  graph.mutable_initializer()->Swap(&kept);
}

// Elides large initializers of the main graph only: the checker wants data everywhere else.
Status build_for_checker(const Model& model, onnx::ModelProto& proto) {
  constexpr std::uint64_t kLargeBytes = 4096;
  std::set<const Tensor*> large;
  for (const Value* value : model.graph->initializers()) {
    const Tensor* tensor = value->constant().get();
    if (tensor && !tensor->strings() && tensor->byte_size() > kLargeBytes) large.insert(tensor);
  }
  const ProtoBuilder builder([&](const TensorRef& tensor, onnx::TensorProto& out) {
    if (!large.contains(tensor.get())) return store_embedded(tensor, out);
    store_elided(0, out);
    return ok_status();
  });
  MEZZO_RETURN_IF_ERROR(builder.build(model, proto));
  show_as_inputs(*proto.mutable_graph());
  return ok_status();
}

}  // namespace

Status check_model(const Model& model, bool full) {
  onnx::ModelProto proto;
  MEZZO_RETURN_IF_ERROR(build_for_checker(model, proto));
  try {
    onnx::checker::check_model(proto);
    // What a full check adds, by schemas that survive hostile models.
    const onnx::ShapeInferenceOptions strict(true, 1, false);
    if (full) onnx::shape_inference::InferShapes(proto, &guarded_schemas(), strict);
  } catch (const std::exception& error) {
    return invalid_argument("ONNX's checker: " + printable(error.what(), 1000));
  }
  return ok_status();
}

std::int64_t newest_opset() {
  return onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map().at("").second;
}

}  // namespace mezzo
