// Malformed and hostile requests: clear errors, and never a read or write out of bounds.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>

#include "tests/kernels/reference_harness.h"
#include "tests/support/status_test.h"

namespace mezzo::kernels::test {
namespace {

using mezzo::test::FailsWith;
using mezzo::test::IsOk;
using mezzo::test::Rejects;
using testing::HasSubstr;

TensorDesc desc(Dims dims, DType dtype = DType::kFloat32, Layout layout = Layout::kRowMajor) {
  return {dtype, std::move(dims), layout};
}

StatusOr<std::unique_ptr<Kernel>> ask(const std::string& op, std::vector<TensorDesc> inputs,
                                      std::vector<TensorDesc> outputs,
                                      const std::vector<AttributeValue>& values = {}) {
  return prepare({op, attributes(values), std::move(inputs), std::move(outputs), 1});
}

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
const TensorDesc kLabels = desc({2}, DType::kInt64);

TEST(ReferenceRequests, NameTheOperandThatIsWrong) {
  EXPECT_THAT(ask("Conv", {desc({1, 2, 4, 4}), desc({3, 2})}, {desc({1, 3, 2, 2})}),
              Rejects("Conv: expected weights of rank 4, got [3,2]"));
  EXPECT_THAT(ask("Relu", {desc({2})}, {desc({3})}),
              Rejects("Relu, result 0 'y': expected dims [2], got [3]"));
  EXPECT_THAT(ask("Add", {desc({2}), desc({3})}, {desc({3})}),
              Rejects("Add, operand 1 'b': dims [3] do not broadcast with [2] of operand 0"));
  EXPECT_THAT(ask("MatMul", {desc({2, 3}), desc({4, 2})}, {desc({2, 2})}),
              Rejects("MatMul, operand 1 'b': inner sizes of [2,3] and [4,2] differ"));
  EXPECT_THAT(ask("LayerNormalization", {desc({2, 4}), desc({2})}, {desc({2, 4})}),
              Rejects("LayerNormalization, operand 1 'scale': dims [2] do not broadcast to [4]"));
  EXPECT_THAT(ask("Conv", {desc({1, 2, 4, 4})}, {desc({1, 3, 2, 2})}),
              Rejects("Conv, operand 1 'w' is missing"));
  EXPECT_THAT(ask("Relu", {desc({2}), desc({2})}, {desc({2})}),
              Rejects("Relu: expected at most 1 operands, got 2"));
}

TEST(ReferenceRequests, MustHaveFittingDtypes) {
  EXPECT_THAT(ask("Conv", {desc({1, 1, 4}, DType::kInt32), desc({1, 1, 1})}, {desc({1, 1, 4})}),
              FailsWith(StatusCode::kUnimplemented, HasSubstr("operand 0 'x': expected float")));
  EXPECT_THAT(ask("Add", {desc({2}), desc({2}, DType::kInt64)}, {desc({2})}),
              Rejects("int64 does not go with float"));
  EXPECT_THAT(ask("Add", {desc({2}), desc({2})}, {desc({2}, DType::kInt32)}),
              Rejects("int32 does not go with float"));
  EXPECT_THAT(ask("Transpose", {desc({2, 3})}, {desc({3, 2}, DType::kFloat16)}),
              Rejects("expected dtype float, got float16"));
  EXPECT_THAT(ask("Relu", {desc({2}, DType::kString)}, {desc({2})}), Rejects("no elements"));
}

TEST(ReferenceRequests, MustHaveSensibleSizes) {
  EXPECT_THAT(ask("Relu", {desc({-1})}, {desc({-1})}), Rejects("negative dim in [-1]"));
  const Dims wraps = {std::int64_t{1} << 32, std::int64_t{1} << 32};
  EXPECT_THAT(ask("Relu", {desc(wraps)}, {desc(wraps)}), Rejects("more elements than fit"));
  const Dims hidden = {0, kMax, kMax};  // no elements, but strides would overflow
  EXPECT_THAT(ask("Relu", {desc(hidden)}, {desc(hidden)}), Rejects("more elements than fit"));
  EXPECT_THAT(ask("Relu", {desc(Dims(40, 1))}, {desc(Dims(40, 1))}),
              FailsWith(StatusCode::kUnimplemented, HasSubstr("rank 40")));
  const TensorDesc flat = desc({2, 2}, DType::kFloat32, Layout::kChannelsLast);
  EXPECT_THAT(ask("Relu", {flat}, {flat}), Rejects("channels-last needs rank 3"));
}

TEST(ReferenceRequests, MustHaveSensibleAttributes) {
  const std::vector<TensorDesc> image = {desc({1, 1, 4, 4})};
  const std::vector<TensorDesc> pooled = {desc({1, 1, 2, 2})};
  const AttributeValue kernel = {"kernel_shape", Ints{2, 2}};
  const AttributeValue stride = {"strides", Ints{2, 2}};
  EXPECT_THAT(ask("MaxPool", image, pooled, {kernel, stride}), IsOk());
  EXPECT_THAT(ask("MaxPool", image, pooled, {stride}), Rejects("'kernel_shape'"));
  EXPECT_THAT(ask("MaxPool", image, pooled, {kernel, {"strides", Ints{0, 2}}}),
              Rejects("attribute 'strides': [0,2] holds a value outside 1"));
  EXPECT_THAT(ask("MaxPool", image, pooled, {kernel, {"pads", Ints{0, -1, 0, 0}}}),
              Rejects("'pads'"));
  EXPECT_THAT(ask("MaxPool", image, pooled, {kernel, {"dilations", Ints{kMax, 1}}}),
              Rejects("'dilations'"));
  EXPECT_THAT(ask("MaxPool", image, pooled, {{"kernel_shape", Ints{2}}}), Rejects("2 values"));
  EXPECT_THAT(ask("MaxPool", image, pooled, {{"kernel_shape", Ints{9, 9}}}),
              Rejects("a window of 9 does not fit into 4"));
  EXPECT_THAT(ask("MaxPool", image, pooled, {{"kernel_shape", 2}}),
              Rejects("MaxPool, attribute 'kernel_shape': expected a list of integers"));
  EXPECT_THAT(ask("MaxPool", image, pooled, {kernel, {"auto_pad", "SAME_UPPER"}}),
              FailsWith(StatusCode::kUnimplemented, HasSubstr("auto_pad 'SAME_UPPER'")));
  EXPECT_THAT(ask("Softmax", {desc({2, 2})}, {desc({2, 2})}, {{"axis", 2}}),
              Rejects("attribute 'axis' is 2, expected -2 to 1"));
  EXPECT_THAT(ask("Transpose", {desc({2, 2})}, {desc({2, 2})}, {{"perm", Ints{0, 0}}}),
              Rejects("names axis 0 twice"));
  EXPECT_THAT(ask("Transpose", {desc({2, 2})}, {desc({2, 2})}, {{"perm", Ints{0}}}),
              Rejects("expected 2 axes"));
  EXPECT_THAT(ask("Gelu", {desc({2})}, {desc({2})}, {{"approximate", "fast"}}),
              Rejects("'fast', expected 'none' or 'tanh'"));
  EXPECT_THAT(ask("Slice", {desc({4})}, {desc({4})},
                  {{"starts", Ints{0}}, {"ends", Ints{4}}, {"steps", Ints{0}}}),
              Rejects("'steps' holds 0"));
  EXPECT_THAT(ask("Pad", {desc({4})}, {desc({3})}, {{"pads", Ints{kMin, 0}}}), Rejects("'pads'"));
  EXPECT_THAT(ask("Pad", {desc({4})}, {desc({3, 1})}, {{"pads", Ints{0, -1}}}),
              Rejects("expected dims [3], got [3,1]"));
  EXPECT_THAT(ask("Dropout", {desc({4}), desc({}, DType::kInt64)}, {desc({4})}, {{"ratio", 1.5}}),
              Rejects("'ratio'"));
  EXPECT_THAT(ask("Conv", {desc({1, 3, 4}), desc({4, 1, 1})}, {desc({1, 4, 4})}, {{"group", 2}}),
              Rejects("attribute 'group' is 2, expected a divisor"));
  EXPECT_THAT(
      ask("SoftmaxCrossEntropyLoss", {desc({2, 3}), kLabels}, {desc({})}, {{"reduction", "avg"}}),
      Rejects("'avg'"));
  EXPECT_THAT(
      ask("SoftmaxCrossEntropyLoss", {desc({2, 3}), kLabels}, {desc({})}, {{"reduction", "none"}}),
      Rejects("result 0 'loss'"));
}

TEST(ReferenceRequests, MustHaveFittingParts) {
  EXPECT_THAT(ask("Concat", {desc({2, 2}), desc({2, 3})}, {desc({2, 4})}, {{"axis", 1}}),
              Rejects("more than the 4"));
  EXPECT_THAT(ask("Concat", {desc({2, 2})}, {desc({2, 4})}, {{"axis", 1}}), Rejects("2 of the 4"));
  EXPECT_THAT(ask("Concat", {desc({2, 2}), desc({3, 2})}, {desc({2, 4})}, {{"axis", 1}}),
              Rejects("operand 1"));
  EXPECT_THAT(ask("Concat", {}, {desc({2, 4})}), Rejects("operand 0 'x' is missing"));
  EXPECT_THAT(ask("Split", {desc({4})}, {desc({2}), desc({3})}), Rejects("more than the 4"));
  EXPECT_THAT(ask("Reshape", {desc({4})}, {desc({5})}), Rejects("expected 4 elements"));
  EXPECT_THAT(ask("SumTo", {desc({4, 3})}, {desc({2})}), Rejects("do not broadcast to [4,3]"));
  EXPECT_THAT(ask("BatchNormalization", {desc({0, 2}), desc({2}), desc({2}), desc({2}), desc({2})},
                  {desc({0, 2})}, {{"training_mode", 1}}),
              Rejects("no elements to take statistics over"));
}

TEST(ReferenceData, IsCheckedWhenItRuns) {
  const TensorDesc scalar = desc({}, DType::kFloat64);
  const Tensor scores = f64({2, 3}, {1, 2, 3, 4, 5, 6});
  for (const double label : {3.0, -1.0}) {
    EXPECT_THAT(run("SoftmaxCrossEntropyLoss", {}, {scores, i64({2}, {0, label})}, {scalar}),
                Rejects("label " + std::to_string(static_cast<int>(label)) +
                        " at position 1, expected 0 to 2"));
    EXPECT_THAT(run("SoftmaxCrossEntropyLossGrad", {}, {f64({}, {1}), scores, i64({2}, {0, label})},
                    {scores.desc()}),
                Rejects("at position 1"));
  }
  EXPECT_THAT(run("SoftmaxCrossEntropyLoss", attributes({{"ignore_index", -1}}),
                  {scores, i64({2}, {0, -1})}, {scalar}),
              IsOk());
  const Tensor table = f64({3}, {1, 2, 3});
  for (const double index : {3.0, -4.0}) {
    EXPECT_THAT(run("Gather", {}, {table, i64({1}, {index})}, {desc({1}, DType::kFloat64)}),
                Rejects("operand 1 'indices': element 0 is"));
    EXPECT_THAT(run("GatherGrad", {}, {f64({1}, {1}), i64({1}, {index})}, {table.desc()}),
                Rejects("expected -3 to 2"));
  }
  EXPECT_THAT(run("MaxPoolGrad", {}, {f64({1, 1, 1}, {1}), i64({1, 1, 1}, {4})},
                  {desc({1, 1, 4}, DType::kFloat64)}),
              Rejects("expected 0 to 3"));
  const TensorDesc whole = desc({2}, DType::kInt64);
  for (const std::string op : {"Div", "Mod"}) {
    EXPECT_THAT(run(op, {}, {i64({2}, {4, 5}), i64({2}, {2, 0})}, {whole}),
                Rejects("division of integers by zero"));
  }
  EXPECT_THAT(run("Range", {}, {i64({}, {0}), i64({}, {4}), i64({}, {1})}, {whole}),
              Rejects("another number of elements"));
  EXPECT_THAT(run("Range", {}, {i64({}, {0}), i64({}, {4}), i64({}, {0})}, {whole}),
              Rejects("'delta'"));
  EXPECT_THAT(run("ConstantOfShape", {}, {i64({1}, {3})}, {whole}),
              Rejects("expected [2], got [3]"));
}

// 64-bit integers keep all digits, and the ends of the range do not trap.
TEST(ReferenceData, KeepsLargeIntegers) {
  Tensor a = i64({3}, {}), b = i64({3}, {});
  const std::int64_t left[] = {kMax, kMin, kMax}, right[] = {1, -1, 2};
  for (int i = 0; i < 3; ++i) {
    a.set_integer(i, left[i]);
    b.set_integer(i, right[i]);
  }
  const auto check = [&](const std::string& op, std::int64_t x, std::int64_t y, std::int64_t z) {
    const auto got = run(op, {}, {a, b}, {a.desc()});
    ASSERT_THAT(got, IsOk());
    EXPECT_EQ((*got)[0].integer_at(0), x) << op;
    EXPECT_EQ((*got)[0].integer_at(1), y) << op;
    EXPECT_EQ((*got)[0].integer_at(2), z) << op;
  };
  check("Add", kMin, kMax, kMin + 1);
  check("Sub", kMax - 1, kMin + 1, kMax - 2);
  check("Mul", kMax, kMin, -2);
  check("Div", kMax, kMin, kMax / 2);
  check("Mod", 0, 0, 1);
  check("Max", kMax, -1, kMax);
}

TEST(ReferenceData, KeepsDigitsInTheTailOfGelu) {
  const auto got = run("Gelu", {}, {f64({1}, {-12.0})}, {desc({1}, DType::kFloat64)});
  ASSERT_THAT(got, IsOk());
  EXPECT_NEAR((*got)[0].at(0) / -2.13177853e-32, 1.0, 1e-8);  // -12 times the normal tail at 12
}

// A window of padding alone has no element; one of -infinity has a first one.
TEST(ReferenceData, MayHoldWindowsWithoutElements) {
  const Attributes window =
      attributes({{"kernel_shape", Ints{2}}, {"dilations", Ints{3}}, {"pads", Ints{2, 2}}});
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor x = f64({1, 1, 1}, {5});
  const TensorDesc two = desc({1, 1, 2}, DType::kFloat64);
  const auto pooled = run("MaxPool", window, {x}, {two, desc({1, 1, 2}, DType::kInt64)});
  ASSERT_THAT(pooled, IsOk());
  EXPECT_EQ((*pooled)[0].values(), (std::vector<double>{-infinity, -infinity}));
  EXPECT_EQ((*pooled)[1].values(), (std::vector<double>{-1, -1}));
  const auto dx = run("MaxPoolGrad", {}, {f64({1, 1, 2}, {1, 2}), (*pooled)[1]}, {x.desc()});
  ASSERT_THAT(dx, IsOk());
  EXPECT_EQ((*dx)[0].at(0), 0.0);
  const auto mean = run("AveragePool", window, {x}, {two});
  ASSERT_THAT(mean, IsOk());
  EXPECT_EQ((*mean)[0].values(), (std::vector<double>{0, 0}));

  const auto lowest =
      run("MaxPool", attributes({{"kernel_shape", Ints{2}}}),
          {f64({1, 1, 2}, {-infinity, -infinity})}, {x.desc(), desc({1, 1, 1}, DType::kInt64)});
  ASSERT_THAT(lowest, IsOk());
  EXPECT_EQ((*lowest)[1].integer_at(0), 0);
}

// Random changes to the known cases: whatever prepares must run without touching what lies outside
// its buffers. The bands of Tensor show writes, AddressSanitizer shows reads too.
class Mutator {
 public:
  explicit Mutator(unsigned seed) : engine_(seed) {}

