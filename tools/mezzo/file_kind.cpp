#include "tools/mezzo/file_kind.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "compiler/support/mapped_file.h"
#include "compiler/support/text.h"
#include "runtime/exec/plan_file.h"

namespace mezzo::cli {
namespace {

namespace fs = std::filesystem;

// Eight bytes of length, and a JSON object of that length.
bool is_safetensors(std::string_view head, std::uint64_t size) {
  if (head.size() < 10 || head[8] != '{') return false;
  std::uint64_t header = 0;
  std::memcpy(&header, head.data(), sizeof header);
  return header >= 2 && header <= size - 8;
}

FileKind kind_of(std::string_view head, std::uint64_t size, const std::string& extension) {
  if (head.starts_with("PK\x03\x04") || head.starts_with("PK\x05\x06") ||
      head.starts_with("\x93NUMPY") || extension == ".npz" || extension == ".npy") {
    return FileKind::kNpz;
  }
  if (head.size() >= 8 && head.substr(4, 4) == "ODTC") return FileKind::kOrtCheckpoint;
  if (extension == ".safetensors" || is_safetensors(head, size)) return FileKind::kSafetensors;
  if (head.starts_with(runtime::kPlanMagic) || extension == ".plan") return FileKind::kPlan;
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  if (extension == ".json" || (first != std::string_view::npos && head[first] == '{')) {
    return FileKind::kReport;
  }
  return FileKind::kModel;
}

}  // namespace

StatusOr<FileKind> file_kind(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    if (fs::exists(fs::path(path) / "state.json", error)) return FileKind::kCheckpoint;
    return invalid_argument(printable(path) +
                            ": a folder, but no checkpoint: expected state.json in it. Hint: "
                            "`mezzo train --out DIR` writes DIR/checkpoint");
  }
  MEZZO_ASSIGN_OR_RETURN(const auto file, MappedFile::open(path));
  if (file->size() == 0) return invalid_argument(printable(path) + ": the file is empty");
  const auto bytes = file->bytes().first(std::min<std::size_t>(file->size(), 64));
  return kind_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file->size(),
                 fs::path(path).extension().string());
}

int terminal_width() {
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

}  // namespace mezzo::cli
