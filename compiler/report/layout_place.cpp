// Step 4 of layout.h, after Brandes and Koepf.
//
// 1. Mark conflicts: an edge that crosses an edge between two bends gives way to it.
// 2. Align: each vertex is chained to a median neighbour in the layer before, unless that would
//    cross a chain. Chains become blocks, whose vertices share one x.
// 3. Pack: blocks are pushed as far left as their neighbours allow, then each as far right as
//    leaves the others in place.
// 4. Steps 2 and 3 run for both directions of layers and both of order; a vertex stands at the mean
//    of the middle two of its four positions.

#include <algorithm>
#include <array>
#include <set>

#include "compiler/report/layout_order.h"

namespace mezzo {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

using Conflicts = std::set<std::pair<int, int>>;  // (high, low)

// Step 1. Sweeps over the layer below: `from` to `to` are the places above between the edges
// between bends on either side.
void mark_conflicts(const LayeredGraph& graph, const std::vector<int>& low,
                    const std::vector<int>& places, std::size_t high_count, Conflicts& conflicts) {
  std::size_t scanned = 0;
  int from = 0;
  for (std::size_t i = 0; i < low.size(); ++i) {
    int inner = -1;
    for (const int other : graph.above[at(low[i])]) {
      if (graph.is_bend[at(low[i])] && graph.is_bend[at(other)]) inner = other;
    }
    if (inner < 0 && i + 1 < low.size()) continue;
    const int to = inner >= 0 ? places[at(inner)] : static_cast<int>(high_count);
    for (; scanned <= i; ++scanned) {
      for (const int other : graph.above[at(low[scanned])]) {
        const bool is_inner = graph.is_bend[at(low[scanned])] && graph.is_bend[at(other)];
        const int place = places[at(other)];
        if (!is_inner && (place < from || place > to)) conflicts.emplace(other, low[scanned]);
      }
    }
    from = to;
  }
}

class Packer {
 public:
  // `up`: neighbours in the layer before are those above. `left`: ties and packing go to the left.
  Packer(const LayeredGraph& graph, const Conflicts& conflicts, bool up, bool left)
      : graph_(graph), conflicts_(conflicts), up_(up), left_(left), layers_(graph.order) {
    if (!up) std::reverse(layers_.begin(), layers_.end());
    places_.resize(graph.size());
    for (auto& layer : layers_) {
      if (!left) std::reverse(layer.begin(), layer.end());
      for (std::size_t i = 0; i < layer.size(); ++i) places_[at(layer[i])] = static_cast<int>(i);
    }
  }

  std::vector<double> run() {
    align();
    pack();
    std::vector<double> x(graph_.size());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = left_ ? x_[at(root_[i])] : -x_[at(root_[i])];
    return x;
  }

 private:
  bool in_conflict(int v, int other) const {
    return conflicts_.count(up_ ? std::pair(other, v) : std::pair(v, other)) > 0;
  }

  void align() {
    root_.resize(graph_.size());
    next_.resize(graph_.size());
    for (std::size_t i = 0; i < root_.size(); ++i) root_[i] = next_[i] = static_cast<int>(i);
    for (const auto& layer : layers_) {
      int last = -1;  // the rightmost place that a chain has reached
      for (const int v : layer) {
        std::vector<int> others = up_ ? graph_.above[at(v)] : graph_.below[at(v)];
        if (others.empty()) continue;
        std::sort(others.begin(), others.end(),
                  [&](int a, int b) { return places_[at(a)] < places_[at(b)]; });
        for (std::size_t k = (others.size() - 1) / 2; k <= others.size() / 2; ++k) {
          const int other = others[k];
          if (next_[at(v)] != v || places_[at(other)] <= last || in_conflict(v, other)) continue;
          next_[at(other)] = v;
          next_[at(v)] = root_[at(v)] = root_[at(other)];
          last = places_[at(other)];
        }
      }
    }
  }

