// The acceptance data that lies beside a developer's checkout. Tests that read it are skipped where
// it is not.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace mezzo::test {

// The folder that MEZZO_SHARED names, else `shared` beside the source tree; nothing if there is no
// such folder. Tests run in their source folder, below <source>/tests.
//
//   const auto shared = shared_folder();
//   if (!shared) GTEST_SKIP() << kNoSharedFolder;
inline std::optional<std::filesystem::path> shared_folder() {
  namespace fs = std::filesystem;
  std::error_code error;
  if (const char* named = std::getenv("MEZZO_SHARED"); named != nullptr) {
    return fs::is_directory(named, error) ? std::optional<fs::path>(named) : std::nullopt;
  }
  for (fs::path at = fs::current_path(error); at.has_relative_path(); at = at.parent_path()) {
    if (!fs::exists(at / "CMakePresets.json", error)) continue;
    const fs::path shared = at.parent_path() / "shared";
    return fs::is_directory(shared, error) ? std::optional<fs::path>(shared) : std::nullopt;
  }
  return std::nullopt;
}

inline constexpr const char* kNoSharedFolder =
    "the acceptance data is not here: set MEZZO_SHARED to its folder, or put it at ../shared";

}  // namespace mezzo::test
