#include "tools/mezzo/run_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "compiler/support/text.h"

namespace mezzo::cli {
namespace {

namespace fs = std::filesystem;

Status bad_out(const std::string& path, const std::string& why) {
  return invalid_argument("--out '" + printable(path) + "': " + why);
}

// "a/b/c" -> "a/b/c", "a/b", "a", "."
fs::path parent_of(const fs::path& path) {
  const fs::path parent = path.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

}  // namespace

Status RunFolder::check(const std::string& path) {
  if (path.empty()) return bad_out(path, "expected a folder");
  std::error_code error;
  const fs::path checkpoint = fs::path(path) / "checkpoint";
  if (fs::exists(checkpoint, error) && !fs::exists(checkpoint / "state.json", error)) {
    return bad_out(
        path,
        "its 'checkpoint' is not one of ours, so it is not overwritten. Hint: give another folder");
  }
  fs::path nearest(path);
  while (!fs::exists(nearest, error) && nearest != parent_of(nearest)) {
    if (error && error != std::errc::no_such_file_or_directory) break;
    nearest = parent_of(nearest);
  }
  if (error) return bad_out(path, error.message());
  if (!fs::is_directory(nearest, error))
    return bad_out(path, "'" + printable(nearest.string()) + "' is a file");
  if (::access(nearest.c_str(), W_OK | X_OK) != 0) return bad_out(path, std::strerror(errno));
  return ok_status();
}

StatusOr<RunFolder> RunFolder::open(const std::string& path) {
  MEZZO_RETURN_IF_ERROR(check(path));
  RunFolder folder(path);
  std::vector<fs::path> missing;  // innermost first
  std::error_code error;
  for (fs::path at(path); !fs::exists(at, error); at = parent_of(at)) missing.push_back(at);
  for (auto at = missing.rbegin(); at != missing.rend(); ++at) {
    if (at->filename().empty()) continue;  // "run/"
    if (::mkdir(at->c_str(), 0777) != 0 && errno != EEXIST)
      return bad_out(path, std::strerror(errno));
    folder.made_.push_back(at->string());
  }
  return folder;
}

RunFolder::~RunFolder() {
  for (auto at = made_.rbegin(); at != made_.rend(); ++at) ::rmdir(at->c_str());  // only if empty
}

std::string RunFolder::file(std::string_view name) const {
  return (fs::path(path_) / name).string();
}

}  // namespace mezzo::cli
