// ONNX -> Model. Everything that ONNX holds is kept, so that exporting gives the same model back;
// weights stay in the mapped file (a model of any size takes memory for its graph alone).
//
// What is not taken over exactly as found, all of it without meaning to a run: the domain "ai.onnx"
// is written "", a dimension of -1 becomes an unknown one, nodes out of order are sorted, fields of
// a later ONNX version are dropped (with a warning). A value that is graph input or initializer and
// graph output as well has one type.
//
// Errors are InvalidArgument and read
//   resnet18.onnx: node 'conv1' (Conv), operand 1 'w': expected ..., got .... Hint: ...
// Files are untrusted: sizes, offsets, names and nesting are checked.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"

namespace onnx {
class ModelProto;
}

namespace mezzo {

struct ImportOptions {
  // Where remarks go that do not stop the import; null: nowhere.
  std::vector<std::string>* warnings = nullptr;
  // Receives the paths of the external data files that the model reads; null: nobody asks.
  std::vector<std::string>* data_files = nullptr;
};

// A binary model file (.onnx), with external data from the file's folder.
StatusOr<std::unique_ptr<Model>> import_model(const std::string& path,
                                              const ImportOptions& options = {});

// A model in ONNX's text syntax (.onnxtxt). `name` is what errors call it.
StatusOr<std::unique_ptr<Model>> import_text(std::string_view text,
                                             const std::string& name = "text",
                                             const ImportOptions& options = {});

// Either of the two, told apart by content.
StatusOr<std::unique_ptr<Model>> load_model(const std::string& path,
                                            const ImportOptions& options = {});

// A message in memory, whose raw_data are copied. `elided`: the tensors that to_proto left out, see
// export.h.
StatusOr<std::unique_ptr<Model>> import_proto(const onnx::ModelProto& proto,
                                              std::vector<TensorRef> elided = {},
                                              const ImportOptions& options = {});

}  // namespace mezzo
