// The minimum cut against all labellings of small random problems, and against the alternatives on
// larger ones.
#include "passes/precision/min_cut.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "passes/precision/propagate.h"

namespace mezzo::passes {
namespace {

using Fixed = CutProblem::Fixed;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Shape {
  int vertices = 10;
  int fixed_percent = 20;
  bool caller = false;  // a vertex that is low and stands for the graph's inputs and outputs
};

// A problem as assign-precision makes them: every vertex gives a tensor or two, which later
// vertices read, some of them twice; inputs come from nowhere, outputs go to what is always FP32.
CutProblem random_problem(std::mt19937_64& random, const Shape& shape) {
  const auto below = [&](int n) {
    return static_cast<int>(random() % static_cast<std::uint64_t>(n));
  };
  const auto cost = [&] {
    return below(4) == 0 ? 0.0 : below(1000) / 64.0;
  };  // exact in the solver's unit of 1e-6
  CutProblem problem;
  for (int i = 0; i < shape.vertices; ++i) {
    CutProblem::Vertex vertex{Fixed::kFree, cost(), cost()};
    if (below(100) < shape.fixed_percent) vertex.fixed = below(2) == 0 ? Fixed::kFp32 : Fixed::kLow;
    problem.vertices.push_back(vertex);
  }
  const int caller = shape.caller ? shape.vertices : CutProblem::kAlwaysFp32;
  if (shape.caller) problem.vertices.push_back({Fixed::kLow, 0, 0});
  const auto add_tensor = [&](int producer, int first_reader) {
    CutProblem::Tensor tensor;
    tensor.producer = producer;
    tensor.cast_cost = cost();
    const int readers = below(4);
    for (int r = 0; r < readers && first_reader < shape.vertices; ++r) {
      tensor.consumers.push_back(first_reader + below(shape.vertices - first_reader));
    }
    if (below(5) == 0) tensor.consumers.push_back(caller);
    if (below(8) == 0) tensor.consumers.push_back(CutProblem::kAlwaysFp32);
    problem.tensors.push_back(tensor);
  };
  for (int i = 0; i < 3; ++i) add_tensor(caller, 0);
  for (int i = 0; i < shape.vertices; ++i) {
    for (int t = 0; t <= below(2); ++t)
      add_tensor(below(10) == 0 ? CutProblem::kAlwaysFp32 : i, i + 1);
  }
  return problem;
}

double least_cost(const CutProblem& problem) {
  const std::size_t count = problem.vertices.size();
  double least = kInfinity;
  std::vector<bool> low(count);
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << count); ++bits) {
    for (std::size_t i = 0; i < count; ++i) low[i] = ((bits >> i) & 1U) != 0;
    least = std::min(least, labelling_cost(problem, low));
  }
  return least;
}

TEST(MinCut, EqualsTheBestOfAllLabellings) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 400; ++round) {
    Shape shape;
    shape.vertices = 1 + static_cast<int>(random() % 11);
    shape.fixed_percent = static_cast<int>(random() % 60);
    shape.caller = round % 3 == 0;
    const CutProblem problem = random_problem(random, shape);
    const CutSolution solution = solve_min_cut(problem);
    EXPECT_EQ(solution.low.size(), problem.vertices.size());
    EXPECT_EQ(solution.cost, labelling_cost(problem, solution.low));
    EXPECT_NEAR(solution.cost, least_cost(problem), 1e-4) << "round " << round;
  }
}

TEST(MinCut, FourteenFreeVertices) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 6; ++round) {
    const CutProblem problem = random_problem(random, {14, 0, round % 2 == 0});
    EXPECT_NEAR(solve_min_cut(problem).cost, least_cost(problem), 1e-4) << "round " << round;
  }
}

