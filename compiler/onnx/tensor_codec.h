// TensorProto's typed fields (float_data, int32_data, ...) as bytes in raw_data's form, and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compiler/ir/tensor.h"
#include "compiler/support/status.h"
#include "onnx/onnx_pb.h"

namespace mezzo {

// Elements of a tensor with these dims; 1 for a scalar. InvalidArgument for negative dims, and
// where the product of the dims that are not zero passes 2^63.
StatusOr<std::int64_t> count_elems(std::span<const std::int64_t> dims);

// Bytes of `elems` elements in raw_data's form. InvalidArgument where that passes 2^63.
StatusOr<std::uint64_t> count_bytes(DType dtype, std::int64_t elems);

// Decodes the typed field that belongs to `dtype`. Errors: another typed field is filled, the
// number of entries does not fit `elems`, a value does not fit the dtype. Below 8 bits an
// int32_data entry holds one byte of packed elements (one element for float6).
StatusOr<std::vector<std::byte>> decode_typed(const onnx::TensorProto& proto, DType dtype,
                                              std::int64_t elems);

// Fills the typed field that belongs to `dtype`. REQUIRES: `bytes` fits; dtype is known and no
// string.
void encode_typed(std::span<const std::byte> bytes, DType dtype, std::int64_t elems,
                  onnx::TensorProto& proto);

// True if a typed field has an entry.
bool has_typed_data(const onnx::TensorProto& proto);

}  // namespace mezzo
