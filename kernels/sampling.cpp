#include "kernels/sampling.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "compiler/support/text.h"

namespace mezzo::kernels {
namespace {

using Int = std::int64_t;

Status wrong(const std::string& what) { return invalid_argument("GridSample: " + what); }

}  // namespace

StatusOr<GridSampling> read_grid_sampling(const KernelRequest& request) {
  const std::vector<Int>& x = request.inputs[0].dims;
  const std::vector<Int>& grid = request.inputs[1].dims;
  const std::vector<Int>& y = request.outputs[0].dims;
  if (x.size() < 3 || grid.size() != x.size() || grid[0] != x[0] ||
      grid.back() != static_cast<Int>(x.size()) - 2) {
    return wrong("x " + format_dims(x) + " and grid " + format_dims(grid) + " do not go together");
  }
  if (x.size() - 2 > static_cast<std::size_t>(kMostSampledDims))
    return unimplemented("GridSample: more than 3 dims");
  std::vector<Int> expected = {x[0], x[1]};
  expected.insert(expected.end(), grid.begin() + 1, grid.end() - 1);
  if (y != expected) {
    return wrong("expected a result of dims " + format_dims(expected) + ", got " + format_dims(y));
  }
  GridSampling sampler;
  sampler.rank = static_cast<int>(x.size() - 2);
  std::copy(x.begin() + 2, x.end(), sampler.sizes);
  if (request.outputs[0].elems() > 0 && std::count(x.begin(), x.end(), 0) > 0) {
    return wrong("x " + format_dims(x) + " has no elements to take");
  }
  const std::string mode = request.attributes.get_string("mode", "linear");
  if (mode == "nearest") {
    sampler.mode = GridMode::kNearest;
  } else if (mode == "cubic" || mode == "bicubic") {
    sampler.mode = GridMode::kCubic;
  } else if (mode != "linear" && mode != "bilinear") {
    return wrong("attribute 'mode' is '" + mode + "', expected nearest, linear or cubic");
  }
  const std::string padding = request.attributes.get_string("padding_mode", "zeros");
  if (padding == "border") {
    sampler.padding = GridPadding::kBorder;
  } else if (padding == "reflection") {
    sampler.padding = GridPadding::kReflection;
  } else if (padding != "zeros") {
    return wrong("attribute 'padding_mode' is '" + padding +
                 "', expected zeros, border or reflection");
  }
  sampler.align_corners = request.attributes.get_int("align_corners", 0) != 0;
  return sampler;
}

}  // namespace mezzo::kernels
