// Model -> ONNX: as a file, as a message, as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"

namespace onnx {
class ModelProto;
}

namespace mezzo {

enum class ExternalData : std::uint8_t {
  kAuto,    // tensors that came from external data; all large ones if the file would pass the limit
  kNever,   // one file; InvalidArgument if it would pass the limit
  kAlways,  // all large ones
};

struct ExportOptions {
  ExternalData external_data = ExternalData::kAuto;
  std::uint64_t threshold_bytes = 1024;  // from here on a tensor is large
  // The limit of a model file without its external data: what protobuf can read, 2 GiB - 1.
  std::uint64_t max_model_bytes = 0x7fffffff;
};

// Writes `path`, and `path`.data for external data, whole or not at all: both replace older files
// only when both are complete. InvalidArgument where that would overwrite a data file of the model
// being read (which `path` itself may replace). Tensors are streamed
// one by one (casts and padding computed on the way), so memory does not grow with the weights. The
// same model gives the same bytes. A model just imported gives back the same message, except for
// location and offset of external data, which always move to the new file.
//
// A tensor keeps the field that held it (Tensor::Origin) where it still can. Offsets are multiples
// of 4 KiB, or of 64 KiB for tensors of that size, so that they can be mapped everywhere.
Status export_model(const Model& model, const std::string& path, const ExportOptions& options = {});

enum class Weights : std::uint8_t {
  kEmbedded,  // all data in the message
  kElided,    // tensors above a size are stubs: external data at "elided", numbered
};

struct ProtoOptions {
  Weights weights = Weights::kEmbedded;
  std::uint64_t elide_above_bytes = 4096;
  // Receives the elided tensors in the order of their numbers, for import_proto; may be null.
  std::vector<TensorRef>* elided = nullptr;
};

// The model as a message; `proto` is cleared first.
Status to_proto(const Model& model, const ProtoOptions& options, onnx::ModelProto& proto);

// The model in ONNX's text syntax. kElided is for people: tensors of more than 256 bytes, and those
// of types that the syntax cannot write, are stubs; parts that it cannot write are left out.
// kEmbedded is for reproducers: the text is a model that import_text reads. Unimplemented, naming
// the part, where the syntax cannot hold it (training_info, sparse tensors, types below 8 bits,
// ...): a caller then writes a binary file.
StatusOr<std::string> to_text(const Model& model, Weights weights = Weights::kElided);

// Rebuilds graph.value_info, here and in nested graphs, from the values' types: entries of values
// that are gone or have no type go, the others follow their value. `list_all` adds an entry for
// every typed node result that is no graph output.
void refresh_value_info(Graph& graph, bool list_all = false);

}  // namespace mezzo
