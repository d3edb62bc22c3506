// Rows of a device for operators that the CPU leaves to the reference kernels: indexing, selection,
// scattering. Moved data must be equal in bits, and so must sums made in the order of the updates.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/kernels/kernel_harness.h"

namespace mezzo::kernels {
namespace {

using Dims = std::vector<std::int64_t>;

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat64,
                            DType::kInt8,    DType::kUInt8,   DType::kInt16,    DType::kUInt16,
                            DType::kInt32,   DType::kUInt32,  DType::kInt64,    DType::kUInt64,
                            DType::kBool};

DType any_dtype(Engine& engine) { return kTypes[draw(engine, 0, std::size(kTypes) - 1)]; }
DType index_dtype(Engine& engine) {
  return draw(engine, 0, 1) == 0 ? DType::kInt32 : DType::kInt64;
}

Numbers any_numbers(Engine& engine, const TensorDesc& desc) {
  if (is_floating(desc.dtype)) return draw_numbers(engine, desc, 4.0);
  const std::int64_t most = desc.dtype == DType::kBool ? 1 : 60;
  return draw_integers(engine, desc, is_signed_type(desc.dtype) ? -60 : 0, most);
}

KernelCase case_of(Engine& engine, const char* op, std::vector<TensorDesc> inputs,
                   std::vector<TensorDesc> outputs) {
  KernelCase test;
  test.request.op = op;
  test.exact = true;
  for (const TensorDesc& input : inputs) test.operands.push_back(any_numbers(engine, input));
  test.request.inputs = std::move(inputs);
  test.request.outputs = std::move(outputs);
  return test;
}

std::int64_t axis_of(Engine& engine, const Dims& dims) {
  const auto rank = static_cast<std::int64_t>(dims.size());
  return draw(engine, -rank, rank - 1);
}
std::size_t place(std::int64_t axis, const Dims& dims) {
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(dims.size()) : axis);
}

// Dims of indices that stay within `dims` but along the axis.
Dims dims_within(Engine& engine, const Dims& dims, std::size_t axis, std::int64_t along) {
  Dims within;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    within.push_back(d == axis ? along : draw(engine, 1, dims[d]));
  }
  return within;
}

Dims dims_of(Engine& engine, std::size_t rank) {
  Dims dims;
  for (std::size_t d = 0; d < rank; ++d) dims.push_back(draw(engine, 1, 9));
  return dims;
}

