#include "compiler/report/layout.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "compiler/report/layout_order.h"

namespace mezzo {
namespace {

constexpr double kLayerDistance = 84;
constexpr double kMargin = 40;
constexpr double kGap = 28;

// Columns of the longest text in a box: names are cut at the widest box.
double box_width(const DrawnNode& node) {
  if (node.kind == DrawnNode::Kind::kCast) return 124;
  const double op = 9.8 * static_cast<double>(node.op_type.size()) + 68;  // and the precision's tag
  const double name = 6.2 * static_cast<double>(node.name.size()) + 30;
  const double type =
      node.kind == DrawnNode::Kind::kNode ? 0 : 5.5 * static_cast<double>(node.type.size()) + 70;
  return std::clamp(std::max({op, std::min(name, 200.0), type}), 132.0, 270.0);
}
double box_height(const DrawnNode& node) {
  return node.kind == DrawnNode::Kind::kNode ? 46 : node.kind == DrawnNode::Kind::kCast ? 30 : 40;
}

bool leads_down(const ReportEdge& edge) { return edge.from >= 0 && edge.from < edge.to; }

// Step 1.
std::vector<int> choose_layers(const std::vector<DrawnNode>& nodes,
                               const std::vector<ReportEdge>& edges) {
  const std::size_t count = nodes.size();
  std::vector<std::vector<int>> above(count), below(count);
  for (const ReportEdge& edge : edges) {
    if (!leads_down(edge)) continue;
    above[static_cast<std::size_t>(edge.to)].push_back(edge.from);
    below[static_cast<std::size_t>(edge.from)].push_back(edge.to);
  }
  std::vector<int> layers(count);
  std::vector<bool> movable(count);
  for (std::size_t i = 0; i < count; ++i) {
    bool from_movable = above[i].size() <= 1;
    for (const int other : above[i]) {
      layers[i] = std::max(layers[i], layers[static_cast<std::size_t>(other)] + 1);
      from_movable = from_movable && movable[static_cast<std::size_t>(other)];
    }
    const bool is_output = nodes[i].kind == DrawnNode::Kind::kOutput;
    movable[i] = !is_output && (from_movable || nodes[i].dtype.empty());
  }
  for (std::size_t i = count; i-- > 0;) {
    if (!movable[i] || below[i].empty()) continue;
    int first = layers[static_cast<std::size_t>(below[i].front())];
    for (const int other : below[i])
      first = std::min(first, layers[static_cast<std::size_t>(other)]);
    layers[i] = first - 1;
  }
  return layers;
}

class Arranger {
 public:
  Arranger(const std::vector<DrawnNode>& nodes, const std::vector<ReportEdge>& edges)
      : nodes_(nodes), edges_(edges), layers_(choose_layers(nodes, edges)) {}

  Layout run() {
    layout_.bends.resize(edges_.size());
    layout_.far.resize(edges_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      graph_.add(layers_[i], box_width(nodes_[i]) + kGap, /*bend=*/false);
    }
    connect();
    order_layers(graph_);
    place_layers(graph_);
    publish();
    return std::move(layout_);
  }

 private:
  int layer_of(int node) const { return layers_[static_cast<std::size_t>(node)]; }

  // Step 2. chains_[node] are the bends below a node, one per layer, shared by its edges.
  void connect() {
    chains_.resize(nodes_.size());
    for (std::size_t i = 0; i < edges_.size(); ++i) {
      const ReportEdge& edge = edges_[i];
      if (edge.from < 0) continue;
      const int span = layer_of(edge.to) - layer_of(edge.from);
      if (!leads_down(edge) || span > Layout::kFarLayers) {
        layout_.far[i] = true;
        continue;
      }
      std::vector<int>& chain = chains_[static_cast<std::size_t>(edge.from)];
      while (static_cast<int>(chain.size()) < span - 1) extend(edge.from, chain);
      const int last = span > 1 ? chain[static_cast<std::size_t>(span - 2)] : edge.from;
      graph_.connect(last, edge.to);
    }
  }

  void extend(int from, std::vector<int>& chain) {
    const int above = chain.empty() ? from : chain.back();
    const int layer = layer_of(from) + static_cast<int>(chain.size()) + 1;
    const int bend = graph_.add(layer, 24, /*bend=*/true);
    graph_.connect(above, bend);
    chain.push_back(bend);
  }

  void publish() {
    double left = 0, right = 0;
    int lowest = 0;
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const double half = graph_.widths[i] / 2;
      left = i == 0 ? graph_.x[i] - half : std::min(left, graph_.x[i] - half);
      right = i == 0 ? graph_.x[i] + half : std::max(right, graph_.x[i] + half);
      lowest = std::max(lowest, graph_.layers[i]);
    }
    const auto point = [&](int vertex) {
      const auto v = static_cast<std::size_t>(vertex);
      return Layout::Point{graph_.x[v] - left + kMargin,
                           kMargin + kLayerDistance * (graph_.layers[v] + 0.5)};
    };
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const Layout::Point at = point(static_cast<int>(i));
      layout_.boxes.push_back(
          {at.x, at.y, box_width(nodes_[i]), box_height(nodes_[i]), layers_[i]});
    }
    for (std::size_t i = 0; i < edges_.size(); ++i) {
      const ReportEdge& edge = edges_[i];
      if (edge.from < 0 || layout_.far[i]) continue;
      const std::vector<int>& chain = chains_[static_cast<std::size_t>(edge.from)];
      const int bends = layer_of(edge.to) - layer_of(edge.from) - 1;
      for (int k = 0; k < bends; ++k) {
        layout_.bends[i].push_back(point(chain[static_cast<std::size_t>(k)]));
      }
    }
    layout_.width = right - left + 2 * kMargin;
    layout_.height = kLayerDistance * (nodes_.empty() ? 0 : lowest + 1) + 2 * kMargin;
  }

  const std::vector<DrawnNode>& nodes_;
  const std::vector<ReportEdge>& edges_;
  std::vector<int> layers_;
  LayeredGraph graph_;  // vertices: the nodes, then bends
  std::vector<std::vector<int>> chains_;
  Layout layout_;
};

}  // namespace

Layout make_layout(const std::vector<DrawnNode>& nodes, const std::vector<ReportEdge>& edges) {
  return Arranger(nodes, edges).run();
}

}  // namespace mezzo
