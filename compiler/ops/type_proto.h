// Private to compiler/ops: between Type, Attribute, Tensor and ONNX's messages, as far as the
// library's inference functions read them. Files are read and written by compiler/onnx, not here.
#pragma once

#include "compiler/ir/attribute.h"
#include "compiler/ir/type.h"
#include "onnx/onnx_pb.h"

namespace mezzo {

// False if there is nothing to say (kUnknown and kOpaque).
bool to_proto(const Type& type, onnx::TypeProto& proto);
Type from_proto(const onnx::TypeProto& proto);

// Element type and dims always, data where it is at most `kMostInferenceBytes` long: inference
// reads the values of shapes, axes and the like, never of weights.
inline constexpr std::size_t kMostInferenceBytes = std::size_t{1} << 16;
void to_proto(const Tensor& tensor, onnx::TensorProto& proto);
bool small_enough_for_inference(const Tensor& tensor);

// Of subgraphs only inputs and outputs: inference of what is inside goes through GraphInferencer.
void to_proto(const Attribute& attribute, onnx::AttributeProto& proto);

}  // namespace mezzo