TEST(IndexRows, GatherElements) {
  Engine engine(1);
  for (int round = 0; round < 80; ++round) {
    const Dims x = dims_of(engine, static_cast<std::size_t>(draw(engine, 1, 4)));
    const std::int64_t axis = axis_of(engine, x);
    const std::int64_t size = x[place(axis, x)];
    const Dims y = dims_within(engine, x, place(axis, x), draw(engine, 0, 30));
    const DType dtype = any_dtype(engine);
    const TensorDesc indices = tensor(index_dtype(engine), y);
    KernelCase test =
        case_of(engine, "GatherElements", {tensor(dtype, x), indices}, {tensor(dtype, y)});
    test.request.attributes.set("axis", axis);
    test.operands[1] = draw_integers(engine, indices, -size, size - 1);
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

// Indices of tuples into the dims from `batch` on; `k` numbers each.
Numbers draw_tuples(Engine& engine, const Dims& x, std::size_t batch, std::size_t k,
                    std::int64_t tuples) {
  Numbers numbers;
  for (std::int64_t t = 0; t < tuples; ++t) {
    for (std::size_t i = 0; i < k; ++i) {
      const std::int64_t size = x[batch + i];
      numbers.push_back(static_cast<double>(draw(engine, -size, size - 1)));
    }
  }
  return numbers;
}

TEST(IndexRows, GatherND) {
  Engine engine(2);
  for (int round = 0; round < 80; ++round) {
    const Dims x = dims_of(engine, static_cast<std::size_t>(draw(engine, 1, 5)));
    const auto rank = static_cast<std::int64_t>(x.size());
    const std::int64_t batch = draw(engine, 0, std::min<std::int64_t>(rank - 1, 2));
    const std::int64_t k = draw(engine, 1, rank - batch);
    Dims indices(x.begin(), x.begin() + batch);
    for (std::int64_t i = draw(engine, 0, 2); i > 0; --i) indices.push_back(draw(engine, 1, 12));
    Dims y = indices;
    const std::int64_t tuples =
        std::accumulate(y.begin(), y.end(), std::int64_t{1}, std::multiplies<>());
    y.insert(y.end(), x.begin() + batch + k, x.end());
    indices.push_back(k);
    const DType dtype = any_dtype(engine);
    KernelCase test =
        case_of(engine, "GatherND", {tensor(dtype, x), tensor(index_dtype(engine), indices)},
                {tensor(dtype, y)});
    test.request.attributes.set("batch_dims", batch);
    test.operands[1] = draw_tuples(engine, x, static_cast<std::size_t>(batch),
                                   static_cast<std::size_t>(k), tuples);
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

constexpr const char* kJoins[] = {"none", "add", "mul", "max", "min"};

// Numbers near 1, so that products stay in range.
void keep_products_small(Engine& engine, const TensorDesc& desc, Numbers& numbers) {
  for (double& x : numbers) {
    x = is_floating(desc.dtype) ? (draw(engine, 0, 1) == 0 ? -1.0625 : 0.9375)
                                : static_cast<double>(draw(engine, 1, 3));
    if (desc.dtype == DType::kBool) x = static_cast<double>(draw(engine, 0, 1));
  }
}

TEST(IndexRows, ScatterElements) {
  Engine engine(3);
  for (int round = 0; round < 150; ++round) {
    Dims data = dims_of(engine, static_cast<std::size_t>(draw(engine, 1, 4)));
    std::int64_t axis = axis_of(engine, data);
    Dims indices = dims_within(engine, data, place(axis, data), draw(engine, 0, 20));
    if (round % 10 == 0) {  // more updates than are sorted at once, many of one element
      data = {draw(engine, 1, 40)};
      indices = {draw(engine, 1000, 5000)};
      axis = 0;
    }
    const std::int64_t size = data[place(axis, data)];
    const DType dtype = any_dtype(engine);
    const TensorDesc places = tensor(index_dtype(engine), indices);
    KernelCase test =
        case_of(engine, "ScatterElements", {tensor(dtype, data), places, tensor(dtype, indices)},
                {tensor(dtype, data)});
    const std::string join = kJoins[round % 5];
    test.request.attributes.set("reduction", join);
    test.request.attributes.set("axis", axis);
    test.operands[1] = draw_integers(engine, places, -size, size - 1);
    if (join == "mul") keep_products_small(engine, test.request.inputs[2], test.operands[2]);
    // NaN of other dtypes may come out with other bits.
    const bool keeps_nan = dtype == DType::kFloat32 || dtype == DType::kFloat64;
    if (join == "max" && keeps_nan && !test.operands[2].empty()) test.operands[2][0] = NAN;
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(IndexRows, ScatterND) {
  Engine engine(4);
  for (int round = 0; round < 100; ++round) {
    Dims data = dims_of(engine, static_cast<std::size_t>(draw(engine, 1, 4)));
    std::int64_t k = draw(engine, 1, static_cast<std::int64_t>(data.size()));
    Dims indices = dims_of(engine, static_cast<std::size_t>(draw(engine, 0, 2)));
    if (round % 10 == 0) {
      data = {draw(engine, 2, 9), 1 + draw(engine, 0, 3) * 8};
      indices = {draw(engine, 1000, 2500)};
      k = 1;
    }
    const std::int64_t tuples =
        std::accumulate(indices.begin(), indices.end(), std::int64_t{1}, std::multiplies<>());
    Dims updates = indices;
    updates.insert(updates.end(), data.begin() + k, data.end());
    indices.push_back(k);
    const DType dtype = any_dtype(engine);
    KernelCase test =
        case_of(engine, "ScatterND",
                {tensor(dtype, data), tensor(index_dtype(engine), indices), tensor(dtype, updates)},
                {tensor(dtype, data)});
    const std::string join = kJoins[round % 5];
    test.request.attributes.set("reduction", join);
    test.operands[1] = draw_tuples(engine, data, 0, static_cast<std::size_t>(k), tuples);
    if (join == "mul") keep_products_small(engine, test.request.inputs[2], test.operands[2]);
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(IndexRows, TensorScatter) {
  Engine engine(5);
  for (int round = 0; round < 40; ++round) {
    Dims cache = {draw(engine, 1, 4), draw(engine, 1, 5), draw(engine, 1, 20), draw(engine, 1, 17)};
    const std::int64_t axis = round % 3 == 0 ? 1 : -2;
    const std::size_t a = place(axis, cache);
    Dims update = cache;
    update[a] = draw(engine, 1, cache[a]);
    const bool circular = round % 2 == 0;
    const DType dtype = any_dtype(engine);
    const TensorDesc starts = round % 5 == 0 ? TensorDesc() : tensor(DType::kInt64, {cache[0]});
    KernelCase test =
        case_of(engine, "TensorScatter", {tensor(dtype, cache), tensor(dtype, update)},
                {tensor(dtype, cache)});
    test.request.attributes.set("axis", axis);
    test.request.attributes.set("mode", std::string(circular ? "circular" : "linear"));
    test.request.inputs.push_back(starts);
    test.operands.push_back(
        starts.present() ? draw_integers(engine, starts, 0, circular ? 50 : cache[a] - update[a])
                         : Numbers());
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(IndexRows, OneHotAndEye) {
  Engine engine(6);
  for (int round = 0; round < 60; ++round) {
    const Dims indices = dims_of(engine, static_cast<std::size_t>(draw(engine, 0, 3)));
    const std::int64_t depth = draw(engine, 1, 12);
    const std::int64_t axis = draw(engine, -static_cast<std::int64_t>(indices.size()) - 1,
                                   static_cast<std::int64_t>(indices.size()));
    Dims y = indices;
    y.insert(y.begin() + (axis < 0 ? axis + static_cast<std::int64_t>(y.size()) + 1 : axis), depth);
    const DType index = kTypes[draw(engine, 0, std::size(kTypes) - 2)];
    const DType dtype = any_dtype(engine);
    KernelCase test =
        case_of(engine, "OneHot", {tensor(index, indices), tensor(dtype, {2})}, {tensor(dtype, y)});
    test.request.attributes.set("axis", axis);
    test.operands[0] = draw_integers(engine, test.request.inputs[0],
                                     is_signed_type(index) ? -depth - 2 : 0, depth + 2);
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));

    KernelCase eye =
        case_of(engine, "EyeLike", {}, {tensor(dtype, {draw(engine, 0, 9), draw(engine, 0, 9)})});
    eye.request.attributes.set("k", draw(engine, -10, 10));
    ASSERT_NO_FATAL_FAILURE(check_kernel(eye));
    if (HasFailure()) return;
  }
}

TEST(IndexRows, ReverseSequence) {
  Engine engine(7);
  for (int round = 0; round < 30; ++round) {
    Dims x = dims_of(engine, static_cast<std::size_t>(draw(engine, 2, 4)));
    const std::int64_t time_axis = round % 2;
    const DType dtype = any_dtype(engine);
    const TensorDesc lengths = tensor(DType::kInt64, {x[static_cast<std::size_t>(1 - time_axis)]});
    KernelCase test =
        case_of(engine, "ReverseSequence", {tensor(dtype, x), lengths}, {tensor(dtype, x)});
    test.request.attributes.set("time_axis", time_axis);
    test.request.attributes.set("batch_axis", 1 - time_axis);
    test.operands[1] = draw_integers(engine, lengths, 0, x[static_cast<std::size_t>(time_axis)]);
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

// Lists of one element, of more than are sorted at once, and of many equal numbers.
TEST(IndexRows, TopK) {
  Engine engine(8);
  for (int round = 0; round < 60; ++round) {
    Dims x = dims_of(engine, static_cast<std::size_t>(draw(engine, 1, 3)));
    if (round % 3 == 0) x = {draw(engine, 1, 3), draw(engine, 900, 4500)};
    if (round % 6 == 0) x = {draw(engine, 900, 2100), draw(engine, 1, 3)};
    const std::int64_t axis = axis_of(engine, x);
    Dims y = x;
    y[place(axis, x)] = draw(engine, 0, x[place(axis, x)]);
    const DType dtype = any_dtype(engine);
    const bool values = draw(engine, 0, 4) != 0;
    const bool indices = !values || draw(engine, 0, 4) != 0;
    KernelCase test = case_of(engine, "TopK", {tensor(dtype, x)},
                              {values ? tensor(dtype, y) : TensorDesc(),
                               indices ? tensor(DType::kInt64, y) : TensorDesc()});
    test.request.attributes.set("axis", axis);
    test.request.attributes.set("largest", draw(engine, 0, 1));
    if (is_floating(dtype)) {
      if (round % 2 == 0) {
        test.operands[0] = draw_integers(engine, test.request.inputs[0], -20, 20);
      }
      test.operands[0][0] = NAN;
      test.operands[0].back() = -INFINITY;
      for (double& number : test.operands[0]) {
        if (number == 0 && draw(engine, 0, 1) == 0) number = -0.0;
      }
    }
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

// More than are sorted at a time.
TEST(IndexRows, TopKOfManyLists) {
  Engine engine(11);
  KernelCase test =
      case_of(engine, "TopK", {tensor(DType::kFloat16, {2, 1030, 520})},
              {tensor(DType::kFloat16, {2, 3, 520}), tensor(DType::kInt64, {2, 3, 520})});
  test.request.attributes.set("axis", std::int64_t{1});
  check_kernel(test);
}

TEST(IndexRows, Trilu) {
  Engine engine(9);
  for (int round = 0; round < 40; ++round) {
    const Dims dims = dims_of(engine, static_cast<std::size_t>(draw(engine, 2, 4)));
    const DType dtype = any_dtype(engine);
    KernelCase test = case_of(engine, "Trilu", {tensor(dtype, dims)}, {tensor(dtype, dims)});
    test.request.attributes.set("upper", draw(engine, 0, 1));
    test.request.attributes.set("k", draw(engine, -12, 12));
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(IndexRows, KnownNumbers) {
  Engine engine(10);
  const TensorDesc x = tensor(DType::kFloat16, {3, 0, 7});
  KernelCase shape = case_of(engine, "Shape", {x}, {tensor(DType::kInt64, {2})});
  shape.request.attributes.set("start", std::int64_t{-2});
  check_kernel(shape);
  check_kernel(case_of(engine, "Size", {x}, {tensor(DType::kInt64, {})}));
  KernelCase fill =
      case_of(engine, "ConstantOfShape", {tensor(DType::kInt64, {2}), tensor(DType::kInt16, {})},
              {tensor(DType::kInt16, {30, 50})});
  fill.operands = {{30, 50}, {-7}};
  check_kernel(fill);
  EXPECT_EQ(row_status(fill.request, {{30, 51}, {-7}}).code(), StatusCode::kInvalidArgument);
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kInt64}) {
    KernelCase range =
        case_of(engine, "Range", {tensor(dtype, {}), tensor(dtype, {}), tensor(dtype, {})},
                {tensor(dtype, {7})});
    for (const Numbers& bounds : {Numbers{2, 16, 2}, Numbers{3, -18, -3}, Numbers{1, 8, 1}}) {
      range.operands = {{bounds[0]}, {bounds[1]}, {bounds[2]}};
      check_kernel(range);
    }
    const Status wrong = row_status(range.request, {{0}, {8}, {1}});
    EXPECT_NE(wrong.message().find("another number of elements than the 7"), std::string::npos);
    EXPECT_EQ(row_status(range.request, {{0}, {7}, {0}}).code(), StatusCode::kInvalidArgument);
  }
}

// Every operator names the index that is out of range, and where it stands.
TEST(IndexRows, NameAWrongIndex) {
  const TensorDesc x = tensor(DType::kFloat32, {3, 2});
  const TensorDesc updates = tensor(DType::kFloat32, {2, 2});
  const TensorDesc list = tensor(DType::kInt64, {2, 1});
  const TensorDesc two = tensor(DType::kInt64, {1, 2});
  const Numbers numbers = {1, 2, 3, 4, 5, 6};
  const auto expect_named = [](const Status& status, const char* text) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
  };
  for (const double bad : {3.0, -4.0, 9e15, -9e15}) {
    const Numbers indices = {0, bad};
    KernelRequest request;
    request.op = "GatherElements";
    request.inputs = {x, two};
    request.outputs = {tensor(DType::kFloat32, {1, 2})};
    expect_named(row_status(request, {numbers, indices}), "element 1 is ");
    request.op = "GatherND";
    request.inputs = {x, list};
    request.outputs = {updates};
    expect_named(row_status(request, {numbers, indices}), "expected -3 to 2");
    request.op = "ScatterND";
    request.inputs = {x, list, updates};
    request.outputs = {x};
    expect_named(row_status(request, {numbers, indices, {7, 8, 9, 0}}), "expected -3 to 2");
    request.op = "ScatterElements";
    request.inputs = {x, two, tensor(DType::kFloat32, {1, 2})};
    expect_named(row_status(request, {numbers, indices, {7, 8}}), "element 1 is ");
  }
  KernelRequest reverse;
  reverse.op = "ReverseSequence";
  reverse.inputs = {x, tensor(DType::kInt64, {2})};
  reverse.outputs = {x};
  expect_named(row_status(reverse, {numbers, {1, 4}}), "element 1 is 4, expected 0 to 3");
  KernelRequest scatter;
  scatter.op = "TensorScatter";
  scatter.attributes.set("axis", std::int64_t{1});
  scatter.inputs = {tensor(DType::kFloat32, {1, 2, 2}), tensor(DType::kFloat32, {1, 1, 2}),
                    tensor(DType::kInt64, {1})};
  scatter.outputs = {tensor(DType::kFloat32, {1, 2, 2})};
  expect_named(row_status(scatter, {{1, 2, 3, 4}, {5, 6}, {2}}), "element 0 is 2, expected 0 to 1");
}

}  // namespace
}  // namespace mezzo::kernels
