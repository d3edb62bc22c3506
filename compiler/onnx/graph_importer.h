// The inside of importing: one ModelProto, with a TensorReader that knows where its data are.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/onnx/tensor_reader.h"
#include "compiler/support/status.h"
#include "onnx/onnx_pb.h"

namespace mezzo {

class GraphImporter {
 public:
  GraphImporter(TensorReader& reader, std::vector<std::string>* warnings)
      : reader_(&reader), warnings_(warnings) {}

  Status import_model(const onnx::ModelProto& proto, Model& model);

 private:
  using NodeProtos = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

  Status import_graph(const onnx::GraphProto& proto, Graph& graph);
  Status import_function(const onnx::FunctionProto& proto, Function& function);
  Status import_training_info(const onnx::TrainingInfoProto& proto, const Graph& main,
                              TrainingInfo& info);

  Status import_inputs(const onnx::GraphProto& proto, Graph& graph);
  Status import_initializers(const onnx::GraphProto& proto, Graph& graph);
  Status import_outputs(const onnx::GraphProto& proto, Graph& graph);
  template <typename ValueInfoProtos>
  Status import_value_info(const ValueInfoProtos& protos, Graph& graph);

  Status import_nodes(const NodeProtos& protos, Graph& graph);
  Status import_node(const onnx::NodeProto& proto, Graph& graph);
  Status import_results(const onnx::NodeProto& proto, Graph& graph, Node* node);
  Status import_attribute(const onnx::AttributeProto& proto, Node* parent, Attribute& attribute);
  Status import_attribute_value(const onnx::AttributeProto& proto, Node* parent,
                                Attribute& attribute);
  StatusOr<NamedTensor> import_tensor(const onnx::TensorProto& proto);
  StatusOr<Attribute::SparseRef> import_sparse(const onnx::SparseTensorProto& proto);
  StatusOr<Attribute::GraphRef> import_subgraph(const onnx::GraphProto& proto, Node* parent);

  // The value that `name` means in `graph`; null if there is none.
  Value* lookup(const Graph& graph, std::string_view name) const;
  // InvalidArgument if `name` is empty or already means something in `graph`.
  Status check_new_name(const Graph& graph, const std::string& name, std::string_view what) const;
  void warn(std::string text);
  template <typename Proto>
  void warn_unknown_fields(const Proto& proto);

  TensorReader* reader_;
  std::vector<std::string>* warnings_;
  std::set<std::string, std::less<>> warned_;
  // Set while a training algorithm is imported, whose nodes may use the main graph's values.
  const Graph* combined_with_ = nullptr;
};

// Indices of the nodes in topological order, captures of their subgraphs counted; the order found
// if it is one. InvalidArgument if a value is produced twice or the nodes form a cycle.
StatusOr<std::vector<int>> topological_order(
    const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes);

}  // namespace mezzo
