#include "compiler/interpreter/value.h"

namespace mezzo {

std::int64_t HostTensor::elems() const {
  std::int64_t elems = 1;
  for (const std::int64_t dim : dims) elems *= dim;
  return elems;
}

RuntimeValue RuntimeValue::sequence(std::vector<RuntimeValue> elements) {
  RuntimeValue value;
  value.kind = Kind::kSequence;
  value.elements = std::move(elements);
  return value;
}

std::string describe(const RuntimeValue& value) {
  switch (value.kind) {
    case RuntimeValue::Kind::kNone: return "nothing";
    case RuntimeValue::Kind::kTensor: return to_string(value.tensor.type());
    case RuntimeValue::Kind::kSequence:
      return "sequence of " + std::to_string(value.elements.size());
  }
  return "?";
}

}  // namespace mezzo
