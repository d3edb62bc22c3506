// Values in files of their own: one TensorProto, SequenceProto or OptionalProto each, the form of
// ONNX's test data (input_0.pb, output_0.pb).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/tensor.h"
#include "compiler/ir/type.h"
#include "compiler/support/status.h"

namespace mezzo {

struct StoredValue {
  enum class Kind : std::uint8_t { kNone, kTensor, kSequence };
  Kind kind = Kind::kNone;  // kNone: an optional without element
  TensorRef tensor;
  std::vector<StoredValue> elements;
};

// The file does not say which message it holds: `type` does. InvalidArgument naming the path: no
// such file, no such message, data that do not fit the dims. Unimplemented: maps, sparse tensors.
StatusOr<StoredValue> read_value_file(const std::string& path, const Type& type);

// Writes the message for `type`; tensors embed their data. The file appears when complete.
Status write_value_file(const std::string& path, const StoredValue& value, const Type& type);

}  // namespace mezzo
