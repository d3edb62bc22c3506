// TensorProto -> Tensor: data stay where they are (the mapped model file or an external data file);
// typed fields are decoded. Everything is checked first, as files are untrusted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/tensor.h"
#include "compiler/onnx/wire.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/status.h"
#include "onnx/onnx_pb.h"

namespace mezzo {

// The location of a tensor whose data a dump left out, see Weights::kElided in export.h.
inline constexpr std::string_view kElidedLocation = "elided";

// Opens external data files, each once.
class ExternalFiles {
 public:
  // `folder`: that of the model; "" means that the model is not from a file and has none.
  explicit ExternalFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // The mapped file of an external_data location. InvalidArgument if the location is absolute,
  // leads out of the folder by `..` or a symbolic link, or is no regular file.
  StatusOr<std::shared_ptr<const MappedFile>> open(const std::string& location);
  // Of the files opened so far, sorted.
  std::vector<std::string> paths() const;

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>> by_location_, by_path_;
};

class TensorReader {
 public:
  // raw_data fields hold the data.
  explicit TensorReader(std::filesystem::path folder) : external_(std::move(folder)) {}
  // raw_data fields hold markers of `payloads`, which lie in `file`; see wire.h.
  TensorReader(std::filesystem::path folder, std::shared_ptr<const MappedFile> file,
               std::vector<ByteRange> payloads)
      : external_(std::move(folder)), file_(std::move(file)), payloads_(std::move(payloads)) {}

  // Elided tensors (see export.h) stand for these.
  void set_elided(std::vector<TensorRef> tensors) { elided_ = std::move(tensors); }

  // Errors name neither file nor tensor, the caller adds them.
  StatusOr<TensorRef> read(const onnx::TensorProto& proto);
  const ExternalFiles& external_files() const { return external_; }

 private:
  struct Header;  // what all forms of storage need to know
  static Status read_header(const onnx::TensorProto& proto, Header& header);
  StatusOr<Tensor::Storage> read_raw(const onnx::TensorProto& proto, const Header& header);
  StatusOr<Tensor::Storage> read_external(const onnx::TensorProto& proto, const Header& header);
  StatusOr<Tensor::Storage> read_typed(const onnx::TensorProto& proto, const Header& header);

  ExternalFiles external_;
  std::shared_ptr<const MappedFile> file_;
  std::vector<ByteRange> payloads_;
  std::vector<TensorRef> elided_;
};

}  // namespace mezzo
