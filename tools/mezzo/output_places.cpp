#include "tools/mezzo/output_places.h"

#include <filesystem>

#include "compiler/support/text.h"

namespace mezzo::cli {
namespace {

namespace fs = std::filesystem;

// The same for all spellings of a place, also of one where nothing is yet; "" if it cannot be told.
fs::path whole(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  const fs::path found = error ? fs::path() : fs::weakly_canonical(absolute, error);
  return error ? fs::path() : found;
}

bool is_one_file(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return false;
  std::error_code error;
  if (a == b || (fs::equivalent(a, b, error) && !error)) return true;  // hard links, too
  return !whole(a).empty() && whole(a) == whole(b);
}

}  // namespace

Status expect_different(const std::vector<NamedFile>& written, std::vector<NamedFile> others) {
  for (const NamedFile& file : written) {
    for (const NamedFile& other : others) {
      if (!is_one_file(file.path, other.path)) continue;
      return invalid_argument(file.name + " '" + printable(file.path) + "' and " + other.name +
                              ": expected different files. Hint: choose another name");
    }
    others.push_back(file);
  }
  return ok_status();
}

std::vector<NamedFile> sources(const std::string& model,
                               const std::vector<std::string>& data_files) {
  std::vector<NamedFile> files = {{"the model", model}};
  for (const std::string& path : data_files) files.push_back({"the model's data", path});
  return files;
}

}  // namespace mezzo::cli
