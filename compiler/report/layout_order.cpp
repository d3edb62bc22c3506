#include "compiler/report/layout_order.h"

#include <algorithm>

namespace mezzo {
namespace {

constexpr int kOrderSweeps = 12;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

std::vector<int> positions(const LayeredGraph& graph) {
  std::vector<int> places(graph.size());
  for (const auto& layer : graph.order) {
    for (std::size_t i = 0; i < layer.size(); ++i) places[at(layer[i])] = static_cast<int>(i);
  }
  return places;
}

// Inversions of `sequence`, whose numbers lie in [0, size), by a Fenwick tree.
std::size_t count_inversions(const std::vector<int>& sequence, std::size_t size) {
  std::vector<std::size_t> tree(size + 1);
  std::size_t inversions = 0, seen = 0;
  for (const int number : sequence) {
    std::size_t not_greater = 0;
    for (std::size_t i = at(number) + 1; i > 0; i &= i - 1) not_greater += tree[i];
    inversions += seen - not_greater;
    ++seen;
    for (std::size_t i = at(number) + 1; i <= size; i += i & (~i + 1)) ++tree[i];
  }
  return inversions;
}

// Sorts a layer by the mean place of neighbours on one side; those without keep their places.
void sort_by_barycentre(std::vector<int>& layer, const std::vector<int>& places,
                        const std::vector<std::vector<int>>& neighbours) {
  std::vector<std::pair<double, int>> keyed;
  std::vector<std::size_t> slots;
  for (std::size_t i = 0; i < layer.size(); ++i) {
    const auto& others = neighbours[at(layer[i])];
    if (others.empty()) continue;
    double sum = 0;
    for (const int other : others) sum += places[at(other)];
    keyed.emplace_back(sum / static_cast<double>(others.size()), layer[i]);
    slots.push_back(i);
  }
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 0; i < slots.size(); ++i) layer[slots[i]] = keyed[i].second;
}

}  // namespace

int LayeredGraph::add(int layer, double width, bool bend) {
  const int vertex = static_cast<int>(layers.size());
  layers.push_back(layer);
  widths.push_back(width);
  is_bend.push_back(bend);
  above.emplace_back();
  below.emplace_back();
  if (order.size() <= at(layer)) order.resize(at(layer) + 1);
  order[at(layer)].push_back(vertex);
  return vertex;
}

void LayeredGraph::connect(int high, int low) {
  below[at(high)].push_back(low);
  above[at(low)].push_back(high);
}

std::size_t count_crossings(const LayeredGraph& graph) {
  const std::vector<int> places = positions(graph);
  std::size_t crossings = 0;
  for (std::size_t i = 0; i + 1 < graph.order.size(); ++i) {
    std::vector<int> ends;
    for (const int vertex : graph.order[i]) {
      const std::size_t first = ends.size();
      for (const int other : graph.below[at(vertex)]) ends.push_back(places[at(other)]);
      std::sort(ends.begin() + static_cast<std::ptrdiff_t>(first), ends.end());
    }
    crossings += count_inversions(ends, graph.order[i + 1].size());
  }
  return crossings;
}

void order_layers(LayeredGraph& graph) {
  std::vector<std::vector<int>> best = graph.order;
  std::size_t fewest = count_crossings(graph);
  for (int sweep = 0; sweep < kOrderSweeps && fewest > 0; ++sweep) {
    std::vector<int> places = positions(graph);
    const bool down = sweep % 2 == 0;
    for (std::size_t k = 0; k < graph.order.size(); ++k) {
      std::vector<int>& layer = graph.order[down ? k : graph.order.size() - 1 - k];
      sort_by_barycentre(layer, places, down ? graph.above : graph.below);
      for (std::size_t i = 0; i < layer.size(); ++i) places[at(layer[i])] = static_cast<int>(i);
    }
    const std::size_t crossings = count_crossings(graph);
    if (crossings >= fewest) continue;
    fewest = crossings;
    best = graph.order;
  }
  graph.order = std::move(best);
}

}  // namespace mezzo
