// The fuzz targets over inputs in files, without libFuzzer: regressions/TARGET/NAME holds what once
// broke TARGET and must not again. A fault aborts the process and so fails the test.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "fuzz_target.h"
#include "tests/support/temp_dir.h"

namespace mezzo::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr const Target* kTargets[] = {&load_model_target, &convert_target, &run_target,
                                      &text_target,       &plan_target,    &arrays_target,
                                      &report_target,     &policy_target,  &ort_checkpoint_target};

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

void run_file(const Target& target, const fs::path& file) {
  SCOPED_TRACE(file.string());
  do_everything = true;
  const std::string contents = test::read_text(file.string());
  target.run(std::as_bytes(std::span(contents)));
}

class Replay : public testing::TestWithParam<const Target*> {};

TEST_P(Replay, Regressions) {
  const auto files = files_in(fs::path("regressions") / GetParam()->name);
  for (const fs::path& file : files) {
    std::printf("%s\n", file.c_str());
    std::fflush(stdout);
    run_file(*GetParam(), file);
  }
}

TEST_P(Replay, NothingAndNoise) {
  GetParam()->run({});
  std::string noise;
  for (int i = 0; i < 300; ++i) {
    noise.push_back(static_cast<char>(i * i * 31 + i / 7));
    GetParam()->run(std::as_bytes(std::span(noise)));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Replay, testing::ValuesIn(kTargets),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace mezzo::fuzz
