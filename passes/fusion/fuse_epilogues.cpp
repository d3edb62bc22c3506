// 1. MatMul, MatMulT or Gemm, an Add of a row that alone reads it, and a Relu or Gelu that reads
//    the sum become MatMulActivation. Where others than the Gelu read the sum, as its gradient
//    does, it is a result as well.
// 2. GeluGrad of a product that it alone reads becomes MatMulActivationGrad.
// 3. The product that computes a weight's gradient and the SumTo that computes the bias's, of the
//    same value, become MatMulSums.
//
// Reshapes in between are seen through: they move nothing. A step is taken only where cuBLASLt does
// all of it in one call (blaslt_matmul.cpp): the bias and both results have one type, what GELU is
// given has a multiple of 8 columns, and the bias's gradient the type of the weight's. ReluGrad
// stays: the library wants a bit mask for it, and y is at hand already.
#include "passes/fusion/fuse_epilogues.h"

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ops/op_def.h"
#include "passes/cleanup/match.h"
#include "passes/fusion/product.h"

namespace mezzo::passes {
namespace {

using Dims = std::vector<std::int64_t>;

constexpr std::int64_t kAuxMultiple = 8;  // CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD

bool is_tanh_gelu(const Node& node, std::string_view op) {
  return (node.is(op) || node.is(op, kMezzoDomain)) &&
         node.string_attribute("approximate", "none") == "tanh";
}

// The value that `value` holds in other dims: what is in front of Reshapes.
Value* behind_reshapes(Value* value) {
  while (Node* reshape = producer_if(value, "Reshape")) {
    if (reshape->graph() != value->graph() || reshape->operand(0) == nullptr) break;
    value = reshape->operand(0);
  }
  return value;
}

// The same, as long as each is read by the next alone.
Value* behind_own_reshapes(Value* value) {
  while (has_one_reader(*value)) {
    Node* reshape = producer_if(value, "Reshape");
    if (reshape == nullptr || reshape->operand(0) == nullptr) break;
    value = reshape->operand(0);
  }
  return value;
}

// What a product takes over on the way forward.
struct Chain {
  Product product;
  Value* bias = nullptr;
  Node* add = nullptr;         // of the bias, if it is a node
  Value* sum = nullptr;        // what the activation is given
  Node* activation = nullptr;  // Relu or Gelu
  bool keeps_sum = false;      // others read it
  Value* y() const { return activation != nullptr ? activation->result() : sum; }
};

class Fuser {
 public:
  Fuser(Model& model, PassContext& ctx) : model_(model), graph_(*model.graph), ctx_(ctx) {}

  StatusOr<bool> run() {
    MEZZO_RETURN_IF_ERROR(for_nodes([this](Node& node) {
      const auto product = read_product(node);
      return product ? fuse_forward(*product) : ok_status();
    }));
    MEZZO_RETURN_IF_ERROR(for_nodes([this](Node& node) {
      return is_tanh_gelu(node, "GeluGrad") ? fuse_gelu_gradient(node) : ok_status();
    }));
    MEZZO_RETURN_IF_ERROR(for_nodes([this](Node& node) {
      const auto product = read_product(node);
      return product ? fuse_sums(*product) : ok_status();
    }));
    // A reader of one result may have stood in front of what the other one waits for.
    if (changed_ && !graph_.sort_topologically())
      return internal_error("a cycle of fused products");
    return changed_;
  }

 private:
  Status fuse_forward(const Product& product);
  Chain find_chain(const Product& product) const;
  void find_bias(Chain& chain) const;
  void find_activation(Chain& chain) const;
  Status fuse_gelu_gradient(Node& gradient);
  Status fuse_sums(const Product& product);

  // All nodes there are now, but for those erased meanwhile.
  template <typename Visit>
  Status for_nodes(const Visit& visit) {
    erased_.clear();
    for (Node* node : graph_.node_list()) {
      if (!erased_.contains(node)) MEZZO_RETURN_IF_ERROR(visit(*node));
    }
    return ok_status();
  }
  void erase(Node* node) {
    erased_.insert(node);
    graph_.erase(node);
  }

  Builder builder_at(Node& before, const Product& product) const {
    Builder builder(graph_, type_inference(model_), &before);
    const Node& node = *product.node;
    builder.set_scope(node.name.empty() ? node.result()->name() : node.name);
    return builder;
  }

