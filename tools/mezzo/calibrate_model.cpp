#include "tools/mezzo/calibrate_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "compiler/ir/clone.h"
#include "compiler/onnx/import.h"
#include "passes/numerics/output_error.h"
#include "passes/numerics/prepare.h"
#include "tools/mezzo/progress_bar.h"

namespace mezzo::cli {
namespace {

// How the outputs come out is checked on this many samples: enough to see a fault.
constexpr std::uint64_t kMostChecked = 16;

}  // namespace

StatusOr<ModelCalibration> ModelCalibration::measure(const std::string& path,
                                                     const std::vector<std::string>& samples,
                                                     const passes::PrecisionPolicy& policy,
                                                     int threads, bool quiet) {
  MEZZO_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, load_model(path));
  MEZZO_RETURN_IF_ERROR(numerics::prepare(*model).with_context(path));
  MEZZO_ASSIGN_OR_RETURN(Samples opened, Samples::open(samples, *model->graph));
  ModelCalibration made(std::move(model), std::move(opened));
  made.threads_ = threads;
  made.quiet_ = quiet;
  ProgressBar bar("calibrating", made.samples_.count(), quiet);
  numerics::CalibrateOptions options;
  options.threads = threads;
  options.low = policy.low;
  options.mask = policy.thresholds.mask;
  options.progress = [&](std::uint64_t done) { bar.update(done); };
  auto ranges = numerics::calibrate(
      *made.model_, made.samples_.count(),
      [&](std::uint64_t index) { return made.samples_.read(index); }, options);
  bar.finish();
  if (!ranges.ok()) return ranges.status().with_context(path);
  for (const std::string& sample : samples)
    ranges->sources.push_back(std::filesystem::path(sample).filename().string());
  made.ranges_ = std::make_shared<const passes::Calibration>(*std::move(ranges));
  return made;
}

void ModelCalibration::check(const Model& converted, Records& records) {
  if (!records.calibration) return;  // --fp32: nothing was decided
  const std::uint64_t count = std::min(samples_.count(), kMostChecked);
  ProgressBar bar("checking", count, quiet_);
  numerics::CalibrateOptions options;
  options.threads = threads_;
  options.progress = [&](std::uint64_t done) { bar.update(done); };
  const auto measured = [&]() -> StatusOr<numerics::OutputError> {
    const std::unique_ptr<Model> copy = clone_model(converted);
    MEZZO_RETURN_IF_ERROR(numerics::prepare(*copy));
    return numerics::output_error(
        *model_, *copy, count, [&](std::uint64_t index) { return samples_.read(index); }, options);
  }();
  bar.finish();
  if (!measured.ok()) {
    records.warnings.push_back("the converted model could not be run on the samples: " +
                               measured.status().message());
    return;
  }
  records.calibration->checked_samples = count;
  records.calibration->worst_output = measured->output;
  records.calibration->output_error =
      std::min(measured->difference.error, CalibrationRecord::kInfiniteError);
}

}  // namespace mezzo::cli
