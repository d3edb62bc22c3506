// A conversion grows with the graph, not with its square: counted in allocations, which are the
// same on every run, and in processor time, which also shows loops that allocate nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <limits>

#include "tests/bench/convert_time.h"
#include "tests/bench/count_allocations.h"
#include "tests/support/status_test.h"
#include "tests/support/temp_dir.h"

namespace mezzo::bench {
namespace {

constexpr int kSmall = 10000, kLarge = 40000;  // four times the nodes
constexpr double kMostAllocations = 4.4;
// Instructions grow by 4 (counted with valgrind), time by up to 7 on a busy machine, as the tables
// of larger graphs no longer fit the processor's caches. Quadratic growth is 16.
constexpr double kMostTime = 10;

struct Cost {
  double cpu_s = std::numeric_limits<double>::infinity();  // the least of some runs
  double allocations = 0;
};

Cost cost_of(const GraphKind& kind, int nodes, int runs) {
  const test::TempDir folder;
  Cost cost;
  EXPECT_THAT(write_graph(kind, nodes, folder.path()), test::IsOk());
  for (int i = 0; i < runs; ++i) {
    const std::int64_t before = allocation_count();
    const auto time = time_conversion(folder.path());
    cost.allocations = static_cast<double>(allocation_count() - before);
    EXPECT_THAT(time, test::IsOk());
    if (time.ok()) cost.cpu_s = std::min(cost.cpu_s, time->cpu_s);
  }
  return cost;
}

class Growth : public testing::TestWithParam<GraphKind> {};

TEST_P(Growth, IsLinear) {
  cost_of(GetParam(), 100, 1);  // schemas are registered on first use
  const Cost small = cost_of(GetParam(), kSmall, 3), large = cost_of(GetParam(), kLarge, 2);
  const double more_allocations = large.allocations / small.allocations;
  const double more_time = large.cpu_s / small.cpu_s;
  std::cout << GetParam().name << ": " << kSmall << " nodes " << small.cpu_s << " s, " << kLarge
            << " nodes " << large.cpu_s << " s: " << more_time << " times the time, "
            << more_allocations << " times the allocations\n";
  EXPECT_LT(more_allocations, kMostAllocations);
  EXPECT_LT(more_time, kMostTime);
}

INSTANTIATE_TEST_SUITE_P(Graphs, Growth, testing::ValuesIn(graph_kinds()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace mezzo::bench