TEST(MinCut, IsNeverDearerThanPaintingOrAllFp32) {
  std::mt19937_64 random(3);
  int cheaper = 0;
  for (int round = 0; round < 200; ++round) {
    CutProblem problem =
        random_problem(random, {40 + static_cast<int>(random() % 200), 30, round % 2 == 0});
    std::vector<PrecisionCategory> categories;
    for (const CutProblem::Vertex& vertex : problem.vertices) {
      static constexpr PrecisionCategory kFree[] = {PrecisionCategory::kInfer,
                                                    PrecisionCategory::kClear};
      categories.push_back(vertex.fixed == Fixed::kLow    ? PrecisionCategory::kAllow
                           : vertex.fixed == Fixed::kFp32 ? PrecisionCategory::kDeny
                                                          : kFree[random() % 2]);
    }
    const double cut = solve_min_cut(problem).cost;
    const std::vector<bool> painted = propagate(problem, categories);
    const double painted_cost = labelling_cost(problem, painted);
    EXPECT_TRUE(std::isfinite(painted_cost));  // painting respects what is fixed
    EXPECT_LE(cut, painted_cost + 1e-4);
    cheaper += cut < painted_cost - 1e-3 ? 1 : 0;
    // All in FP32, but for what is fixed low.
    std::vector<bool> fp32;
    for (const CutProblem::Vertex& vertex : problem.vertices)
      fp32.push_back(vertex.fixed == Fixed::kLow);
    EXPECT_LE(cut, labelling_cost(problem, fp32) + 1e-4);
  }
  EXPECT_GT(cheaper, 100);  // else the comparison would prove little
}

TEST(MinCut, ACastIsPaidOnceForAllReaders) {
  CutProblem problem;
  problem.vertices = {
      {Fixed::kFp32, 1, 1}, {Fixed::kLow, 1, 1}, {Fixed::kLow, 1, 1}, {Fixed::kFp32, 1, 1}};
  problem.tensors = {{0, {1, 2, 3}, 5}};
  EXPECT_EQ(labelling_cost(problem, {false, true, true, false}), 4 + 5);
  EXPECT_EQ(solve_min_cut(problem).cost, 9);
}

TEST(MinCut, AFreeVertexTurnsWhereItIsCheaper) {
  CutProblem problem;  // low -> free -> low, with casts that cost more than the free vertex gains
  problem.vertices = {{Fixed::kLow, 0, 0}, {Fixed::kFree, 3, 4}, {Fixed::kLow, 0, 0}};
  problem.tensors = {{0, {1}, 1}, {1, {2}, 1}};
  EXPECT_EQ(solve_min_cut(problem).low, (std::vector<bool>{true, true, true}));  // 4 against 3 + 2
  problem.tensors[0].cast_cost = problem.tensors[1].cast_cost = 0.25;
  EXPECT_EQ(solve_min_cut(problem).low,
            (std::vector<bool>{true, false, true}));  // 4 against 3 + 0.5
}

TEST(MinCut, WhatAlwaysIsFp32Counts) {
  CutProblem problem;  // an input in FP32, one free vertex, an output in FP32
  problem.vertices = {{Fixed::kFree, 10, 4}};
  problem.tensors = {{CutProblem::kAlwaysFp32, {0}, 2}, {0, {CutProblem::kAlwaysFp32}, 2}};
  EXPECT_EQ(solve_min_cut(problem).cost, 8);  // low, and two casts
  problem.vertices[0].low_cost = 7;
  EXPECT_EQ(solve_min_cut(problem).cost, 10);  // FP32
}

TEST(MinCut, TensorsWithoutReadersCostNothing) {
  CutProblem problem;
  problem.vertices = {{Fixed::kLow, 0, 1}};
  problem.tensors = {{0, {}, 100}};
  EXPECT_EQ(solve_min_cut(problem).cost, 1);
  EXPECT_EQ(solve_min_cut({}).cost, 0);
}

TEST(MinCut, BrokenLabelsCostInfinity) {
  CutProblem problem;
  problem.vertices = {{Fixed::kLow, 0, 1}};
  EXPECT_EQ(labelling_cost(problem, {false}), kInfinity);
}

// 100,000 vertices in a chain with side branches: within seconds.
TEST(MinCut, SolvesLargeProblems) {
  std::mt19937_64 random(5);
  CutProblem problem;
  constexpr int kCount = 100'000;
  for (int i = 0; i < kCount; ++i) {
    CutProblem::Vertex vertex{Fixed::kFree, static_cast<double>(random() % 100),
                              static_cast<double>(random() % 100)};
    if (i % 17 == 0) vertex.fixed = Fixed::kLow;
    if (i % 23 == 0) vertex.fixed = Fixed::kFp32;
    problem.vertices.push_back(vertex);
    if (i > 8)
      problem.tensors.push_back(
          {i - 1 - static_cast<int>(random() % 8), {i}, static_cast<double>(random() % 50)});
    if (i > 0) problem.tensors.push_back({i - 1, {i}, static_cast<double>(random() % 50)});
  }
  const CutSolution solution = solve_min_cut(problem);
  EXPECT_TRUE(std::isfinite(solution.cost));
}

}  // namespace
}  // namespace mezzo::passes
