// What the compiler takes for granted of the CUDA rows: where it lets tensors lie channels last
// (passes/layout/step_layouts.h), a row takes them so, in every floating type.
#include <gtest/gtest.h>

#include <vector>

#include "tests/kernels/kernel_harness.h"
#include "tests/kernels/layout_case.h"

namespace mezzo::kernels {
namespace {

// A row that refuses the request is a failure: see note_refused().
std::vector<Numbers> run(const KernelRequest& request, const std::vector<Numbers>& operands) {
  std::vector<Numbers> in_memory = operands;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::vector<std::size_t> places = places_in_memory(request.inputs[i]);
    for (std::size_t k = 0; k < places.size(); ++k) in_memory[i][places[k]] = operands[i][k];
  }
  std::vector<Numbers> results = run_row(request, in_memory);
  for (std::size_t o = 0; o < results.size(); ++o) {
    Numbers in_order;
    for (const std::size_t place : places_in_memory(request.outputs[o]))
      in_order.push_back(results[o][place]);
    results[o] = std::move(in_order);
  }
  return results;
}

TEST(CudaLayouts, ChannelsLastGivesTheSameNumbers) {
  check_layouts(DType::kFloat32, 1e-5, run);
  check_layouts(DType::kFloat16, 0x1p-10, run);
  check_layouts(DType::kBFloat16, 0x1p-7, run);
}

}  // namespace
}  // namespace mezzo::kernels
