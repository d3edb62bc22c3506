// A checkpoint with something in every field.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "compiler/artifacts/ort_checkpoint.h"

namespace mezzo::test {

inline CheckpointTensor floats(const std::string& name, const std::vector<std::int64_t>& dims,
                               const std::vector<float>& values) {
  return {name, Tensor::from_floats(dims, values)};
}

inline OrtCheckpoint sample_checkpoint() {
  OrtCheckpoint checkpoint;
  const std::array<std::int64_t, 2> counts = {-1, 1LL << 40};
  checkpoint.trained = {floats("fc.weight", {2, 3}, {1, -2, 3.5F, 0, 1e-40F, 6}),
                        floats("scale", {}, {0.25F})};
  checkpoint.frozen = {floats("bn.running_mean", {2}, {0.5F, 7}),
                       floats("empty", {0, 4}, {}),
                       {"counts", Tensor::from_ints({2}, counts)},
                       {"flag", Tensor::from_bytes(DType::kBool, {1}, {std::byte{1}})}};
  OrtOptimizerGroup group;
  group.step = 1234567890123;
  group.initial_lr = 0.125F;
  group.parameters = {{"fc.weight",
                       {floats("momentum0", {2, 3}, {6, 5, 4, 3, 2, 1}),
                        floats("momentum1", {2, 3}, {1, 2, 3, 4, 5, 6})}},
                      {"scale", {floats("momentum0", {}, {8}), floats("momentum1", {}, {9})}}};
  checkpoint.groups = {group};
  checkpoint.properties = {
      {"epoch", std::int64_t{12}}, {"best", 0.75F}, {"note", std::string("a b")}};
  return checkpoint;
}

}  // namespace mezzo::test
