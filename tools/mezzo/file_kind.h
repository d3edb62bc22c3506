// What kind of file a command was given, told by its content and, where that says too little, its
// name.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/support/status.h"

namespace mezzo::cli {

enum class FileKind : std::uint8_t {
  kModel,
  kPlan,
  kReport,
  kCheckpoint,
  kSafetensors,
  kNpz,
  kOrtCheckpoint,  // of ONNX Runtime's training artifacts
};

// InvalidArgument: missing, unreadable, or a folder that is no checkpoint. Looks at the first bytes
// alone: kModel stands for everything that nothing else claims.
StatusOr<FileKind> file_kind(const std::string& path);

// Columns of the terminal on standard output; 0 if it is none.
int terminal_width();

}  // namespace mezzo::cli
