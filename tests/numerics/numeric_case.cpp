#include "tests/numerics/numeric_case.h"

#include <gtest/gtest.h>

#include <cstring>

#include "compiler/interpreter/buffer_pool.h"
#include "compiler/ir/cast_elems.h"
#include "compiler/onnx/import.h"
#include "passes/numerics/prepare.h"
#include "passes/pass_runner.h"
#include "passes/pipeline.h"
#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

RuntimeValue from_bytes(DType dtype, std::vector<std::int64_t> dims, const void* bytes,
                        std::size_t size) {
  static BufferPool pool(0);
  const std::shared_ptr<std::byte> data = value_or_die(pool.allocate(size));
  if (size > 0) std::memcpy(data.get(), bytes, size);
  return RuntimeValue(HostTensor{dtype, std::move(dims), data});
}

}  // namespace

std::unique_ptr<Model> model_of(const std::string& graph) {
  return value_or_die(
      import_text("<ir_version: 10, opset_import: [\"\" : 17, \"f\" : 1]>\n" + graph));
}

std::unique_ptr<Model> prepared(const std::string& graph) {
  std::unique_ptr<Model> model = model_of(graph);
  EXPECT_THAT(numerics::prepare(*model), IsOk());
  return model;
}

passes::PrecisionPolicy naive_policy(DType low) {
  passes::PrecisionPolicy policy;
  policy.low = low;
  policy.embedding = passes::Pin::kLow;
  policy.normalization = policy.softmax = policy.loss = policy.residual_sum = passes::Pin::kFree;
  policy.allow = policy.infer = policy.clear = policy.deny = passes::CategoryRun::kLow;
  policy.range_check = passes::RangeChecks::kOff;
  return policy;
}

std::unique_ptr<Model> converted(const std::string& graph, const passes::PrecisionPolicy& policy) {
  std::unique_ptr<Model> model = model_of(graph);
  passes::PassContext ctx;
  ctx.policy = policy;
  EXPECT_THAT(passes::run_passes(*model, ctx, passes::convert_pipeline(ctx)), IsOk());
  EXPECT_THAT(numerics::prepare(*model), IsOk());
  return model;
}

RuntimeValue floats(std::vector<std::int64_t> dims, const std::vector<float>& values) {
  return from_bytes(DType::kFloat32, std::move(dims), values.data(), values.size() * sizeof(float));
}

RuntimeValue integers(std::vector<std::int64_t> dims, const std::vector<std::int64_t>& values) {
  return from_bytes(DType::kInt64, std::move(dims), values.data(),
                    values.size() * sizeof(std::int64_t));
}

RuntimeValue truths(std::vector<std::int64_t> dims, const std::vector<std::uint8_t>& values) {
  return from_bytes(DType::kBool, std::move(dims), values.data(), values.size());
}

RuntimeValue tensor_as(DType dtype, std::vector<std::int64_t> dims,
                       const std::vector<double>& values) {
  std::vector<double> copy = values;
  if (dtype == DType::kFloat64)
    return from_bytes(dtype, std::move(dims), copy.data(), copy.size() * sizeof(double));
  const std::vector<float> narrow(values.begin(), values.end());
  std::vector<std::byte> bytes(dtype_bytes(dtype, static_cast<std::int64_t>(values.size())));
  cast_elems(DType::kFloat32, dtype, Overflow::kInfinity,
             reinterpret_cast<const std::byte*>(narrow.data()), bytes.data(), values.size());
  return from_bytes(dtype, std::move(dims), bytes.data(), bytes.size());
}

std::vector<RuntimeValue> observe(const Model& model, std::vector<RuntimeValue> inputs,
                                  NodeObserver observer) {
  InterpreterOptions options;
  options.observer = std::move(observer);
  Interpreter interpreter(model, options);
  return value_or_die(interpreter.run(std::move(inputs)));
}

Records calibrated(const std::string& graph, const std::vector<std::vector<RuntimeValue>>& samples,
                   const passes::PrecisionPolicy& policy) {
  numerics::CalibrateOptions options;
  options.low = policy.low;
  passes::PassContext ctx;
  ctx.policy = policy;
  ctx.calibration = std::make_shared<const passes::Calibration>(value_or_die(numerics::calibrate(
      *prepared(graph), samples.size(),
      [&](std::uint64_t i) -> StatusOr<std::vector<RuntimeValue>> { return samples[i]; },
      options)));
  const std::unique_ptr<Model> model = model_of(graph);
  EXPECT_THAT(passes::run_passes(*model, ctx, passes::convert_pipeline(ctx)), IsOk());
  return std::move(ctx.records);
}

const NodeDecision& decision_of(const Records& records, const std::string& node) {
  for (const NodeDecision& decision : records.nodes) {
    if (decision.node == node) return decision;
  }
  ADD_FAILURE() << "no record of " << node;
  static const NodeDecision none;
  return none;
}

}  // namespace mezzo::test