  // Blocks with the distances they keep, each after those on its left.
  void pack() {
    struct Side {
      int block;
      double distance;
    };
    std::vector<std::vector<Side>> left(graph_.size()), right(graph_.size());
    std::vector<int> waiting(graph_.size());
    for (const auto& layer : layers_) {
      for (std::size_t i = 1; i < layer.size(); ++i) {
        const int a = root_[at(layer[i - 1])], b = root_[at(layer[i])];
        const double distance = (graph_.widths[at(layer[i - 1])] + graph_.widths[at(layer[i])]) / 2;
        left[at(b)].push_back({a, distance});
        right[at(a)].push_back({b, distance});
        ++waiting[at(b)];
      }
    }
    std::vector<int> sorted;
    for (std::size_t i = 0; i < root_.size(); ++i) {
      if (root_[i] == static_cast<int>(i) && waiting[i] == 0) sorted.push_back(root_[i]);
    }
    for (std::size_t k = 0; k < sorted.size(); ++k) {
      for (const Side& side : right[at(sorted[k])]) {
        if (--waiting[at(side.block)] == 0) sorted.push_back(side.block);
      }
    }
    x_.assign(graph_.size(), 0);
    for (const int block : sorted) {
      for (const Side& side : left[at(block)]) {
        x_[at(block)] = std::max(x_[at(block)], x_[at(side.block)] + side.distance);
      }
    }
    for (auto block = sorted.rbegin(); block != sorted.rend(); ++block) {
      if (right[at(*block)].empty()) continue;
      double most = x_[at(right[at(*block)].front().block)];
      for (const Side& side : right[at(*block)])
        most = std::min(most, x_[at(side.block)] - side.distance);
      x_[at(*block)] = std::max(x_[at(*block)], most);
    }
  }

  const LayeredGraph& graph_;
  const Conflicts& conflicts_;
  bool up_, left_;
  std::vector<std::vector<int>> layers_;
  std::vector<int> places_, root_, next_;
  std::vector<double> x_;
};

struct Extent {
  double left, right;
};

Extent extent(const LayeredGraph& graph, const std::vector<double>& x) {
  Extent extent{x.front(), x.front()};
  for (std::size_t i = 0; i < x.size(); ++i) {
    extent.left = std::min(extent.left, x[i] - graph.widths[i] / 2);
    extent.right = std::max(extent.right, x[i] + graph.widths[i] / 2);
  }
  return extent;
}

}  // namespace

void place_layers(LayeredGraph& graph) {
  graph.x.assign(graph.size(), 0);
  if (graph.size() == 0) return;
  std::vector<int> places(graph.size());
  Conflicts conflicts;
  for (std::size_t k = 0; k < graph.order.size(); ++k) {
    const auto& layer = graph.order[k];
    for (std::size_t i = 0; i < layer.size(); ++i) places[at(layer[i])] = static_cast<int>(i);
    if (k > 0) mark_conflicts(graph, layer, places, graph.order[k - 1].size(), conflicts);
  }
  std::array<std::vector<double>, 4> found;
  std::array<Extent, 4> extents{};
  std::size_t narrowest = 0;
  for (std::size_t k = 0; k < 4; ++k) {
    found[k] = Packer(graph, conflicts, k < 2, k % 2 == 0).run();
    extents[k] = extent(graph, found[k]);
    if (extents[k].right - extents[k].left < extents[narrowest].right - extents[narrowest].left) {
      narrowest = k;
    }
  }
  // All four take the side they were packed to from the narrowest.
  for (std::size_t k = 0; k < 4; ++k) {
    const double shift = k % 2 == 0 ? extents[narrowest].left - extents[k].left
                                    : extents[narrowest].right - extents[k].right;
    for (double& x : found[k]) x += shift;
  }
  for (std::size_t i = 0; i < graph.size(); ++i) {
    std::array<double, 4> x = {found[0][i], found[1][i], found[2][i], found[3][i]};
    std::sort(x.begin(), x.end());
    graph.x[i] = (x[1] + x[2]) / 2;
  }
}

}  // namespace mezzo
