#include "passes/autodiff/loss_shapes.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "compiler/support/text.h"

namespace mezzo::passes {
namespace {

// The axes that may hold the classes of an output of `rank`.
StatusOr<std::vector<std::size_t>> candidates(const Value& output, const LossOptions& options) {
  const std::size_t rank = output.tensor_type().dims().size();
  if (rank < 2) {
    return invalid_argument("output '" + printable(output.name()) +
                            "': expected scores of classes, [N,C,...] or [N,...,C], got " +
                            to_string(output.type) + ". Hint: --loss bce takes one value");
  }
  std::vector<std::size_t> axes = {1};
  if (rank > 2) axes.push_back(rank - 1);
  if (!options.class_axis) return axes;
  const std::int64_t axis = *options.class_axis < 0
                                ? *options.class_axis + static_cast<std::int64_t>(rank)
                                : *options.class_axis;
  if (axis != 1 && axis != static_cast<std::int64_t>(rank) - 1) {
    return invalid_argument("--class-axis " + std::to_string(*options.class_axis) +
                            ": expected 1 or the last axis of output '" + printable(output.name()) +
                            "' " + to_string(output.type));
  }
  return std::vector<std::size_t>{static_cast<std::size_t>(axis)};
}

}  // namespace

Dims without_axis(const Dims& dims, std::size_t axis) {
  Dims rest = dims;
  rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(axis));
  return rest;
}

std::int64_t product(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
}

bool is_like(const Dims& a, const Dims& b) {
  const auto squeezed = [](Dims dims) {
    dims.erase(std::remove(dims.begin(), dims.end(), 1), dims.end());
    return dims;
  };
  return squeezed(a) == squeezed(b);
}

Status misfit(std::string_view what, const std::string& name, const Value& output,
              const std::string& expected, DType dtype, const Dims& got) {
  return invalid_argument(std::string(what) + " '" + printable(name) + "': expected " + expected +
                          " for output '" + printable(output.name()) + "' " +
                          to_string(output.type) + ", got " +
                          to_string(TensorType::of(dtype, got)) + " per batch");
}

StatusOr<ClassPlace> find_classes(const Value& output, const ArrayShape& target,
                                  const LossOptions& options, std::vector<std::string>& notes) {
  const Dims dims = output.tensor_type().dims();
  MEZZO_ASSIGN_OR_RETURN(const std::vector<std::size_t> axes, candidates(output, options));
  ClassPlace place;
  place.axis = axes[0];
  place.labels = target.dims.empty() ? without_axis(dims, place.axis) : target.dims;
  if (target.dims.empty()) return place;
  place.soft = target.dims == dims && is_floating(target.dtype);
  if (place.soft) return place;
  std::vector<std::size_t> fitting;
  std::string expected;
  for (const std::size_t axis : axes) {
    const Dims places = without_axis(dims, axis);
    // Rows of a flattened sequence take labels that are not flattened.
    if (is_like(target.dims, places) || (dims.size() == 2 && product(target.dims) == dims[0]))
      fitting.push_back(axis);
    expected += (expected.empty() ? "class numbers int64" : " or int64") + format_dims(places);
  }
  if (fitting.empty() || is_floating(target.dtype)) {
    return misfit("target", options.target, output, expected + " (or probabilities of its shape)",
                  target.dtype, target.dims);
  }
  place.axis = fitting[0];
  if (fitting.size() > 1) {
    notes.push_back("output '" + output.name() + "': classes may lie along axis 1 or " +
                    std::to_string(dims.size() - 1) +
                    "; axis 1 is taken, as PyTorch does. Hint: --class-axis");
  }
  return place;
}

}  // namespace mezzo::passes
