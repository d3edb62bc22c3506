// The inside of exporting: Model -> ModelProto, with one function that decides how data are stored.
#pragma once

#include <functional>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"
#include "onnx/onnx_pb.h"

namespace mezzo {

class ProtoBuilder {
 public:
  // Fills the data fields of a TensorProto whose other fields are set.
  using StoreData = std::function<Status(const TensorRef&, onnx::TensorProto&)>;

  explicit ProtoBuilder(StoreData store) : store_(std::move(store)) {}

  Status build(const Model& model, onnx::ModelProto& proto) const;

 private:
  Status build_graph(const Graph& graph, onnx::GraphProto& proto) const;
  Status build_initializers(const Graph& graph, onnx::GraphProto& proto) const;
  Status build_function(const Function& function, onnx::FunctionProto& proto) const;
  Status build_node(const Node& node, onnx::NodeProto& proto) const;
  Status build_attribute(const Attribute& attribute, onnx::AttributeProto& proto) const;
  Status build_value(const Attribute& attribute, onnx::AttributeProto& proto) const;
  Status build_tensor(const TensorRef& tensor, const std::string& name,
                      onnx::TensorProto& proto) const;
  Status build_sparse(const SparseTensor& sparse, const std::string& name,
                      onnx::SparseTensorProto& proto) const;

  StoreData store_;
};

// Ways to store data, for StoreData functions.

// In the field that the tensor came from (external data count as raw). Copies all bytes.
Status store_embedded(const TensorRef& tensor, onnx::TensorProto& proto);
// In the typed field of the tensor's dtype.
Status store_typed(const TensorRef& tensor, onnx::TensorProto& proto);
// As a stub: external data at kElidedLocation, with the tensor's number. See tensor_reader.h.
void store_elided(std::uint64_t number, onnx::TensorProto& proto);
// True if the tensor came from a typed field and still holds its own bytes or strings.
bool is_stored_typed(const Tensor& tensor);

}  // namespace mezzo
