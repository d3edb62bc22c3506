// Short forms for creating nodes, used by gradients and passes.
//
// A Builder inserts before a point of one graph and lets `infer` set result types as nodes appear
// (the op catalogue's infer_types; see compiler/ops/op_def.h), so that later code can ask for
// shapes. A node's results are called `scope`/`op_type` (made unique), the node like its first
// result, so dumps and reports show where they come from.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"

namespace mezzo {

inline constexpr std::string_view kMezzoDomain = "ai.mezzo";  // ops of ours, see compiler/ops

class Builder {
 public:
  using InferTypes = std::function<Status(Node&)>;

  // Inserts before `before`, or at the end if null.
  Builder(Graph& graph, InferTypes infer, Node* before = nullptr)
      : graph_(&graph), infer_(std::move(infer)), before_(before) {}

  Graph& graph() const { return *graph_; }
  void set_insertion_point(Node* before) { before_ = before; }
  Node* insertion_point() const { return before_; }
  void set_scope(std::string scope) { scope_ = std::move(scope); }
  const std::string& scope() const { return scope_; }

  // A node of ONNX's domain ("" ) or ours ("ai.mezzo") with one result, which is returned.
  // Attributes: name and value pairs. A failing inference is kept: see status().
  using NamedValue = std::pair<std::string_view, Attribute::Value>;
  Value* op(std::string_view op_type, std::vector<Value*> operands,
            std::vector<NamedValue> attributes = {}, std::string_view domain = "");
  // As above with `results` results. Absent operands at the end are dropped.
  Node* node(std::string_view op_type, std::vector<Value*> operands, std::size_t results,
             std::vector<NamedValue> attributes = {}, std::string_view domain = "");
  Value* mezzo_op(std::string_view op_type, std::vector<Value*> operands,
                  std::vector<NamedValue> attributes = {}) {
    return op(op_type, std::move(operands), std::move(attributes), kMezzoDomain);
  }

  // Initializers of the graph. A function's body has none: its exporter writes Constant nodes.
  Value* constant(TensorRef tensor, std::string_view name = "constant");
  Value* ints(std::initializer_list<std::int64_t> values);
  Value* ints(const std::vector<std::int64_t>& values);
  Value* scalar(DType dtype, double value);

  // Ok, or the first inference that failed; building goes on after it with unknown types.
  const Status& status() const { return status_; }

 private:
  Graph* graph_;
  InferTypes infer_;
  Node* before_;
  std::string scope_;
  Status status_;
};

}  // namespace mezzo
