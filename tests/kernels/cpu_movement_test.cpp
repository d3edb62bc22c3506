// Data movement and gathering against the reference. Moved data must be equal in bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/kernels/kernel_harness.h"

namespace mezzo::kernels {
namespace {

using Dims = std::vector<std::int64_t>;

DType any_dtype(Engine& engine) {
  constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16,
                              DType::kInt64,   DType::kBool,    DType::kInt32};
  return kTypes[draw(engine, 0, 5)];
}

Numbers any_numbers(Engine& engine, const TensorDesc& desc) {
  if (is_floating(desc.dtype)) return draw_numbers(engine, desc, 10.0);
  return draw_integers(engine, desc, 0, desc.dtype == DType::kBool ? 1 : 1000000);
}

Dims movement_dims(Engine& engine) {
  switch (draw(engine, 0, 5)) {
    case 0: return {draw(engine, 2, 4), draw(engine, 30, 140), draw(engine, 200, 300)};
    case 1:
      return {draw(engine, 2, 3), draw(engine, 20, 60), draw(engine, 2, 9), draw(engine, 30, 80)};
    default: return draw_dims(engine, static_cast<std::size_t>(draw(engine, 1, 5)), 9);
  }
}

Layout any_layout(Engine& engine) {
  return draw(engine, 0, 3) == 0 ? Layout::kChannelsLast : Layout::kRowMajor;
}

KernelCase movement_case(Engine& engine, const char* op, const TensorDesc& x, const TensorDesc& y) {
  KernelCase test;
  test.request.op = op;
  test.exact = true;
  test.request.inputs = {x};
  test.request.outputs = {y};
  test.operands = {any_numbers(engine, x)};
  return test;
}

TEST(Movement, Transpose) {
  Engine engine(41);
  for (int round = 0; round < 120; ++round) {
    const Dims dims = movement_dims(engine);
    Dims perm(dims.size());
    std::iota(perm.begin(), perm.end(), 0);
    std::shuffle(perm.begin(), perm.end(), engine);
    Dims to;
    for (const std::int64_t dim : perm) to.push_back(dims[static_cast<std::size_t>(dim)]);
    const DType dtype = any_dtype(engine);
    KernelCase test = movement_case(engine, "Transpose", tensor(dtype, dims), tensor(dtype, to));
    test.request.attributes.set("perm", perm);
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(Movement, Reorder) {
  Engine engine(42);
  for (int round = 0; round < 60; ++round) {
    Dims dims = {draw(engine, 1, 3), draw(engine, 1, 130), draw(engine, 1, 20),
                 draw(engine, 1, 20)};
    if (round % 4 == 0) dims.pop_back();
    const DType dtype = any_dtype(engine);
    const Layout from = round % 2 == 0 ? Layout::kRowMajor : Layout::kChannelsLast;
    const Layout to = round % 2 == 0 ? Layout::kChannelsLast : Layout::kRowMajor;
    ASSERT_NO_FATAL_FAILURE(check_kernel(
        movement_case(engine, "Reorder", tensor(dtype, dims, from), tensor(dtype, dims, to))));
    if (HasFailure()) return;
  }
}

TEST(Movement, CopiesAndZeros) {
  Engine engine(43);
  for (const char* op : {"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze"}) {
    for (int round = 0; round < 4; ++round) {
      const Dims dims = movement_dims(engine);
      const DType dtype = any_dtype(engine);
      ASSERT_NO_FATAL_FAILURE(
          check_kernel(movement_case(engine, op, tensor(dtype, dims), tensor(dtype, dims))));
    }
  }
  KernelCase zero;
  zero.request.op = "FillZero";
  zero.exact = true;
  zero.request.outputs = {tensor(DType::kFloat16, {300, 301})};
  check_kernel(zero);
}

TEST(Movement, ConcatAndSplit) {
  Engine engine(44);
  for (int round = 0; round < 60; ++round) {
    const Dims dims = movement_dims(engine);
    const std::size_t axis =
        static_cast<std::size_t>(draw(engine, 0, static_cast<std::int64_t>(dims.size()) - 1));
    const DType dtype = any_dtype(engine);
    const Layout layout = any_layout(engine);
    KernelCase concat;
    KernelCase split;
    concat.exact = split.exact = true;
    concat.request.op = "Concat";
    split.request.op = "Split";
    Dims whole = dims;
    whole[axis] = 0;
    for (std::int64_t i = draw(engine, 1, 4); i > 0; --i) {
      Dims part = dims;
      part[axis] = draw(engine, 0, 9);
      whole[axis] += part[axis];
      concat.request.inputs.push_back(tensor(dtype, part, layout));
      concat.operands.push_back(any_numbers(engine, concat.request.inputs.back()));
    }
    concat.request.outputs = {tensor(dtype, whole, layout)};
    concat.request.attributes.set("axis", static_cast<std::int64_t>(axis));
    ASSERT_NO_FATAL_FAILURE(check_kernel(concat));
    split.request.inputs = concat.request.outputs;
    split.request.outputs = concat.request.inputs;
    split.request.attributes.set(
        "axis", static_cast<std::int64_t>(axis) - static_cast<std::int64_t>(dims.size()));
    split.operands = {any_numbers(engine, split.request.inputs[0])};
    ASSERT_NO_FATAL_FAILURE(check_kernel(split));
    if (HasFailure()) return;
  }
}

// Starts, ends and steps of all signs; the part's dims by counting.
TEST(Movement, SliceAndItsGradient) {
  Engine engine(45);
  for (int round = 0; round < 150; ++round) {
    const Dims dims = movement_dims(engine);
    Dims starts, ends, axes, steps;
    Dims part = dims;
    for (std::size_t dim = 0; dim < dims.size(); ++dim) {
      if (draw(engine, 0, 1) == 0) continue;
      const std::int64_t n = dims[dim];
      const std::int64_t step = draw(engine, 0, 1) == 0 ? 1 : draw(engine, -3, 3);
      if (step == 0) continue;
      const std::int64_t start = draw(engine, -n - 2, n + 2);
      const std::int64_t end = draw(engine, -n - 2, n + 2);
      const auto clamp = [&](std::int64_t at, std::int64_t low, std::int64_t high) {
        return std::clamp(at < 0 ? at + n : at, low, high);
      };
      const std::int64_t first = step > 0 ? clamp(start, 0, n) : clamp(start, 0, n - 1);
      const std::int64_t last = step > 0 ? clamp(end, 0, n) : clamp(end, -1, n - 1);
      part[dim] = 0;
      for (std::int64_t i = first; n > 0 && (step > 0 ? i < last : i > last); i += step)
        ++part[dim];
      starts.push_back(start);
      ends.push_back(end);
      axes.push_back(static_cast<std::int64_t>(dim));
      steps.push_back(step);
    }
    const DType dtype = any_dtype(engine);
    const Layout layout = any_layout(engine);
    const TensorDesc whole = tensor(dtype, dims, layout);
    const TensorDesc small = tensor(dtype, part, layout);
    for (const bool grad : {false, true}) {
      KernelCase test = movement_case(engine, grad ? "SliceGrad" : "Slice", grad ? small : whole,
                                      grad ? whole : small);
      test.request.attributes.set("starts", starts);
      test.request.attributes.set("ends", ends);
      test.request.attributes.set("axes", axes);
      test.request.attributes.set("steps", steps);
      ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    }
    if (HasFailure()) return;
  }
}

TEST(Movement, PadAndExpand) {
  Engine engine(46);
  for (int round = 0; round < 80; ++round) {
    const Dims dims = movement_dims(engine);
    const Layout layout = any_layout(engine);
    Dims begins, ends, padded;
    for (const std::int64_t dim : dims) {
      begins.push_back(draw(engine, -std::min<std::int64_t>(dim / 2, 2), 3));
      ends.push_back(draw(engine, -std::min<std::int64_t>(dim / 2, 2), 3));
      padded.push_back(dim + begins.back() + ends.back());
    }
    begins.insert(begins.end(), ends.begin(), ends.end());
    const DType dtype = any_dtype(engine);
    KernelCase pad =
        movement_case(engine, "Pad", tensor(dtype, dims, layout), tensor(dtype, padded, layout));
    pad.request.attributes.set("pads", begins);
    if (is_floating(dtype) && draw(engine, 0, 1) == 1) pad.request.attributes.set("value", -1.5);
    ASSERT_NO_FATAL_FAILURE(check_kernel(pad));

    Dims small(dims.begin() + draw(engine, 0, static_cast<std::int64_t>(dims.size())), dims.end());
    for (std::int64_t& dim : small) {
      if (draw(engine, 0, 1) == 0) dim = 1;
    }
    ASSERT_NO_FATAL_FAILURE(
        check_kernel(movement_case(engine, "Expand", tensor(dtype, small), tensor(dtype, dims))));
    if (HasFailure()) return;
  }
}

struct GatherDims {
  Dims x, indices, y;
  std::int64_t axis;
};

GatherDims gather_dims(Engine& engine, int round) {
  GatherDims dims;
  dims.x = draw_dims(engine, static_cast<std::size_t>(draw(engine, 1, 4)), 9);
  if (round % 5 == 0) dims.x = {draw(engine, 50, 500), draw(engine, 100, 700)};
  dims.indices = draw_dims(engine, static_cast<std::size_t>(draw(engine, 0, 2)), 20);
  dims.axis = round % 5 == 0 ? 0 : draw(engine, 0, static_cast<std::int64_t>(dims.x.size()) - 1);
  if (dims.x[static_cast<std::size_t>(dims.axis)] == 0)
    dims.x[static_cast<std::size_t>(dims.axis)] = 3;
  dims.y.assign(dims.x.begin(), dims.x.begin() + dims.axis);
  dims.y.insert(dims.y.end(), dims.indices.begin(), dims.indices.end());
  dims.y.insert(dims.y.end(), dims.x.begin() + dims.axis + 1, dims.x.end());
  return dims;
}

TEST(Gather, ForwardAndGradient) {
  Engine engine(47);
  for (int round = 0; round < 80; ++round) {
    const GatherDims dims = gather_dims(engine, round);
    const DType dtype = any_dtype(engine);
    const std::int64_t size = dims.x[static_cast<std::size_t>(dims.axis)];
    const TensorDesc indices =
        tensor(draw(engine, 0, 1) == 1 ? DType::kInt64 : DType::kInt32, dims.indices);
    const Numbers places = draw_integers(engine, indices, -size, size - 1);
    KernelCase test = movement_case(engine, "Gather", tensor(dtype, dims.x), tensor(dtype, dims.y));
    test.request.inputs.push_back(indices);
    test.operands.push_back(places);
    test.request.attributes.set("axis", dims.axis);
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));

    KernelCase grad;
    grad.request.op = "GatherGrad";
    grad.request.attributes.set("axis", dims.axis);
    grad.request.inputs = {tensor(draw_float(engine), dims.y), indices};
    grad.request.outputs = {tensor(draw_float(engine), dims.x)};
    grad.operands = {draw_numbers(engine, grad.request.inputs[0], 1.0), places};
    grad.depth = indices.elems() + 2;
    grad.cancels = 1.0;
    ASSERT_NO_FATAL_FAILURE(check_kernel(grad));
    if (HasFailure()) return;
  }
}

// An embedding row that 20000 tokens name, each with a gradient of 0.01 (s22 of the loss scale
// scenarios): a running sum in float16 would stop at 32, float32 gives 200.04.
TEST(Gather, SumsManyRepeatsInFloat32) {
  constexpr std::int64_t kRepeats = 20000;
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32}) {
    for (const std::int64_t width : {1, 8, 33}) {
      KernelRequest request;
      request.op = "GatherGrad";
      request.attributes.set("axis", std::int64_t{0});
      request.inputs = {tensor(dtype, {kRepeats, width}), tensor(DType::kInt64, {kRepeats})};
      request.outputs = {tensor(DType::kFloat32, {2, width})};
      const Numbers dy(static_cast<std::size_t>(kRepeats * width), 0.01);
      const Numbers places(static_cast<std::size_t>(kRepeats), 0.0);
      const Numbers dx = run_row(request, {dy, places}).at(0);
      for (std::size_t i = 0; i < static_cast<std::size_t>(width); ++i) {
        ASSERT_NEAR(dx[i], 200.0427, 2.0) << dtype_name(dtype);
        ASSERT_EQ(dx[static_cast<std::size_t>(width) + i], 0.0);
      }
    }
  }
}

TEST(Gather, NamesAWrongIndex) {
  KernelRequest request;
  request.op = "Gather";
  request.inputs = {tensor(DType::kFloat32, {4, 2}), tensor(DType::kInt64, {3})};
  request.outputs = {tensor(DType::kFloat32, {3, 2})};
  for (const double wrong : {4.0, -5.0, 9e15}) {
    const Status status = row_status(request, {Numbers(8, 1.0), {0, 1, wrong}});
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("element 2"), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace mezzo::kernels
