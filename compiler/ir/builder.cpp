#include "compiler/ir/builder.h"

namespace mezzo {

Node* Builder::node(std::string_view op_type, std::vector<Value*> operands, std::size_t results,
                    std::vector<NamedValue> attributes, std::string_view domain) {
  while (!operands.empty() && !operands.back()) operands.pop_back();
  std::string base = scope_.empty() ? std::string(op_type) : scope_ + "/" + std::string(op_type);
  Node* node = graph_->add_node(op_type, domain, operands, {}, before_);
  for (std::size_t i = 0; i < results; ++i) graph_->add_result(node, graph_->unique_name(base));
  node->name = results > 0 ? node->result()->name() : base;
  for (NamedValue& attribute : attributes) {
    node->set_attribute(attribute.first, std::move(attribute.second));
  }
  if (infer_) {
    const Status inferred = infer_(*node);
    if (status_.ok() && !inferred.ok()) status_ = inferred;
  }
  return node;
}

Value* Builder::op(std::string_view op_type, std::vector<Value*> operands,
                   std::vector<NamedValue> attributes, std::string_view domain) {
  return node(op_type, std::move(operands), 1, std::move(attributes), domain)->result();
}

Value* Builder::constant(TensorRef tensor, std::string_view name) {
  const std::string base = scope_.empty() ? std::string(name) : scope_ + "/" + std::string(name);
  return graph_->add_initializer(graph_->unique_name(base), std::move(tensor));
}

Value* Builder::ints(std::initializer_list<std::int64_t> values) {
  return ints(std::vector<std::int64_t>(values));
}

Value* Builder::ints(const std::vector<std::int64_t>& values) {
  return constant(Tensor::from_ints({static_cast<std::int64_t>(values.size())}, values));
}

Value* Builder::scalar(DType dtype, double value) { return constant(Tensor::scalar(dtype, value)); }

}  // namespace mezzo
