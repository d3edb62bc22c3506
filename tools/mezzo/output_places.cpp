#include "tools/mezzo/output_places.h"

#include <filesystem>

#include "compiler/support/text.h"

namespace mezzo::cli {
namespace {

namespace fs = std::filesystem;

bool is_one_file(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return false;
  std::error_code error;
  if (fs::equivalent(a, b, error) && !error) return true;
  const fs::path whole_a = fs::weakly_canonical(a, error);
  if (error) return a == b;
  const fs::path whole_b = fs::weakly_canonical(b, error);
  return error ? a == b : whole_a == whole_b;
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
