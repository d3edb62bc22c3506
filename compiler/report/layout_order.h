// Order and position within the layers of a picture; steps 3 and 4 of layout.h.
#pragma once

#include <cstddef>
#include <vector>

namespace mezzo {

// Vertices in layers, with edges between neighbouring layers only.
struct LayeredGraph {
  std::vector<int> layers;
  std::vector<double> widths;  // with the distance to the next vertex
  std::vector<bool> is_bend;
  std::vector<std::vector<int>> above, below;
  std::vector<std::vector<int>> order;  // per layer, from left to right
  std::vector<double> x;                // centres, set by place_layers

  std::size_t size() const { return layers.size(); }
  // Appends a vertex at the right end of its layer.
  int add(int layer, double width, bool bend);
  // REQUIRES: `low` is one layer below `high`.
  void connect(int high, int low);
};

// Pairs of edges between neighbouring layers that cross.
std::size_t count_crossings(const LayeredGraph& graph);

void order_layers(LayeredGraph& graph);
void place_layers(LayeredGraph& graph);

}  // namespace mezzo