  KernelRequest mutate(const Case& c) {
    KernelRequest request = make_request(c.op, c.attributes, c.inputs, c.result_descs());
    for (int changes = pick(3); changes >= 0; --changes) {
      std::vector<TensorDesc>& side = pick(2) == 0 ? request.inputs : request.outputs;
      switch (pick(4)) {
        case 0: change_attribute(request.attributes); break;
        case 1:
          if (!side.empty()) side.pop_back();
          break;
        default:
          if (!side.empty()) change(side[static_cast<std::size_t>(pick(side.size()))]);
      }
    }
    return request;
  }

  int pick(std::size_t below) { return static_cast<int>(engine_() % below); }

 private:
  void change(TensorDesc& desc) {
    static constexpr std::int64_t kDims[] = {0, 1, 2, 3, 5, 7};
    static constexpr DType kDTypes[] = {DType::kFloat64, DType::kFloat16,   DType::kInt64,
                                        DType::kInt8,    DType::kBool,      DType::kNone,
                                        DType::kInt4,    DType::kFloat8E5M2};
    switch (pick(6)) {
      case 0: desc.dtype = kDTypes[pick(std::size(kDTypes))]; break;
      case 1: desc.dims.push_back(kDims[pick(std::size(kDims))]); break;
      case 2:
        if (!desc.dims.empty()) desc.dims.pop_back();
        break;
      case 3: desc.layout = Layout::kChannelsLast; break;
      default:
        if (!desc.dims.empty()) {
          desc.dims[static_cast<std::size_t>(pick(desc.dims.size()))] =
              kDims[pick(std::size(kDims))];
        }
    }
  }

