// Training graphs with what goes wrong in 16 bits unless somebody sees to it.
#pragma once

#include <span>
#include <string>

#include "model_text.h"

namespace mezzo::test {

// Every graph has x [N, 6], t [N, 8] in 0 .. 1, k [N, 1] in 0 .. 7, h = x w [N, 8], and gives loss.
struct Trap {
  std::string title, nodes;
  float x = 1, w = 0.5F;  // magnitudes
  void (*more)(ModelText&) = [](ModelText&) {};
  float scale = 128;  // of the loss, in FP16: less where the true gradients are large
  float fp16 = 0.01F, bf16 = 0.06F;  // how far gradients may be off, relative
};

// The model in text form.
std::string trap_text(const Trap& trap);

std::span<const Trap> loss_traps();        // probabilities, logarithms, exponentials, divergences
std::span<const Trap> arithmetic_traps();  // norms, masks, positions, sums, differences

}  // namespace mezzo::test
