// Which dtypes element.h knows, for the host's side.
#pragma once

#include "compiler/support/dtype.h"

namespace mezzo::kernels::cuda {

// True for the dtypes of element.h: all but the narrow, complex and string ones.
inline bool has_elements(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64:
    case DType::kBool: return true;
    default: return false;
  }
}

}  // namespace mezzo::kernels::cuda
