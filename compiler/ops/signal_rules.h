// Private to compiler/ops: DFT and STFT, whose lengths and axes are operands in ONNX and attributes
// of the kernels.
#pragma once

#include "compiler/ops/op_def.h"

namespace mezzo {

Status lower_dft(const Node& node, LoweredOp& lowered);
Status lower_stft(const Node& node, LoweredOp& lowered);

}  // namespace mezzo
