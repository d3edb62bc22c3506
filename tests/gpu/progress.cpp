// Tells gpu_check how far the kernel tests are: MEZZO_GPU_TEST_LOG names a file for one line of
// JSON per event, written at once, since a kernel may end the process at any time. A test that
// takes longer than MEZZO_GPU_TEST_SECONDS ends it as well, by SIGALRM.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/cuda/rows.h"
#include "tests/cuda_on_cpu/kernels/row_book.h"

namespace mezzo::kernels {
namespace {

using Json = nlohmann::json;

constexpr int kMostFailures = 3;
constexpr std::size_t kMostMessage = 1500;
constexpr int kDeviceLost = 3;  // exit status

// An error that stays is the end of the process as far as the device goes.
std::string lasting_error() {
  cudaGetLastError();  // one of a refused launch is forgotten by this
  const cudaError_t error = cudaDeviceSynchronize();
  return error == cudaSuccess ? std::string() : cudaGetErrorString(error);
}

class Progress : public ::testing::EmptyTestEventListener {
 public:
  Progress(const char* path, const char* seconds)
      : path_(path), seconds_(seconds == nullptr ? 0 : std::strtoul(seconds, nullptr, 10)) {}

  void OnTestProgramStart(const ::testing::UnitTest& /*unit*/) override {
    std::vector<std::string> names;
    for (const KernelEntry* const row : cuda::all_rows())
      names.push_back(std::string(row->op) + " by " + std::string(row->implementation));
    tested_.resize(names.size());
    write({{"rows", names}});
  }

  void OnTestStart(const ::testing::TestInfo& test) override {
    write({{"begin", name(test)}});
    alarm(static_cast<unsigned>(seconds_));
  }

  void OnTestEnd(const ::testing::TestInfo& test) override {
    alarm(0);
    const ::testing::TestResult& result = *test.result();
    Json row = {{"test", name(test)},
                {"ok", !result.Failed()},
                {"skipped", result.Skipped()},
                {"ms", result.elapsed_time()},
                {"rows_run", newly_tested()}};
    Json& failures = row["failures"] = Json::array();
    for (int i = 0; i < result.total_part_count() && failures.size() < kMostFailures; ++i) {
      const ::testing::TestPartResult& part = result.GetTestPartResult(i);
      if (part.failed()) failures.push_back(std::string(part.message()).substr(0, kMostMessage));
    }
    const std::string lost = lasting_error();
    if (!lost.empty()) {
      row["ok"] = false;
      failures.push_back("the device is of no more use to this process: " + lost);
    }
    write(row);
    if (!lost.empty()) _exit(kDeviceLost);
  }

 private:
  static std::string name(const ::testing::TestInfo& test) {
    return std::string(test.test_suite_name()) + "." + test.name();
  }
  std::vector<std::size_t> newly_tested() {
    std::vector<std::size_t> rows;
    std::size_t i = 0;
    for (const KernelEntry* const row : cuda::all_rows()) {
      if (!tested_[i] && was_tested(*row)) {
        tested_[i] = true;
        rows.push_back(i);
      }
      ++i;
    }
    return rows;
  }
  void write(const Json& row) const {
    std::FILE* const file = std::fopen(path_.c_str(), "ae");
    if (file == nullptr) return;
    const std::string line = row.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    std::fputs(line.c_str(), file);
    std::fclose(file);
  }

  std::string path_;
  unsigned long seconds_;
  std::vector<bool> tested_;
};

const bool kListening = [] {
  const char* const path = std::getenv("MEZZO_GPU_TEST_LOG");
  if (path == nullptr) return false;
  ::testing::UnitTest::GetInstance()->listeners().Append(
      new Progress(path, std::getenv("MEZZO_GPU_TEST_SECONDS")));
  return true;
}();

}  // namespace
}  // namespace mezzo::kernels