  void change_attribute(Attributes& attributes) {
    static constexpr std::int64_t kValues[] = {0, 1, 2, 3, -1, -2, kMax, kMin, 1 << 30};
    if (attributes.values().empty()) return;
    auto at = attributes.values().begin();
    std::advance(at, pick(attributes.values().size()));
    const std::string name = at->first;
    Attributes::Value value = at->second;
    const std::int64_t chosen = kValues[pick(std::size(kValues))];
    if (auto* integers = std::get_if<Ints>(&value)) {
      if (integers->empty() || pick(4) == 0) {
        integers->push_back(chosen);
      } else {
        (*integers)[static_cast<std::size_t>(pick(integers->size()))] = chosen;
      }
    } else if (std::holds_alternative<std::int64_t>(value)) {
      value = chosen;
    } else if (std::holds_alternative<double>(value)) {
      value = static_cast<double>(chosen);
    } else if (auto* reals = std::get_if<std::vector<double>>(&value); reals && !reals->empty()) {
      static constexpr double kReals[] = {0.0,   -1.0, 0.3,
                                          1e-30, 1e30, std::numeric_limits<double>::quiet_NaN()};
      (*reals)[static_cast<std::size_t>(pick(reals->size()))] = kReals[pick(std::size(kReals))];
    }
    attributes.set(name, value);
  }

