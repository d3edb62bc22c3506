// Resampling, regions of interest and signals. Coordinates and frequencies lose their meaning
// in 16 bits; interpolated values do not.
#include "compiler/ops/families.h"
#include "compiler/ops/image_rules.h"
#include "compiler/ops/layer_gradients.h"
#include "compiler/ops/signal_rules.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

constexpr OpDef kImageOps[] = {
    {.name = "Resize",
     .precision = kInfer,
     .fp32_operands = bits(1, 2),
     .no_gradient_operands = bits(1, 2, 3),
     .padding = kUnpadded,
     .gradient = grad_resize,
     .lower = lower_resize},
    {.name = "Upsample",
     .precision = kInfer,
     .fp32_operands = bits(1),
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_resize,
     .lower = lower_upsample},
    {.name = "GridSample",
     .precision = kInfer,
     .fp32_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_grid_sample},
    {.name = "AffineGrid",
     .precision = kDeny,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_affine_grid,
     .lower = lower_affine_grid},
    {.name = "RoiAlign",
     .precision = kInfer,
     .fp32_operands = bits(1),
     .no_gradient_operands = bits(1, 2),
     .padding = kUnpadded,
     .gradient = grad_roi},
    {.name = "MaxRoiPool",
     .precision = kInfer,
     .fp32_operands = bits(1),
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_roi},
    {.name = "ImageDecoder",
     .precision = kClear,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatOperand,
     .no_kernel = kNoKernelYet},
    {.name = "DFT",
     .precision = kDeny,
     .no_gradient_operands = bits(1, 2),
     .padding = kUnpadded,
     .gradient = grad_dft,
     .lower = lower_dft},
    {.name = "STFT",
     .precision = kDeny,
     .no_gradient_operands = bits(1, 3),
     .padding = kUnpadded,
     .gradient = grad_stft,
     .lower = lower_stft},
};

}  // namespace

std::span<const OpDef> image_ops() { return kImageOps; }

}  // namespace mezzo
