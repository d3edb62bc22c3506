#include "kernels/cuda/reduce_plan.h"

#include <algorithm>
#include <array>

namespace mezzo::kernels::cuda {
namespace {

struct Group {
  Int size, x, y;
  bool reduced;
};

std::vector<Group> make_groups(const TensorDesc& x, const std::vector<bool>& reduced,
                               const Dims& y_strides) {
  const Dims strides = strides_within(x, x.dims);
  std::vector<Group> groups;
  for (const std::size_t d : memory_order(x.dims.size(), x.layout)) {
    const Group group{x.dims[d], strides[d], reduced[d] ? 0 : y_strides[d], reduced[d]};
    if (group.size == 1) continue;
    if (!groups.empty() && groups.back().reduced == group.reduced &&
        groups.back().x == group.x * group.size && groups.back().y == group.y * group.size) {
      groups.back() = {groups.back().size * group.size, group.x, group.y, group.reduced};
    } else {
      groups.push_back(group);
    }
  }
  return groups;
}

Int power_of_two(Int least) {
  Int power = 1;
  while (power < least) power *= 2;
  return power;
}

// Fewer blocks leave multiprocessors without work; more chunks than needed cost a little.
constexpr Int kBlocksWanted = 512;

void choose_line_threads(ReducePlan& plan) {
  plan.units = Divisor(ceil_div(plan.run, kReduceVector));
  plan.parts = plan.reduced.elems * ceil_div(plan.run, kReduceVector);
  constexpr Int kVectorsOfWarp = 512;  // up to so many a warp is enough
  constexpr Int kVectorsOfThread = 4;
  if (plan.parts <= kVectorsOfWarp) {
    plan.threads = std::min<Int>(power_of_two(ceil_div(plan.parts, kVectorsOfThread)), 32);
    return;
  }
  plan.threads = kReduceThreads;
  if (plan.results >= kBlocksWanted) return;
  plan.chunks = Divisor(std::clamp<Int>(plan.parts / (kReduceThreads * kVectorsOfThread), 1,
                                        ceil_div(2 * kBlocksWanted, plan.results)));
}

void choose_column_threads(ReducePlan& plan) {
  plan.threads = std::min<Int>(power_of_two(ceil_div(plan.columns, kReduceVector)), 32);
  const Int tiles = ceil_div(plan.columns, plan.threads * kReduceVector);
  plan.units = Divisor(tiles);
  plan.parts = plan.reduced.elems;
  const Int blocks = tiles * plan.kept.elems;
  constexpr Int kRowsOfThread = 4;
  if (blocks >= kBlocksWanted || blocks == 0) return;
  plan.chunks =
      Divisor(std::clamp<Int>(plan.parts / (kReduceThreads / plan.threads * kRowsOfThread), 1,
                              ceil_div(2 * kBlocksWanted, blocks)));
}

}  // namespace

void shape_reduction(const TensorDesc& x, const std::vector<bool>& reduced, const Dims& y_strides,
                     ReducePlan& plan) {
  std::vector<Group> groups = make_groups(x, reduced, y_strides);
  if (!groups.empty()) {
    const Group& last = groups.back();
    plan.by_column = last.reduced ? 0 : 1;
    if (last.reduced) {
      plan.run = last.size;
    } else {
      plan.columns = last.size;
      plan.y_step = last.y;
    }
    groups.pop_back();
  }
  Dims kept_sizes, kept_x, kept_y, reduced_sizes, reduced_x;
  for (const Group& group : groups) {
    (group.reduced ? reduced_sizes : kept_sizes).push_back(group.size);
    (group.reduced ? reduced_x : kept_x).push_back(group.x);
    if (!group.reduced) kept_y.push_back(group.y);
  }
  plan.kept = make_index<2>(kept_sizes, {kept_x, kept_y});
  plan.reduced = make_index<1>(reduced_sizes, {reduced_x});
  const auto is_whole = [](Int number) { return number % kReduceVector == 0; };
  plan.is_wide = is_whole(plan.by_column != 0 ? plan.columns : plan.run) &&
                         std::all_of(kept_x.begin(), kept_x.end(), is_whole) &&
                         std::all_of(reduced_x.begin(), reduced_x.end(), is_whole)
                     ? 1
                     : 0;
  plan.results = plan.kept.elems * plan.columns;
  plan.count = plan.reduced.elems * plan.run;
  if (plan.results == 0) return;
  if (plan.by_column != 0) {
    choose_column_threads(plan);
  } else {
    choose_line_threads(plan);
  }
}

}  // namespace mezzo::kernels::cuda
