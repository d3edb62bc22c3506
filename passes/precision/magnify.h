// What makes much of a little rounding.
#pragma once

#include <string>
#include <unordered_map>

#include "compiler/ir/graph.h"
#include "compiler/ops/op_def.h"
#include "passes/precision/reach.h"

namespace mezzo::passes {

// Operands that hold coordinates: rounding moves what is sampled, and by how much boxes overlap.
bool reads_coordinates(const Node& node, std::size_t operand);

// The parts of covariances and variances that are computed as E[xy] - E[x] E[y], which leaves
// little of large numbers: of products, of means (also by pooling, or a window of constant
// weights), and their difference. What gives x and y rounds once for both and may do so.
class MomentDifferences {
 public:
  MomentDifferences(const Model& model, const ReachAnalysis& reach);
  std::string cause(const Node& node) const;  // "" for other nodes

 private:
  std::unordered_map<const Node*, const Node*> differences_;  // part -> the Sub
};

// Why rounding what `node` gives is no small error; "" if it is one as any other:
//
// - it is a logarithm, an exponential, sine or cosine of more than 8, Round, Floor, Ceil, Mod or a
//   cast to integers, or gives coordinates, or one of these reads its result scaled and shifted by
//   constants
// - a contraction (PrecisionCategory::kAllow) gives an angle that a constant makes large, by its
//   weights or by a factor: Fourier features, networks of sines
// - a contraction's result is taken from sums of squares: of |a|^2 + |b|^2 - 2 ab little is left
std::string magnified_cause(const Node& node, PrecisionCategory category,
                            const ReachAnalysis& reach);

}  // namespace mezzo::passes
