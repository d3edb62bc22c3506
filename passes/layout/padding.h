// Bookkeeping of pad-channels: which values are padded, and how to get their logical part back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/graph.h"
#include "passes/pass.h"

namespace mezzo::passes {

// One axis of a value is longer than the model says. Behind the logical part lie zeros or, after an
// op with f(0) != 0, finite numbers that no one may read.
struct Padding {
  std::int64_t axis = 0;
  std::int64_t logical = 0, padded = 0;
  bool zero = true;
  bool same_place(const Padding& other) const {
    return axis == other.axis && logical == other.logical && padded == other.padded;
  }
};

class PaddedValues {
 public:
  PaddedValues(Model& model, PassContext& ctx) : model_(model), graph_(*model.graph), ctx_(ctx) {}

  const Padding* find(const Value* value) const {
    const auto found = padding_.find(value);
    return found == padding_.end() ? nullptr : &found->second;
  }
  // The value is padded from now on; its type follows.
  void mark(Value& value, const Padding& padding);

  // Operand `index` of `node` becomes the logical part of the padded value it reads.
  Status slice_operand(Node& node, std::size_t index);
  // What branches and loop bodies read of padded values becomes their logical parts.
  Status slice_captures();
  // Graph outputs that are padded, but for running statistics, become their logical parts.
  Status slice_outputs();

  // An initializer read only by `user` (perhaps through one Transpose that only `user` reads) grows
  // to `padded` along `axis` as `user` sees it, with zeros. False where it cannot: others read it.
  bool can_pad_constant(const Node& user, std::size_t operand) const;
  void pad_constant(Node& user, std::size_t operand, std::int64_t axis, std::int64_t padded);

 private:
  struct Weight {
    Value* initializer = nullptr;
    Node* transpose = nullptr;  // between it and its user; null if there is none
  };
  std::optional<Weight> weight_of(const Node& user, std::size_t operand) const;
  StatusOr<Value*> logical_part(Value* value, Node* before);

  Model& model_;
  Graph& graph_;
  PassContext& ctx_;
  std::unordered_map<const Value*, Padding> padding_;
  std::unordered_map<const Value*, Value*> slices_;
};

}  // namespace mezzo::passes
