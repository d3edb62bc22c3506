// The same model gives the same bytes on every run: addresses, what freshly allocated memory holds,
// and the number of threads differ between runs and must not show.

#include <algorithm>
#include <filesystem>

#include "cli_runner.h"
#include "tests/support/shared_data.h"

namespace mezzo::test {
namespace {

namespace fs = std::filesystem;

// Everything that a conversion writes, and what it prints, under the settings of a run.
std::map<std::string, std::string> convert(const fs::path& model,
                                           const std::vector<std::string>& settings,
                                           const std::vector<std::string>& options) {
  const TempDir folder;
  std::vector<std::string> command = {"env"};
  command.insert(command.end(), settings.begin(), settings.end());
  command.insert(command.end(), {MEZZO_PROGRAM, "convert", model.string(), "-o", "mixed.onnx",
                                 "--json", "report.json", "--report", "report.html", "--table"});
  command.insert(command.end(), options.begin(), options.end());
  const CommandResult result = run_command(command, folder.path());
  std::map<std::string, std::string> written = {
      {"status", std::to_string(result.status)}, {"out", result.out}, {"err", result.err}};
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    written[entry.path().filename().string()] = read_text(entry.path().string());
  }
  return written;
}

// The kernel places the program and its memory anew for every run.
void expect_equal_runs(const fs::path& model, const std::vector<std::string>& options) {
  const auto first = convert(model, {"OMP_NUM_THREADS=1", "MALLOC_PERTURB_=85"}, options);
  const auto second = convert(
      model, {"OMP_NUM_THREADS=4", "MALLOC_PERTURB_=170", "MALLOC_TOP_PAD_=12345"}, options);
  ASSERT_EQ(first.size(), second.size());
  for (const auto& [name, content] : first) {
    EXPECT_TRUE(second.at(name) == content) << name << " differs between two runs";
  }
}

class Determinism : public testing::TestWithParam<const char*> {};

TEST_P(Determinism, BytesAreTheSameOnEveryRun) {
  const auto shared = shared_folder();
  if (!shared) GTEST_SKIP() << kNoSharedFolder;
  std::vector<fs::path> models;
  for (const auto& entry : fs::recursive_directory_iterator(*shared / GetParam())) {
    if (entry.path().extension() == ".onnx") models.push_back(entry.path());
  }
  ASSERT_FALSE(models.empty());
  std::sort(models.begin(), models.end());
  for (const fs::path& model : models) {
    for (const std::vector<std::string>& options :
         {std::vector<std::string>{"--precision", "fp16"},
          std::vector<std::string>{"--precision", "fp16", "--io", "low", "--assign", "propagate"},
          std::vector<std::string>{"--precision", "bf16", "--pad-channels", "8"}}) {
      SCOPED_TRACE(model.string() + " " + options.back());
      expect_equal_runs(model, options);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Folders, Determinism, testing::Values("zoo", "cases"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace mezzo::test
