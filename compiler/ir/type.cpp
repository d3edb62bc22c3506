#include "compiler/ir/type.h"

#include <algorithm>
#include <limits>

#include "compiler/support/text.h"

namespace mezzo {

bool TensorType::has_static_shape() const {
  return shape && std::all_of(shape->begin(), shape->end(), [](const Dim& d) { return d.known(); });
}

std::vector<std::int64_t> TensorType::dims() const {
  std::vector<std::int64_t> dims;
  dims.reserve(shape->size());
  for (const Dim& dim : *shape) dims.push_back(dim.value);
  return dims;
}

// A shape in a file may have any dims, as no data need to be there: counts end at the largest.
std::int64_t TensorType::elems() const {
  std::int64_t elems = 1;
  bool overflow = false;
  for (const Dim& dim : *shape) {
    if (dim.value == 0) return 0;
    overflow = overflow || __builtin_mul_overflow(elems, dim.value, &elems);
  }
  return overflow ? std::numeric_limits<std::int64_t>::max() : elems;
}

bool Type::operator==(const Type& other) const {
  if (kind != other.kind || !(tensor == other.tensor) || key != other.key ||
      opaque_domain != other.opaque_domain || opaque_name != other.opaque_name ||
      denotation != other.denotation) {
    return false;
  }
  if (element == other.element) return true;
  return element && other.element && *element == *other.element;
}

std::string to_string(const TensorType& type) {
  std::string text(dtype_name(type.dtype));
  if (!type.shape) return text;
  text += '[';
  for (std::size_t i = 0; i < type.shape->size(); ++i) {
    const Dim& dim = (*type.shape)[i];
    if (i > 0) text += ',';
    if (dim.known()) {
      text += std::to_string(dim.value);
    } else {
      text += dim.symbol.empty() ? "?" : printable(dim.symbol);
    }
  }
  return text + ']';
}

std::string to_string(const Type& type) {
  const auto element = [&] { return type.element ? to_string(*type.element) : std::string("?"); };
  switch (type.kind) {
    case Type::Kind::kUnknown: return "?";
    case Type::Kind::kTensor: return to_string(type.tensor);
    case Type::Kind::kSparseTensor: return "sparse_tensor(" + to_string(type.tensor) + ")";
    case Type::Kind::kSequence: return "seq(" + element() + ")";
    case Type::Kind::kOptional: return "optional(" + element() + ")";
    case Type::Kind::kMap:
      return "map(" + std::string(dtype_name(type.key)) + ", " + element() + ")";
    case Type::Kind::kOpaque: return "opaque(" + type.opaque_domain + ", " + type.opaque_name + ")";
  }
  return "?";
}

}  // namespace mezzo
