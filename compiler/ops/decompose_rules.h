// Private to compiler/ops: the project's own decompositions. A rule builds nodes that compute the
// results and returns them, one per result (null where the node leaves one out); an empty list says
// that this form is not covered, before anything was built.
#pragma once

#include <vector>

#include "compiler/ir/builder.h"

namespace mezzo {

using Results = std::vector<Value*>;

StatusOr<Results> decompose_many(Builder& builder, const Node& node);  // Max, Min, Sum, Mean
StatusOr<Results> decompose_tile(Builder& builder, const Node& node);
StatusOr<Results> decompose_constant_of_shape(Builder& builder, const Node& node);
StatusOr<Results> decompose_depth_to_space(Builder& builder, const Node& node);  // and back
StatusOr<Results> decompose_einsum(Builder& builder, const Node& node);
StatusOr<Results> decompose_instance_norm(Builder& builder, const Node& node);
StatusOr<Results> decompose_group_norm_onnx(Builder& builder, const Node& node);
StatusOr<Results> decompose_compress(Builder& builder, const Node& node);
StatusOr<Results> decompose_nll_loss(Builder& builder, const Node& node);
StatusOr<Results> decompose_resize(Builder& builder, const Node& node);

}  // namespace mezzo
