#include "passes/precision/min_cut.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <cmath>
#include <limits>

namespace mezzo::passes {
namespace {

using Capacity = std::int64_t;
// The largest sum of finite costs stays below this, and sums of a few of these below overflow.
constexpr Capacity kInfinite = std::int64_t{1} << 58;

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using FlowGraph = boost::adjacency_list<
    boost::vecS, boost::vecS, boost::directedS,
    boost::property<
        boost::vertex_color_t, boost::default_color_type,
        boost::property<boost::vertex_distance_t, long,
                        boost::property<boost::vertex_predecessor_t, Traits::edge_descriptor>>>,
    boost::property<
        boost::edge_capacity_t, Capacity,
        boost::property<boost::edge_residual_capacity_t, Capacity,
                        boost::property<boost::edge_reverse_t, Traits::edge_descriptor>>>>;

Capacity to_capacity(double cost) { return static_cast<Capacity>(std::llround(cost * 1e6)); }

class FlowProblem {
 public:
  explicit FlowProblem(const CutProblem& problem) : problem_(problem) {
    source_ = boost::add_vertex(graph_);
    sink_ = boost::add_vertex(graph_);
    for (const CutProblem::Vertex& vertex : problem.vertices) add_label(vertex);
    for (const CutProblem::Tensor& tensor : problem.tensors) add_tensor(tensor);
  }

  std::vector<bool> solve() {
    boost::boykov_kolmogorov_max_flow(graph_, source_, sink_);
    // What the source still reaches is FP32; of several minimum cuts this is the one with the most
    // low vertices.
    const auto color = boost::get(boost::vertex_color, graph_);
    const auto source_color = color[source_];
    std::vector<bool> low;
    for (std::size_t i = 0; i < problem_.vertices.size(); ++i)
      low.push_back(color[vertex(static_cast<int>(i))] != source_color);
    return low;
  }

 private:
  Traits::vertex_descriptor vertex(int index) const {
    return index == CutProblem::kAlwaysFp32 ? source_
                                            : static_cast<Traits::vertex_descriptor>(index + 2);
  }

  // `cost` is paid when `from` is FP32 and `to` is low.
  void add_edge(Traits::vertex_descriptor from, Traits::vertex_descriptor to, Capacity cost) {
    if (from == to || cost == 0) return;
    const auto edge = boost::add_edge(from, to, graph_).first;
    const auto back = boost::add_edge(to, from, graph_).first;
    boost::put(boost::edge_capacity, graph_, edge, cost);
    boost::put(boost::edge_capacity, graph_, back, 0);
    boost::put(boost::edge_reverse, graph_, edge, back);
    boost::put(boost::edge_reverse, graph_, back, edge);
  }

  void add_label(const CutProblem::Vertex& label) {
    const auto v = boost::add_vertex(graph_);
    const bool fp32 = label.fixed == CutProblem::Fixed::kFp32,
               low = label.fixed == CutProblem::Fixed::kLow;
    add_edge(source_, v, fp32 ? kInfinite : to_capacity(label.low_cost));
    add_edge(v, sink_, low ? kInfinite : to_capacity(label.fp32_cost));
  }

  void add_tensor(const CutProblem::Tensor& tensor) {
    if (tensor.consumers.empty()) return;
    const Capacity cost = to_capacity(tensor.cast_cost);
    // FP32 producer, low consumer: `down` turns low with the first low consumer and costs once.
    const auto down = boost::add_vertex(graph_);
    add_edge(vertex(tensor.producer), down, cost);
    // Low producer, FP32 consumer: `up` turns FP32 with the first FP32 consumer and costs once.
    const auto up = boost::add_vertex(graph_);
    if (tensor.producer != CutProblem::kAlwaysFp32) add_edge(up, vertex(tensor.producer), cost);
    for (const int consumer : tensor.consumers) {
      if (consumer != CutProblem::kAlwaysFp32) add_edge(down, vertex(consumer), kInfinite);
      add_edge(vertex(consumer), up, kInfinite);
    }
  }

  const CutProblem& problem_;
  FlowGraph graph_;
  Traits::vertex_descriptor source_{}, sink_{};
};

}  // namespace

CutSolution solve_min_cut(const CutProblem& problem) {
  // Auxiliary vertices come after all labels: vertex(i) relies on that, and add_label runs first.
  CutSolution solution;
  solution.low = FlowProblem(problem).solve();
  solution.cost = labelling_cost(problem, solution.low);
  return solution;
}

double labelling_cost(const CutProblem& problem, const std::vector<bool>& low) {
  double cost = 0;
  for (std::size_t i = 0; i < problem.vertices.size(); ++i) {
    const CutProblem::Vertex& vertex = problem.vertices[i];
    if (vertex.fixed == (low[i] ? CutProblem::Fixed::kFp32 : CutProblem::Fixed::kLow)) {
      return std::numeric_limits<double>::infinity();
    }
    cost += low[i] ? vertex.low_cost : vertex.fp32_cost;
  }
  const auto is_low = [&](int index) {
    return index != CutProblem::kAlwaysFp32 && low[static_cast<std::size_t>(index)];
  };
  for (const CutProblem::Tensor& tensor : problem.tensors) {
    const bool made_low = is_low(tensor.producer);
    if (std::any_of(tensor.consumers.begin(), tensor.consumers.end(),
                    [&](int c) { return is_low(c) != made_low; })) {
      cost += tensor.cast_cost;
    }
  }
  return cost;
}

}  // namespace mezzo::passes
