// Exact two-label assignment with a price on every boundary, as a minimum cut.
//
// Every vertex is FP32 (source side) or low (sink side). A tensor that its producer makes in one
// type and some consumer needs in the other is cast once, whatever the number of consumers: an
// auxiliary vertex per tensor and direction makes that exact. After Kolmogorov and Zabih, "What
// Energy Functions Can Be Minimized via Graph Cuts?", 2004, with the hyperedge construction for
// one cast shared by all consumers.
#pragma once

#include <cstdint>
#include <vector>

namespace mezzo::passes {

struct CutProblem {
  enum class Fixed : std::uint8_t { kFree, kFp32, kLow };
  static constexpr int kAlwaysFp32 = -1;  // a producer or consumer that is FP32 whatever happens

  struct Vertex {
    Fixed fixed = Fixed::kFree;
    double fp32_cost = 0, low_cost = 0;  // paid on that side, also where it is fixed
  };
  struct Tensor {
    int producer = kAlwaysFp32;  // a vertex, or kAlwaysFp32
    std::vector<int> consumers;  // vertices, or kAlwaysFp32
    double cast_cost = 0;        // of either direction, paid at most once each
  };
  std::vector<Vertex> vertices;
  std::vector<Tensor> tensors;
};

struct CutSolution {
  std::vector<bool> low;  // per vertex
  double cost = 0;        // of the solution, recomputed from the problem
};

// Costs are rounded to multiples of 1e-6 of their unit. REQUIRES: costs in [0, 1e9].
CutSolution solve_min_cut(const CutProblem& problem);

// The cost of any labelling, infinity if it breaks a fixed label.
double labelling_cost(const CutProblem& problem, const std::vector<bool>& low);

}  // namespace mezzo::passes
