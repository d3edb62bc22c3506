// Cases of ScaledDotProductAttention, for tests of the CPU's rows and of a device's.
#pragma once

#include <vector>

#include "tests/kernels/kernel_harness.h"

namespace mezzo::kernels {

// The case of the gradient that follows a forward case, with what its first row gives.
inline KernelCase attention_gradient_case(Engine& engine, KernelCase test) {
  KernelRequest& request = test.request;
  const std::vector<Numbers> results = run_row(request, test.operands);
  if (request.inputs.size() < 4) {
    request.inputs.emplace_back();
    test.operands.emplace_back();
  }
  const TensorDesc y = request.outputs[0], lse = request.outputs[1];
  request.op = "ScaledDotProductAttentionGrad";
  request.inputs.insert(request.inputs.begin(), y);
  test.operands.insert(test.operands.begin(), draw_numbers(engine, y, 1.0));
  request.inputs.insert(request.inputs.end(), {y, lse});
  test.operands.insert(test.operands.end(), results.begin(), results.end());
  request.outputs = {request.inputs[1], request.inputs[2], request.inputs[3]};
  test.depth *= 2;
  test.cancels = 2.0;
  return test;
}

}  // namespace mezzo::kernels
