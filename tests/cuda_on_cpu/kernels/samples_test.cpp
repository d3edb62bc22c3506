// Every sample of the op catalogue whose operator has a CUDA row, in each floating type: operators
// that the tests written for the CPU's rows have no case of are covered here.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compiler/ops/op_def.h"
#include "kernels/cuda/rows.h"
#include "tests/kernels/kernel_harness.h"
#include "tests/ops/samples.h"

namespace mezzo::kernels {
namespace {

// Generous, as it must serve every operator; the tests of the families are sharp.
constexpr std::int64_t kDepth = 128;
constexpr double kCancels = 4.0;

Numbers numbers_of(const Value& operand, const test::Environment& inputs) {
  const auto input = inputs.find(&operand);
  if (input != inputs.end()) return input->second.to_doubles();
  return operand.constant() ? operand.constant()->to_doubles() : Numbers();
}

// With floating operands and results of this type, but for those of the bits, which are float32.
KernelRequest in_type(KernelRequest request, DType dtype, std::uint32_t fp32_operands,
                      std::uint32_t fp32_results) {
  const auto set = [dtype](std::vector<TensorDesc>& descs, std::uint32_t fp32) {
    for (std::size_t i = 0; i < descs.size(); ++i) {
      if (!is_floating(descs[i].dtype)) continue;
      descs[i].dtype = i < 32 && (fp32 >> i & 1U) != 0 ? DType::kFloat32 : dtype;
    }
  };
  set(request.inputs, fp32_operands);
  set(request.outputs, fp32_results);
  return request;
}

KernelRequest with_double_results(KernelRequest request) {
  for (TensorDesc& desc : request.outputs) {
    if (is_floating(desc.dtype)) desc.dtype = DType::kFloat64;
  }
  return request;
}

void check_sample(const test::OpSample& sample) {
  auto built = test::build_sample(sample, 1);
  ASSERT_TRUE(built.ok()) << built.status().message();
  const auto lowered = lower(*built->node);
  ASSERT_TRUE(lowered.ok()) << lowered.status().message();
  if (lowered->alias || cuda::rows(lowered->kernel).empty()) return;
  const auto request = test::request_for(*built->node);
  ASSERT_TRUE(request.ok()) << request.status().message();
  KernelCase test;
  test.depth = kDepth;
  test.cancels = kCancels;
  for (const Value* const operand : lowered->operands) {
    test.operands.push_back(operand == nullptr ? Numbers() : numbers_of(*operand, built->inputs));
  }
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    const OpDef* const op = find_op(*built->node);
    ASSERT_NE(op, nullptr);
    test.request = in_type(*request, dtype, op->fp32_operands, op->fp32_results);
    if (!prepare_kernel(test.request, Backend::kReference).ok()) continue;  // not in this type
    // Where results cannot be in double, they are bits that were moved.
    test.exact = !prepare_kernel(with_double_results(test.request), Backend::kReference).ok();
    check_kernel(test);
  }
}

TEST(Samples, EqualTheReference) {
  for (const test::OpSample& sample : test::all_samples()) {
    SCOPED_TRACE(test::to_string(sample));
    check_sample(sample);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace mezzo::kernels
