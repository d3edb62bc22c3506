// For every Add of a constant row to a product that it alone reads:
//
// 1. The product is MatMul(x, w) with a matrix w and x of static shape, rank 2 or more, not empty.
// 2. The row has one element per column: [N], or [1, N].
// 3. The MatMul becomes a Gemm, between two Reshapes where x is no matrix. A Transpose in front of
//    w is left to `fuse-transposes`.

#include "passes/cleanup/fuse_bias.h"

#include <optional>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ops/op_def.h"
#include "passes/cleanup/match.h"

namespace mezzo::passes {
namespace {

using Dims = std::vector<std::int64_t>;

bool is_float32(const Value* value) {
  return value != nullptr && value->dtype() == DType::kFloat32;
}

struct Match {
  Node* product;
  Value* row;
  Dims x, y;  // of the product
};

std::optional<Match> match(const Node& add) {
  if (!add.is("Add") || !is_float32(add.result())) return std::nullopt;
  for (const std::size_t side : {0, 1}) {
    Node* product = producer_if(add.operand(side), "MatMul");
    Value* row = add.operand(1 - side);
    if (product == nullptr || product->graph() != add.graph() || !constant_of(row) ||
        !is_float32(row) || !has_one_reader(*product->result())) {
      continue;
    }
    const auto x = static_dims(product->operand(0)), w = static_dims(product->operand(1));
    const auto y = static_dims(product->result()), b = static_dims(row);
    if (!x || !w || !y || !b || x->size() < 2 || w->size() != 2 || !is_float32(product->result()) ||
        !is_float32(product->operand(0)) || !is_float32(product->operand(1))) {
      continue;
    }
    const std::int64_t columns = w->back();
    const bool fits = *b == Dims{columns} || *b == Dims{1, columns};
    if (!fits || product->result()->tensor_type().elems() == 0 || x->back() == 0) continue;
    return Match{product, row, *x, *y};
  }
  return std::nullopt;
}

}  // namespace

StatusOr<bool> fuse_bias(Model& model, PassContext& ctx) {
  Graph& graph = *model.graph;
  bool changed = false;
  for (Node* add : graph.node_list()) {
    const auto found = match(*add);
    if (!found) continue;
    Node* product = found->product;
    Builder builder(graph, type_inference(model), add);
    builder.set_scope(product->name.empty() ? product->result()->name() : product->name);
    Value* x = product->operand(0);
    const bool is_matrix = found->x.size() == 2;
    std::int64_t rows = 1;
    for (std::size_t i = 0; i + 1 < found->x.size(); ++i) rows *= found->x[i];
    if (!is_matrix) x = builder.op("Reshape", {x, builder.ints({rows, found->x.back()})});
    Value* y = builder.op("Gemm", {x, product->operand(1), found->row});
    y->producer()->name = product->name;
    if (!is_matrix) y = builder.op("Reshape", {y, builder.ints(found->y)});
    MEZZO_RETURN_IF_ERROR(builder.status());
    graph.replace_uses(add->result(), y);
    graph.erase(add);
    graph.erase(product);
    ctx.stats.add("biases-fused", 1);
    changed = true;
  }
  return changed;
}

}  // namespace mezzo::passes