  // The attributes of MatMulT, without those that say nothing.
  static std::vector<Builder::NamedValue> attributes_of(const Product& product) {
    std::vector<Builder::NamedValue> attributes;
    if (product.trans_a) attributes.emplace_back("trans_a", std::int64_t{1});
    if (product.trans_b) attributes.emplace_back("trans_b", std::int64_t{1});
    if (product.alpha != 1.0F) attributes.emplace_back("alpha", product.alpha);
    return attributes;
  }

  void done(std::string_view what) {
    ctx_.stats.add(what, 1);
    changed_ = true;
  }

  Model& model_;
  Graph& graph_;
  PassContext& ctx_;
  std::unordered_set<const Node*> erased_;
  bool changed_ = false;
};

void Fuser::find_bias(Chain& chain) const {
  chain.bias = chain.product.bias;
  chain.sum = chain.product.node->result();
  if (chain.bias != nullptr) return;
  Node* add = only_user(chain.sum, "Add");
  if (add == nullptr) return;
  Value* row = other_operand(*add, chain.sum);
  const auto dims = static_dims(row);
  const DType operands = chain.product.a->dtype();
  if (!dims || *dims != Dims{chain.product.columns()} || row->dtype() != add->result()->dtype() ||
      !library_multiplies(operands, row->dtype())) {
    return;
  }
  chain.bias = row;
  chain.add = add;
  chain.sum = add->result();
}

void Fuser::find_activation(Chain& chain) const {
  const DType operands = chain.product.a->dtype();
  const auto fits = [&](const Node& node) {
    const DType y = node.result()->dtype();
    return node.graph() == &graph_ && library_multiplies(operands, y) &&
           (chain.bias == nullptr || chain.bias->dtype() == y);
  };
  Node* relu = only_user(chain.sum, "Relu");
  if (relu != nullptr && fits(*relu)) {
    chain.activation = relu;
    return;
  }
  Node* gelu = nullptr;
  for (const Use& use : chain.sum->uses()) {
    if (!is_tanh_gelu(*use.node, "Gelu")) continue;
    if (gelu != nullptr) return;  // two of them: neither
    gelu = use.node;
  }
  if (gelu == nullptr || !fits(*gelu) || chain.sum->is_graph_output()) return;
  chain.keeps_sum = !has_one_reader(*chain.sum);
  const bool sum_fits = chain.product.is_flat && chain.product.columns() % kAuxMultiple == 0 &&
                        chain.sum->dtype() == gelu->result()->dtype();
  if (!chain.keeps_sum || sum_fits) chain.activation = gelu;
}

Chain Fuser::find_chain(const Product& product) const {
  Chain chain;
  chain.product = product;
  find_bias(chain);
  find_activation(chain);
  chain.keeps_sum = chain.keeps_sum && chain.activation != nullptr;
  return chain;
}

Status Fuser::fuse_forward(const Product& product) {
  const Chain chain = find_chain(product);
  if (chain.activation == nullptr && chain.add == nullptr) return ok_status();
  if (chain.bias != nullptr && chain.bias->dtype() != chain.y()->dtype()) return ok_status();
  Node& last = *chain.y()->producer();
  Builder builder = builder_at(last, product);
  std::vector<Builder::NamedValue> attributes = attributes_of(product);
  if (chain.activation != nullptr) {
    const bool relu = chain.activation->is("Relu");
    attributes.emplace_back("activation", std::string(relu ? "relu" : "gelu_tanh"));
  }
  Node* fused = builder.node("MatMulActivation", {product.a, product.b, chain.bias},
                             chain.keeps_sum ? 2 : 1, std::move(attributes), kMezzoDomain);
  MEZZO_RETURN_IF_ERROR(builder.status());
  fused->name = product.node->name;
  fused->result(0)->type = chain.y()->type;
  graph_.replace_uses(chain.y(), fused->result(0));
  if (chain.activation != nullptr) erase(chain.activation);
  if (chain.keeps_sum) {
    fused->result(1)->type = chain.sum->type;
    graph_.replace_uses(chain.sum, fused->result(1));
  }
  if (chain.add != nullptr) erase(chain.add);
  erase(product.node);
  done("epilogues-fused");
  return ok_status();
}

Status Fuser::fuse_gelu_gradient(Node& gradient) {
  Value *dy = gradient.operand(0), *x = gradient.operand(1), *dx = gradient.result();
  if (dy == nullptr || x == nullptr || dx == nullptr) return ok_status();
  Value* inner = behind_own_reshapes(dy);
  if (!has_one_reader(*inner) || inner->producer() == nullptr || inner->graph() != &graph_)
    return ok_status();
  const auto product = read_product(*inner->producer());
  const auto dims = static_dims(dx);
  if (!product || product->bias != nullptr || !product->is_flat || !dims ||
      dims->back() != product->columns() || product->columns() % kAuxMultiple != 0 ||
      x->dtype() != dx->dtype() || !library_multiplies(product->a->dtype(), dx->dtype())) {
    return ok_status();
  }
  Builder builder = builder_at(gradient, *product);
  if (*dims != product->y) x = builder.op("Reshape", {x, builder.ints(product->y)});
  std::vector<Builder::NamedValue> attributes = attributes_of(*product);
  attributes.emplace_back("activation", std::string("gelu_tanh"));
  Value* y =
      builder.mezzo_op("MatMulActivationGrad", {product->a, product->b, x}, std::move(attributes));
  y->producer()->name = product->node->name;
  y->type = product->node->result()->type;
  y->type.tensor.dtype = dx->dtype();
  if (*dims != product->y) y = builder.op("Reshape", {y, builder.ints(*dims)});
  MEZZO_RETURN_IF_ERROR(builder.status());
  graph_.replace_uses(dx, y);
  erase(&gradient);
  while (dy != inner) {
    Node* reshape = dy->producer();
    dy = reshape->operand(0);
    erase(reshape);
  }
  erase(product->node);
  done("gradient-epilogues-fused");
  return ok_status();
}

// The SumTo that sums all but the last dimension of what `summed` holds; null if there is none.
Node* find_sum(Value* summed, const Graph& graph, DType dtype) {
  const auto matrix = static_dims(summed);
  std::vector<Value*> same = {behind_reshapes(summed)};
  for (std::size_t i = 0; i < same.size(); ++i) {
    for (const Use& use : same[i]->uses()) {
      if (use.node->graph() != &graph || use.operand != 0 || use.node->result() == nullptr)
        continue;
      if (use.node->is("Reshape")) same.push_back(use.node->result());
      if (!use.node->is("SumTo", kMezzoDomain) || use.node->result()->dtype() != dtype) continue;
      const auto from = static_dims(same[i]), to = static_dims(use.node->result());
      if (from && to && from->back() == matrix->back() && *to == Dims{matrix->back()})
        return use.node;
    }
  }
  return nullptr;
}

Status Fuser::fuse_sums(const Product& product) {
  Value* y = product.node->result();
  if (product.bias != nullptr || product.alpha != 1.0F || product.y.size() != 2 ||
      !product.is_flat || !library_multiplies(product.a->dtype(), y->dtype())) {
    return ok_status();
  }
  // The inner dimension has to be the first one of what is summed.
  Node* sum = product.trans_a ? find_sum(product.a, graph_, y->dtype()) : nullptr;
  const bool of_a = sum != nullptr;
  if (!of_a && !product.trans_b) sum = find_sum(product.b, graph_, y->dtype());
  if (sum == nullptr || sum->result() == y) return ok_status();
  Builder builder = builder_at(*product.node, product);
  std::vector<Builder::NamedValue> attributes = attributes_of(product);
  attributes.emplace_back("of", std::string(of_a ? "a" : "b"));
  Node* fused =
      builder.node("MatMulSums", {product.a, product.b}, 2, std::move(attributes), kMezzoDomain);
  MEZZO_RETURN_IF_ERROR(builder.status());
  fused->name = product.node->name;
  fused->result(0)->type = y->type;
  fused->result(1)->type = sum->result()->type;
  graph_.replace_uses(y, fused->result(0));
  graph_.replace_uses(sum->result(), fused->result(1));
  erase(sum);
  erase(product.node);
  done("bias-gradients-fused");
  return ok_status();
}

}  // namespace

StatusOr<bool> fuse_epilogues(Model& model, PassContext& ctx) { return Fuser(model, ctx).run(); }

}  // namespace mezzo::passes
