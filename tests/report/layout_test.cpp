// The picture: nothing overlaps, edges lead down, long ones keep out of the way.

#include "compiler/report/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>

#include "compiler/report/layout_order.h"

namespace mezzo {
namespace {

struct Picture {
  std::vector<DrawnNode> nodes;
  std::vector<ReportEdge> edges;

  int add(std::string name, DrawnNode::Kind kind = DrawnNode::Kind::kNode) {
    DrawnNode node;
    node.kind = kind;
    node.name = std::move(name);
    node.op_type = "Relu";
    node.dtype = "float";
    nodes.push_back(std::move(node));
    return static_cast<int>(nodes.size()) - 1;
  }
  void connect(int from, int to) { edges.push_back({from, to, "v", "float"}); }
  Layout layout() const { return make_layout(nodes, edges); }
};

// A chain with branches and skips, as networks are.
Picture random_picture(unsigned seed, int count) {
  std::mt19937 random(seed);
  Picture picture;
  picture.add("x", DrawnNode::Kind::kInput);
  for (int i = 1; i < count; ++i) {
    picture.add("node" + std::to_string(i));
    const int reads = 1 + static_cast<int>(random() % 3);
    for (int k = 0; k < reads; ++k) {
      const int back = 1 + static_cast<int>(random() % (k == 0 ? 3 : 60));
      picture.connect(std::max(0, i - back), i);
    }
  }
  return picture;
}

void expect_no_overlap(const Layout& layout) {
  std::map<int, std::vector<Layout::Box>> layers;
  for (const Layout::Box& box : layout.boxes) {
    EXPECT_GE(box.x - box.width / 2, 0);
    EXPECT_LE(box.x + box.width / 2, layout.width);
    EXPECT_GE(box.y - box.height / 2, 0);
    EXPECT_LE(box.y + box.height / 2, layout.height);
    layers[box.layer].push_back(box);
  }
  for (auto& [layer, boxes] : layers) {
    std::sort(boxes.begin(), boxes.end(), [](const auto& a, const auto& b) { return a.x < b.x; });
    for (std::size_t i = 1; i < boxes.size(); ++i) {
      EXPECT_GE(boxes[i].x - boxes[i].width / 2 + 0.01, boxes[i - 1].x + boxes[i - 1].width / 2)
          << "layer " << layer;
    }
  }
}

TEST(Layout, NothingOverlapsAndEdgesLeadDown) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Picture picture = random_picture(seed, 30 + static_cast<int>(seed) * 20);
    const Layout layout = picture.layout();
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_no_overlap(layout);
    for (std::size_t i = 0; i < picture.edges.size(); ++i) {
      const auto& from = layout.boxes[static_cast<std::size_t>(picture.edges[i].from)];
      const auto& to = layout.boxes[static_cast<std::size_t>(picture.edges[i].to)];
      EXPECT_LT(from.y, to.y);
      const int span = to.layer - from.layer;
      EXPECT_EQ(layout.far[i], span > Layout::kFarLayers);
      EXPECT_EQ(layout.bends[i].size(), layout.far[i] ? 0 : static_cast<std::size_t>(span - 1));
      double y = from.y;
      for (const Layout::Point& bend : layout.bends[i]) {
        EXPECT_GT(bend.y, y);
        y = bend.y;
      }
    }
  }
}

TEST(Layout, AChainStandsInOneLine) {
  Picture picture;
  for (int i = 0; i < 50; ++i) {
    const int node = picture.add("n" + std::string(static_cast<std::size_t>(i), 'x'));
    if (i > 0) picture.connect(node - 1, node);
  }
  const Layout layout = picture.layout();
  for (const Layout::Box& box : layout.boxes) EXPECT_NEAR(box.x, layout.boxes[0].x, 0.01);
}

TEST(Layout, ALateInputStandsAboveItsReader) {
  Picture picture;
  const int mask = picture.add("mask", DrawnNode::Kind::kInput);
  int last = picture.add("x", DrawnNode::Kind::kInput);
  for (int i = 0; i < 30; ++i) {
    const int node = picture.add("n");
    picture.connect(last, node);
    last = node;
  }
  picture.connect(mask, last);
  const Layout layout = picture.layout();
  EXPECT_EQ(layout.boxes[static_cast<std::size_t>(mask)].layer + 1,
            layout.boxes[static_cast<std::size_t>(last)].layer);
}

TEST(Layout, HostileEdgesAreFarAndHarmless) {
  Picture picture;
  for (int i = 0; i < 4; ++i) picture.add("n");
  picture.connect(3, 0);
  picture.connect(2, 2);
  picture.connect(0, 1);
  picture.connect(-1, 2);
  const Layout layout = picture.layout();
  EXPECT_TRUE(layout.far[0]);
  EXPECT_TRUE(layout.far[1]);
  EXPECT_FALSE(layout.far[2]);
  expect_no_overlap(layout);
}

TEST(Layout, Nothing) {
  const Layout layout = make_layout({}, {});
  EXPECT_TRUE(layout.boxes.empty());
}

TEST(Layout, FiveThousandNodesTakeLessThanSeconds) {
  const Picture picture = random_picture(7, 5000);
  const auto start = std::chrono::steady_clock::now();
  expect_no_overlap(picture.layout());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

// Two layers of two, edges crossed.
LayeredGraph crossed() {
  LayeredGraph graph;
  const int a = graph.add(0, 10, false), b = graph.add(0, 10, false);
  const int c = graph.add(1, 10, false), d = graph.add(1, 10, false);
  graph.connect(a, d);
  graph.connect(b, c);
  return graph;
}

TEST(LayoutOrder, CountsAndRemovesCrossings) {
  LayeredGraph graph = crossed();
  EXPECT_EQ(count_crossings(graph), 1u);
  order_layers(graph);
  EXPECT_EQ(count_crossings(graph), 0u);
}

TEST(LayoutOrder, CrossingsAgreeWithCountingPairs) {
  std::mt19937 random(3);
  for (int round = 0; round < 30; ++round) {
    LayeredGraph graph;
    for (int i = 0; i < 12; ++i) graph.add(i / 6, 10, false);
    std::vector<std::pair<int, int>> edges;
    for (int k = 0; k < 15; ++k) {
      edges.emplace_back(random() % 6, random() % 6);
      graph.connect(edges.back().first, 6 + edges.back().second);
    }
    std::size_t crossings = 0;
    for (std::size_t i = 0; i < edges.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const int above = edges[i].first - edges[j].first,
                  below = edges[i].second - edges[j].second;
        crossings += above * below < 0 ? 1 : 0;
      }
    }
    EXPECT_EQ(count_crossings(graph), crossings);
  }
}

TEST(LayoutOrder, PlacesKeepOrderAndDistance) {
  LayeredGraph graph = crossed();
  order_layers(graph);
  place_layers(graph);
  for (const auto& layer : graph.order) {
    const auto left = static_cast<std::size_t>(layer[0]),
               right = static_cast<std::size_t>(layer[1]);
    EXPECT_GE(graph.x[right] - graph.x[left] + 1e-9, 10);
  }
}

}  // namespace
}  // namespace mezzo
