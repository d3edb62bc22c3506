// Inputs and outputs of `run` and its kin in files: an npz keyed by the graph's names, or a folder
// of ONNX messages input_K.pb / output_K.pb in the graph's order (the form of ONNX's test data,
// which also holds bfloat16, sequences and optionals).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/interpreter/buffer_pool.h"
#include "compiler/interpreter/value.h"
#include "compiler/ir/type.h"
#include "compiler/support/status.h"
#include "runtime/io/npz.h"

namespace mezzo::cli {

// An input or output of a graph, as the file declares it.
struct GraphPort {
  std::string name;
  Type type;                 // may leave shape or everything open
  bool has_default = false;  // of an input: an initializer stands in where it is not given
};

class InputFiles {
 public:
  // InvalidArgument: `path` is neither.
  static StatusOr<InputFiles> open(const std::string& path);

  // One value per port, in order; kNone for an input that is not given but has a default, and for
  // an empty optional. Tensors have the declared element type (integers are cast to floating
  // types). InvalidArgument, naming file and input: missing, of another type, or of a shape that
  // the declared one does not allow.
  StatusOr<std::vector<RuntimeValue>> read(const std::vector<GraphPort>& ports) const;

 private:
  StatusOr<RuntimeValue> read_array(const GraphPort& port) const;
  StatusOr<RuntimeValue> read_message(const GraphPort& port, std::size_t index) const;

  std::string path_;
  std::optional<runtime::NpzFile> npz_;  // else a folder
  std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>(0);
};

// `path` ending in .npz is an archive, all else a folder, made if need be. InvalidArgument: not
// writable, or a value that npz cannot hold (sequences).
Status write_outputs(const std::string& path, const std::vector<GraphPort>& ports,
                     const std::vector<RuntimeValue>& values);

// InvalidArgument where `dims` are none that `type` allows; `where` starts the message.
Status check_dims(const std::string& where, const Type& type, DType dtype,
                  const std::vector<std::int64_t>& dims);

}  // namespace mezzo::cli
