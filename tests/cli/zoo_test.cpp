// `mezzo run` in FP32 on every model of the acceptance zoo, against the outputs recorded with it.
// Operators that the runtime has not are no failure here, but must be named; wrong numbers are.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <optional>

#include "cli_runner.h"
#include "runtime/io/npz.h"
#include "tests/support/shared_data.h"

namespace mezzo::test {
namespace {

namespace fs = std::filesystem;

// Relative to the larger of 1 and the expected value.
constexpr double kTolerance = 1e-4;

template <typename Element>
std::string compare(const runtime::ArrayData& want, const runtime::ArrayData& got,
                    std::uint64_t elems) {
  const auto* a = reinterpret_cast<const Element*>(want.bytes.data());
  const auto* b = reinterpret_cast<const Element*>(got.bytes.data());
  double worst = 0;
  for (std::uint64_t i = 0; i < elems; ++i) {
    if constexpr (std::is_floating_point_v<Element>) {
      if (std::isnan(a[i]) && std::isnan(b[i])) continue;
      if (a[i] == b[i]) continue;  // infinities
      const double error = std::abs(static_cast<double>(a[i]) - b[i]) /
                           std::max(1.0, std::abs(static_cast<double>(a[i])));
      worst = std::isnan(error) ? HUGE_VAL : std::max(worst, error);
    } else if (a[i] != b[i]) {
      worst = HUGE_VAL;
    }
  }
  return worst <= kTolerance ? std::string() : "differs by " + std::to_string(worst);
}

// What is wrong with an output; empty if nothing.
std::string check_array(const runtime::NpzFile& expected, const runtime::NpzFile& output,
                        const runtime::ArrayInfo& array) {
  const runtime::ArrayInfo* got = output.find(array.name);
  if (got == nullptr) return "is missing";
  if (got->shape != array.shape) return "has another shape";
  if (got->dtype != array.dtype) return "has another type";
  const auto a = expected.read(array.name), b = output.read(array.name);
  if (!a.ok() || !b.ok()) return "cannot be read";
  switch (array.dtype) {
    case DType::kFloat32: return compare<float>(*a, *b, array.elems);
    case DType::kFloat64: return compare<double>(*a, *b, array.elems);
    case DType::kInt64: return compare<std::int64_t>(*a, *b, array.elems);
    case DType::kInt32: return compare<std::int32_t>(*a, *b, array.elems);
    case DType::kBool: return compare<std::uint8_t>(*a, *b, array.elems);
    default: return "has a type that this test does not compare";
  }
}

using Zoo = CliTest;

TEST_F(Zoo, EveryModelGivesTheRecordedNumbersOrNamesWhatItLacks) {
  const auto shared = shared_folder();
  if (!shared) GTEST_SKIP() << kNoSharedFolder;
  std::vector<fs::path> models;
  for (const auto& entry : fs::directory_iterator(*shared / "zoo")) {
    if (entry.path().extension() == ".onnx") models.push_back(entry.path());
  }
  std::sort(models.begin(), models.end());
  ASSERT_FALSE(models.empty());
  int right = 0;
  for (const fs::path& model : models) {
    SCOPED_TRACE(model.filename().string());
    const std::string stem = (model.parent_path() / model.stem()).string();
    const CommandResult result =
        mezzo({"run", model.string(), "--input", stem + ".inputs.npz", "--output", "y.npz"});
    if (result.status != 0) {
      // Refused, not failed: one line that names an operator.
      EXPECT_EQ(result.status, 1) << result.err;
      EXPECT_NE(result.err.find("node '"), std::string::npos) << result.err;
      std::cout << model.stem().string() << ": not supported: " << result.err;
      continue;
    }
    const auto expected = runtime::NpzFile::open(stem + ".expected.npz");
    const auto output = runtime::NpzFile::open(file("y.npz"));
    ASSERT_TRUE(expected.ok() && output.ok());
    std::string wrong;
    for (const runtime::ArrayInfo& array : expected->arrays()) {
      const std::string fault = check_array(*expected, *output, array);
      if (!fault.empty()) wrong += " '" + array.name + "' " + fault;
    }
    EXPECT_EQ(wrong, "");
    right += wrong.empty() ? 1 : 0;
  }
  std::cout << right << " of " << models.size() << " models give the recorded numbers\n";
  // What is known to run must go on running.
  EXPECT_GE(right, 33);
}

}  // namespace
}  // namespace mezzo::test
