// `mezzo run` on every model of the acceptance zoo and every original of the acceptance cases,
// against the outputs recorded with it.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "cli_runner.h"
#include "runtime/io/npz.h"
#include "tests/support/shared_data.h"

namespace mezzo::test {
namespace {

namespace fs = std::filesystem;

// Relative to the larger of 1 and the expected value.
constexpr double kTolerance = 1e-4;

template <typename Wanted, typename Element = Wanted>
std::string compare(const runtime::ArrayData& want, const runtime::ArrayData& got,
                    std::uint64_t elems, double tolerance) {
  const auto* a = reinterpret_cast<const Wanted*>(want.bytes.data());
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
  return worst <= tolerance ? std::string() : "differs by " + std::to_string(worst);
}

// What is wrong with an output; empty if nothing.
std::string check_array(const runtime::NpzFile& expected, const runtime::NpzFile& output,
                        const runtime::ArrayInfo& array, double tolerance) {
  const runtime::ArrayInfo* got = output.find(array.name);
  if (got == nullptr) return "is missing";
  if (got->shape != array.shape) return "has another shape";
  // Where ONNX Runtime cannot run a model, numpy gave its outputs, some of them in double.
  const bool in_double = array.dtype == DType::kFloat64 && got->dtype == DType::kFloat32;
  if (got->dtype != array.dtype && !in_double) return "has another type";
  const auto a = expected.read(array.name), b = output.read(array.name);
  if (!a.ok() || !b.ok()) return "cannot be read";
  if (in_double) return compare<double, float>(*a, *b, array.elems, tolerance);
  switch (array.dtype) {
    case DType::kFloat32: return compare<float>(*a, *b, array.elems, tolerance);
    case DType::kFloat64: return compare<double>(*a, *b, array.elems, tolerance);
    case DType::kInt64: return compare<std::int64_t>(*a, *b, array.elems, tolerance);
    case DType::kInt32: return compare<std::int32_t>(*a, *b, array.elems, tolerance);
    case DType::kBool: return compare<std::uint8_t>(*a, *b, array.elems, tolerance);
    default: return "has a type that this test does not compare";
  }
}

using Zoo = CliTest;

// A model with its inputs and recorded outputs, in files that start alike.
struct Recorded {
  fs::path model;
  std::string stem;  // followed by inputs.npz and expected.npz
};

std::vector<Recorded> recorded_in(const fs::path& shared) {
  std::vector<Recorded> all;
  for (const auto& entry : fs::directory_iterator(shared / "zoo")) {
    const fs::path& path = entry.path();
    if (path.extension() == ".onnx")
      all.push_back({path, (path.parent_path() / path.stem()).string() + "."});
  }
  for (const auto& entry : fs::directory_iterator(shared / "cases")) {
    const fs::path model = entry.path() / "model.onnx";
    if (fs::exists(model)) all.push_back({model, entry.path().string() + "/"});
  }
  std::sort(all.begin(), all.end(),
            [](const Recorded& a, const Recorded& b) { return a.model < b.model; });
  return all;
}

// This one holds a product in float16, which ONNX Runtime, whose outputs these are, leaves in FP32
// on a CPU.
double tolerance_of(const Recorded& recorded) {
  const bool is_low = recorded.stem.find("g09_fp16_island") != std::string::npos;
  return is_low ? 1e-3 : kTolerance;
}

TEST_F(Zoo, EveryModelGivesTheRecordedNumbers) {
  const auto shared = shared_folder();
  if (!shared) GTEST_SKIP() << kNoSharedFolder;
  const std::vector<Recorded> all = recorded_in(*shared);
  ASSERT_GT(all.size(), 80U);
  for (const Recorded& recorded : all) {
    SCOPED_TRACE(recorded.model.string());
    const CommandResult result = mezzo({"run", recorded.model.string(), "--input",
                                        recorded.stem + "inputs.npz", "--output", "y.npz"});
    ASSERT_EQ(result.status, 0) << result.err;
    const auto expected = runtime::NpzFile::open(recorded.stem + "expected.npz");
    const auto output = runtime::NpzFile::open(file("y.npz"));
    ASSERT_TRUE(expected.ok() && output.ok());
    std::string wrong;
    for (const runtime::ArrayInfo& array : expected->arrays()) {
      const std::string fault = check_array(*expected, *output, array, tolerance_of(recorded));
      if (!fault.empty()) wrong += " '" + array.name + "' " + fault;
    }
    EXPECT_EQ(wrong, "");
  }
}

}  // namespace
}  // namespace mezzo::test
