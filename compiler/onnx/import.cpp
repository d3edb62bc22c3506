#include "compiler/onnx/import.h"

#include <google/protobuf/arena.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <utility>

#include "compiler/onnx/function_calls.h"
#include "compiler/onnx/graph_importer.h"
#include "compiler/onnx/tensor_reader.h"
#include "compiler/onnx/wire.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/text.h"
#include "onnx/defs/parser.h"

namespace mezzo {
namespace {

namespace fs = std::filesystem;
using ModelOr = StatusOr<std::unique_ptr<Model>>;

std::string label_of(const std::string& path) {
  return printable(fs::path(path).filename().string());
}

fs::path folder_of(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.size()};
}

ModelOr build(const onnx::ModelProto& proto, TensorReader& reader, const ImportOptions& options) {
  auto model = std::make_unique<Model>();
  GraphImporter importer(reader, options.warnings);
  MEZZO_RETURN_IF_ERROR(importer.import_model(proto, *model));
  if (options.data_files != nullptr) *options.data_files = reader.external_files().paths();
  if (!model->functions.empty()) {
    MEZZO_RETURN_IF_ERROR(count_expanded_nodes(*model, kMostExpandedNodes).status());
  }
  return model;
}

// Prefixes new warnings as errors are prefixed.
class WarningLabel {
 public:
  WarningLabel(const ImportOptions& options, std::string label)
      : warnings_(options.warnings), label_(std::move(label)) {
    if (warnings_) before_ = warnings_->size();
  }
  ~WarningLabel() {
    if (!warnings_) return;
    for (std::size_t i = before_; i < warnings_->size(); ++i) {
      (*warnings_)[i].insert(0, label_ + ": ");
    }
  }
  WarningLabel(const WarningLabel&) = delete;
  WarningLabel& operator=(const WarningLabel&) = delete;

 private:
  std::vector<std::string>* warnings_;
  std::string label_;
  std::size_t before_ = 0;
};

// A binary model starts with a field of ModelProto, whose tag is never '<'; a text model starts
// with
// '<' after blanks and comments, and holds no control characters.
bool looks_like_text(std::string_view content) {
  std::size_t pos = 0;
  while (pos < content.size()) {
    const char c = content[pos];
    if (c == '#') {
      pos = std::min(content.find('\n', pos), content.size());
    } else if (onnx::IsSpace(c)) {
      ++pos;
    } else {
      break;
    }
  }
  if (pos >= content.size() || content[pos] != '<') return false;
  const std::string_view head = content.substr(0, std::max<std::size_t>(pos + 1, 4096));
  return std::all_of(head.begin(), head.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 || onnx::IsSpace(c);
  });
}

// The parser of ONNX recurses once per bracket.
Status check_text_nesting(std::string_view text) {
  constexpr int kMaxNesting = 200;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '"':
        for (++i; i < text.size() && text[i] != '"'; ++i) {
          if (text[i] == '\\') ++i;
        }
        break;
      case '#': i = std::min(text.find('\n', i), text.size()); break;
      case '(':
      case '[':
      case '{':
        if (++depth > kMaxNesting) {
          return invalid_argument("expected brackets nested at most " +
                                  std::to_string(kMaxNesting) + " deep, got more");
        }
        break;
      case ')':
      case ']':
      case '}': --depth; break;
      default: break;
    }
  }
  return ok_status();
}

Status parse_text(std::string_view text, onnx::ModelProto& proto) {
  MEZZO_RETURN_IF_ERROR(check_text_nesting(text));
  std::string message;
  try {
    onnx::OnnxParser parser(text);
    const auto status = parser.Parse(proto);
    if (status.IsOK() && parser.EndOfInput()) return ok_status();
    message = status.IsOK() ? "unexpected text behind the model " + parser.GetCurrentPos()
                            : status.ErrorMessage();
  } catch (const std::exception& error) {
    message = error.what();
  }
  std::replace(message.begin(), message.end(), '\n', ' ');
  return invalid_argument("expected a model in ONNX text syntax: " + printable(message, 1000));
}

ModelOr import_file(std::shared_ptr<const MappedFile> file, const std::string& path,
                    const ImportOptions& options) {
  if (file->size() == 0) return invalid_argument("expected an ONNX model, got an empty file");
  // The kernel may map up to 2 MiB around a byte that is looked at.
  auto stripped = strip_payloads(file->bytes(), [&](std::uint64_t payload_bytes) {
    file->note_read(std::min(payload_bytes, std::uint64_t{2} << 20));
  });
  if (!stripped.ok()) return stripped.status().with_context("expected an ONNX model");
  google::protobuf::Arena arena;  // many small messages, taken apart at once
  auto& proto = *google::protobuf::Arena::CreateMessage<onnx::ModelProto>(&arena);
  if (!proto.ParseFromArray(stripped->skeleton.data(),
                            static_cast<int>(stripped->skeleton.size()))) {
    return invalid_argument("expected an ONNX model, got a file that protobuf cannot parse");
  }
  std::string().swap(stripped->skeleton);
  TensorReader reader(folder_of(path), std::move(file), std::move(stripped->payloads));
  return build(proto, reader, options);
}

ModelOr with_label(ModelOr model, const std::string& label) {
  if (!model.ok()) return model.status().with_context(label);
  return model;
}

ModelOr parse_and_build(std::string_view text, fs::path folder, const ImportOptions& options) {
  onnx::ModelProto proto;
  MEZZO_RETURN_IF_ERROR(parse_text(text, proto));
  TensorReader reader(std::move(folder));
  return build(proto, reader, options);
}

}  // namespace

ModelOr import_model(const std::string& path, const ImportOptions& options) {
  MEZZO_ASSIGN_OR_RETURN(auto file, MappedFile::open(path));
  const std::string label = label_of(path);
  const WarningLabel warnings(options, label);
  MEZZO_ASSIGN_OR_RETURN(auto model,
                         with_label(import_file(std::move(file), path, options), label));
  model->source_path = path;
  return model;
}

ModelOr import_text(std::string_view text, const std::string& name, const ImportOptions& options) {
  const WarningLabel warnings(options, name);
  return with_label(parse_and_build(text, {}, options), name);
}

ModelOr load_model(const std::string& path, const ImportOptions& options) {
  MEZZO_ASSIGN_OR_RETURN(auto file, MappedFile::open(path));
  const std::string_view text = text_of(*file);
  if (!looks_like_text(text)) return import_model(path, options);
  const std::string label = label_of(path);
  const WarningLabel warnings(options, label);
  MEZZO_ASSIGN_OR_RETURN(auto model,
                         with_label(parse_and_build(text, folder_of(path), options), label));
  model->source_path = path;
  return model;
}

ModelOr import_proto(const onnx::ModelProto& proto, std::vector<TensorRef> elided,
                     const ImportOptions& options) {
  TensorReader reader{fs::path{}};
  reader.set_elided(std::move(elided));
  return build(proto, reader, options);
}

}  // namespace mezzo
