// What reference_gradient_test.cpp checks: forward ops with their gradient kernels.
#pragma once

#include <string>
#include <vector>

#include "tests/kernels/reference_harness.h"

namespace mezzo::kernels::test {

// Operands of the gradient: dy (the upstream gradient), xN and yN (operand and result N of the
// forward op), - (absent). Results: xN is the gradient of operand N, - is not asked for.
struct Gradient {
  std::string op;
  std::string operands;
  std::string results;
  std::vector<AttributeValue> attributes = {};  // added to or replacing those of the forward op
};

struct GradientCase {
  std::string title;
  std::string op;
  std::vector<AttributeValue> attributes;
  std::vector<Tensor> operands;
  std::vector<Dims> results;  // dims of the double results; result 0 is differentiated
  std::vector<Gradient> gradients;
  std::vector<DType> result_dtypes = {};  // where they are not double
};

// Seeded numbers of magnitude 0.3 to 2, away from 0 and, by steps of 1/64 plus an offset that no
// kink has, away from the kinks of the elementwise functions and from each other's ties.
Tensor random_tensor(const Dims& dims, bool positive = false);

std::vector<GradientCase> gradient_cases();
void add_layer_cases(std::vector<GradientCase>& cases);  // layers, images, regions, signals

}  // namespace mezzo::kernels::test