  std::mt19937 engine_;
};

// What prepares is run on small whole numbers.
void run_hostile(Mutator& mutator, const std::string& title, const KernelRequest& request,
                 Kernel& kernel) {
  std::vector<Tensor> inputs, results;
  for (const TensorDesc& desc : request.inputs) {
    inputs.emplace_back(desc);
    if (desc.dtype != DType::kInt64 && desc.dtype != DType::kInt32) continue;
    for (std::int64_t i = 0; i < inputs.back().elems(); ++i) {
      inputs.back().set_integer(i, mutator.pick(7) - 2);
    }
  }
  for (const TensorDesc& desc : request.outputs) results.emplace_back(desc);
  const Status status = run_prepared(kernel, inputs, results);
  EXPECT_NE(status.code(), StatusCode::kInternal) << title << ": " << status.message();
}

class HostileRequests : public testing::TestWithParam<Backend> {};

TEST_P(HostileRequests, NeverLeaveTheirBuffers) {
  Mutator mutator(3);
  int prepared = 0;
  int refused = 0;
  for (int round = 0; round < 60; ++round) {
    for (const Case& c : all_cases()) {
      const KernelRequest request = mutator.mutate(c);
      const auto kernel = prepare_kernel(request, GetParam());
      if (!kernel.ok()) {
        EXPECT_NE(kernel.status().code(), StatusCode::kInternal) << kernel.status().message();
        ++refused;
        continue;
      }
      ++prepared;
      run_hostile(mutator, c.title, request, **kernel);
    }
  }
  // Both ways were tried often.
  EXPECT_GT(prepared, 2000);
  EXPECT_GT(refused, 2000);
}

INSTANTIATE_TEST_SUITE_P(Backends, HostileRequests,
                         testing::Values(Backend::kReference, Backend::kCpu), [](const auto& info) {
                           return info.param == Backend::kCpu ? "Cpu" : "Reference";
                         });

TEST(KernelTable, SaysWhatIsMissing) {
  EXPECT_THAT(ask("Foo", {}, {}),
              FailsWith(StatusCode::kUnimplemented, HasSubstr("no kernel for operator 'Foo'")));
  EXPECT_THAT(ask("Relu", {desc({2}, DType::kBool)}, {desc({2}, DType::kBool)}),
              FailsWith(StatusCode::kUnimplemented, HasSubstr("reference: Relu, operand 0")));
}

TEST(KernelTable, PutsTheReferenceLast) {
  for (const std::string& op : listed_ops()) {
    const auto rows = kernel_rows(op, Backend::kCpu);
    ASSERT_FALSE(rows.empty()) << op;
    EXPECT_EQ(rows.back()->implementation, "reference") << op;
    EXPECT_EQ(kernel_rows(op, Backend::kReference).size(), 1U) << op;
  }
}

TEST(KernelTable, KnowsWhatRunsInPlace) {
  EXPECT_TRUE(may_run_in_place("Add", 0, 0));
  EXPECT_TRUE(may_run_in_place("Add", 1, 0));
  EXPECT_TRUE(may_run_in_place("ReluGrad", 0, 0));
  EXPECT_FALSE(may_run_in_place("ReluGrad", 1, 0));
  EXPECT_FALSE(may_run_in_place("Add", 0, 1));
  EXPECT_FALSE(may_run_in_place("MatMul", 0, 0));
  EXPECT_FALSE(may_run_in_place("Foo", 0, 0));
}

TEST(KernelAttributes, FallBack) {
  const Attributes a = attributes({{"i", 3}, {"f", 0.5}, {"s", "text"}, {"list", Ints{1, 2}}});
  EXPECT_EQ(a.get_int("i", 7), 3);
  EXPECT_EQ(a.get_int("none", 7), 7);
  EXPECT_EQ(a.get_float("f", 7), 0.5);
  EXPECT_EQ(a.get_float("i", 7), 3.0);
  EXPECT_EQ(a.get_string("s", ""), "text");
  EXPECT_EQ(a.get_ints("list"), (Ints{1, 2}));
  EXPECT_EQ(a.get_ints("none", {4}), (Ints{4}));
  EXPECT_TRUE(a.get_floats("list").empty());
}

}  // namespace
}  // namespace mezzo::kernels::test
