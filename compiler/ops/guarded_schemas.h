// The ONNX library's schemas with type inference that a file cannot lead astray. Only the rooms
// that speak to the library include this.
//
// The library's inference functions trust what they are given:
// - Several read the type of an operand that the schema demands without asking whether it is known,
//   and end the process where a file gives none. Here such a type is an empty one, which they all
//   refuse with an exception.
// - A vector that says what shape another tensor has is turned into as many dimensions as the
//   vector has elements, and the propagation of shape data does so with every vector: a declared
//   int64[2^31] without any data costs a hundred gigabytes. Here a shape has at most 4096
//   dimensions.
// - An equation of Einsum with signs it does not know is read for ever. Here it is refused.
// - Before opset 22 pools count, in ceil_mode, windows that begin behind the last element; PyTorch
//   and the runtimes leave them out in every opset. Here the newest schema counts.
// - Some forget the default that the schema gives an attribute (STFT's onesided).
#pragma once

#include "onnx/defs/schema.h"

namespace mezzo {

// For onnx::shape_inference::InferShapes, in place of the library's own registry. Schemas are
// guarded where they are, when first asked for.
const onnx::ISchemaRegistry& guarded_schemas();

// Guards every schema of the library, for its parts that take no registry (the version converter).
void guard_all_schemas();

// The schema's inference function on one node. Throws what the library throws.
// REQUIRES: the schema has one.
void run_inference(const onnx::OpSchema& schema, onnx::InferenceContext& context);

}  // namespace mezzo
