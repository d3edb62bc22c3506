// Where the nodes of the picture stand: layers from top to bottom.
//
// 1. A node's layer is its longest path from a source. Inputs, what one input feeds, and what
//    computes shapes and indices move down to their first reader: a mask stands beside the
//    attention that reads it.
// 2. An edge over several layers gets a bend per layer. Edges of one value share bends. Edges over
//    more than kFarLayers layers get none: they are drawn when one of their ends is selected, as
//    they would cover the picture of a training graph, where backward reads forward's values.
// 3. Nodes and bends are ordered within layers by the barycentre of their neighbours, sweeping down
//    and up; the order with the fewest crossings stays.
// 4. Vertices are chained to the median of their neighbours, which makes edges straight, and chains
//    are packed; done from each of the four corners, and averaged.
// After Sugiyama, Tagawa, Toda, "Methods for Visual Understanding of Hierarchical System
// Structures", IEEE SMC 1981, and for step 4 Brandes and Koepf, "Fast and Simple Horizontal
// Coordinate Assignment", Graph Drawing 2001.
//
// Time grows with (nodes + bends) x sweeps; there are at most kFarLayers bends per value.
#pragma once

#include <vector>

#include "compiler/report/report.h"

namespace mezzo {

struct Layout {
  static constexpr int kFarLayers = 24;

  struct Point {
    double x = 0, y = 0;
  };
  struct Box {
    double x = 0, y = 0;  // centre
    double width = 0, height = 0;
    int layer = 0;
  };
  std::vector<Box> boxes;                 // per drawn node
  std::vector<std::vector<Point>> bends;  // per edge, from source to target, ends not included
  std::vector<bool> far;                  // per edge
  double width = 0, height = 0;           // boxes and bends lie in [0, width] x [0, height]
};

// Edges that lead backwards (the graph of a hostile report may have cycles) are far.
Layout make_layout(const std::vector<DrawnNode>& nodes, const std::vector<ReportEdge>& edges);

}  // namespace mezzo
