// The picture leads back to the records, and the totals are sums over them.

#include <algorithm>

#include "small_report.h"

namespace mezzo {
namespace {

using test::small_report;

const DrawnNode* drawn(const Report& report, const std::string& name) {
  const auto found = std::find_if(report.drawn.begin(), report.drawn.end(),
                                  [&](const DrawnNode& node) { return node.name == name; });
  return found == report.drawn.end() ? nullptr : &*found;
}

bool has_edge(const Report& report, const std::string& from, const std::string& to) {
  return std::any_of(report.edges.begin(), report.edges.end(), [&](const ReportEdge& edge) {
    const std::string source =
        edge.from < 0 ? "" : report.drawn[static_cast<std::size_t>(edge.from)].name;
    return source == from && report.drawn[static_cast<std::size_t>(edge.to)].name == to;
  });
}

TEST(MakeReport, DrawsEveryNodeWithItsDecision) {
  const Report report = small_report();
  for (const char* name : {"matmul", "mul", "relu", "softmax"}) {
    const DrawnNode* node = drawn(report, name);
    ASSERT_NE(node, nullptr) << name;
    EXPECT_EQ(node->kind, DrawnNode::Kind::kNode);
    ASSERT_GE(node->decision, 0);
    EXPECT_EQ(report.records.nodes[static_cast<std::size_t>(node->decision)].node, name);
  }
  EXPECT_EQ(drawn(report, "matmul")->dtype, "float16");
  EXPECT_EQ(drawn(report, "softmax")->dtype, "float");
}

TEST(MakeReport, LeadsCastsToTheirRecords) {
  const Report report = small_report();
  const DrawnNode* to_low = drawn(report, "to_low");
  const DrawnNode* to_fp32 = drawn(report, "to_fp32");
  ASSERT_NE(to_low, nullptr);
  ASSERT_NE(to_fp32, nullptr);
  EXPECT_EQ(to_low->kind, DrawnNode::Kind::kCast);
  EXPECT_EQ(to_low->cast, 0);
  EXPECT_EQ(to_fp32->cast, 2);
}

// Graphs inside nodes are not drawn: their records neither take the place of the main graph's of
// the same name nor count as removed.
TEST(MakeReport, RecordsOfInnerGraphsStayApart) {
  Records records = test::small_records();
  NodeDecision inner = records.nodes[1];
  inner.scope = "loop > ";
  records.nodes.insert(records.nodes.begin(), inner);
  CastDecision cast = records.casts[0];
  cast.scope = "loop > ";
  records.casts.insert(records.casts.begin(), cast);
  const Report report = small_report(records);
  EXPECT_EQ(drawn(report, "matmul")->decision, 2);
  EXPECT_EQ(drawn(report, "to_low")->cast, 1);
  EXPECT_FALSE(report.records.casts[0].removed);
  EXPECT_EQ(report.totals.casts, small_report().totals.casts + 1);
}

TEST(MakeReport, ConstantsAndWeightsAreReadButNotDrawn) {
  const Report report = small_report();
  EXPECT_EQ(drawn(report, "scale"), nullptr);
  EXPECT_EQ(drawn(report, "w"), nullptr);
  EXPECT_TRUE(has_edge(report, "", "mul"));
  EXPECT_TRUE(has_edge(report, "", "matmul"));
}

TEST(MakeReport, EdgesFollowTheGraph) {
  const Report report = small_report();
  EXPECT_TRUE(has_edge(report, "x", "to_low"));
  EXPECT_TRUE(has_edge(report, "to_low", "matmul"));
  EXPECT_TRUE(has_edge(report, "relu", "to_fp32"));
  EXPECT_TRUE(has_edge(report, "softmax", "y"));
  EXPECT_FALSE(has_edge(report, "relu", "softmax"));
}

TEST(MakeReport, CastsThatAreNoLongerThereAreMarked) {
  const Report report = small_report();
  const auto& casts = report.records.casts;
  EXPECT_FALSE(casts[0].removed);
  EXPECT_FALSE(casts[1].removed) << "a weight stored low has no node";
  EXPECT_FALSE(casts[2].removed);
  EXPECT_TRUE(casts[3].removed);
}

TEST(MakeReport, Totals) {
  const ReportTotals totals = small_report().totals;
  EXPECT_EQ(totals.nodes, 5u) << "the Shape computes no floating point";
  EXPECT_EQ(totals.low_nodes, 4u);
  EXPECT_DOUBLE_EQ(totals.flops, 80);
  EXPECT_DOUBLE_EQ(totals.low_flops, 60);
  EXPECT_DOUBLE_EQ(totals.low_share(), 0.75);
  EXPECT_EQ(totals.casts, 2u) << "neither the weight nor the folded one";
  EXPECT_EQ(totals.cast_bytes, 84u);
}

TEST(MakeReport, TotalsOfNothing) {
  const ReportTotals totals = sum_totals(Records());
  EXPECT_EQ(totals, ReportTotals());
  EXPECT_DOUBLE_EQ(totals.low_share(), 0);
}

TEST(MakeReport, NodesOfOneNameGetTheirRecordsInOrder) {
  const auto model = test::value_or_die(import_text(R"(
    <ir_version: 9, opset_import: ["" : 17]>
    twins (float[2] x) => (float[2] y) { [same] a = Relu (x) [same] y = Relu (a) })"));
  Records records;
  records.nodes = {test::decision("same", "Relu", DType::kFloat32, Rule::kCut, "first", 2, 16),
                   test::decision("same", "Relu", DType::kFloat32, Rule::kCut, "second", 2, 16)};
  const Report report = make_report(*model, records);
  ASSERT_EQ(report.drawn.size(), 4u);
  EXPECT_EQ(report.drawn[1].decision, 0);
  EXPECT_EQ(report.drawn[2].decision, 1);
}

TEST(MakeReport, ACaptureOfASubgraphIsAnEdge) {
  const auto model = test::value_or_die(import_text(R"(
    <ir_version: 9, opset_import: ["" : 17]>
    branches (bool c, float[2] x) => (float[2] y) {
      [outer] h = Relu (x)
      [choice] y = If (c) <then_branch = a () => (float[2] t) { t = Neg (h) },
                           else_branch = b () => (float[2] e) { e = Abs (h) }>
    })"));
  const Report report = make_report(*model, Records());
  EXPECT_TRUE(has_edge(report, "outer", "choice"));
  EXPECT_EQ(std::count_if(report.edges.begin(), report.edges.end(),
                          [](const ReportEdge& edge) { return edge.value == "h"; }),
            1);
}

}  // namespace
}  // namespace mezzo
