#include "compiler/ops/merge_types.h"
#include "compiler/support/text.h"

#include <string>

namespace mezzo {
namespace {

bool merge_dim(Dim& known, const Dim& inferred) {
  if (!inferred.known()) {
    if (!known.known() && known.symbol.empty()) known.symbol = inferred.symbol;
    return true;
  }
  if (known.known()) return known.value == inferred.value;
  known.value = inferred.value;
  known.symbol.clear();
  return true;
}

bool merge_tensor(TensorType& known, const TensorType& inferred) {
  if (known.dtype == DType::kNone) known.dtype = inferred.dtype;
  const bool clash = inferred.dtype != DType::kNone && known.dtype != inferred.dtype &&
                     !(is_floating(known.dtype) && is_floating(inferred.dtype));
  if (clash) return false;
  if (!inferred.shape) return true;
  if (!known.shape) {
    known.shape = inferred.shape;
    return true;
  }
  if (known.shape->size() != inferred.shape->size()) return false;
  for (std::size_t i = 0; i < known.shape->size(); ++i) {
    if (!merge_dim((*known.shape)[i], (*inferred.shape)[i])) return false;
  }
  return true;
}

}  // namespace

Status merge_type(Value& value, const Type& inferred) {
  if (inferred.kind == Type::Kind::kUnknown) return ok_status();
  if (value.type.kind == Type::Kind::kUnknown) {
    const std::string denotation = value.type.denotation;
    value.type = inferred;
    value.type.denotation = denotation;
    return ok_status();
  }
  Type merged = value.type;
  bool agree = merged.kind == inferred.kind;
  if (agree && (merged.kind == Type::Kind::kTensor || merged.kind == Type::Kind::kSparseTensor)) {
    agree = merge_tensor(merged.tensor, inferred.tensor);
  } else if (agree && !merged.element) {
    merged.element = inferred.element;
  }
  if (!agree) {
    return invalid_argument("result '" + printable(value.name()) + "': expected " +
                            to_string(inferred) + ", got " + to_string(value.type));
  }
  value.type = std::move(merged);
  return ok_status();
}

}  // namespace mezzo
