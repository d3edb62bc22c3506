// A model in text form, compiled and ready to train on seeded random data.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/exec/executor.h"
#include "runtime/exec/trainer.h"
#include "runtime/train/data.h"
#include "tests/support/temp_dir.h"
#include "tools/mezzo/compile_model.h"

namespace mezzo::test {

struct SessionOptions {
  std::string precision = "fp32";  // "bf16", "fp16": everything that may runs low
  int pad_multiple = 0;
  std::int64_t batch_size = 4;
  std::int64_t samples = 12;
  bool shuffle = false;
  bool evaluate = false;
  DeviceKind device = DeviceKind::kCpu;  // that the plan is made for
  // The cost model finds that models of this size gain nothing by low precision; painting does not
  // ask it.
  passes::AssignMethod assign = passes::AssignMethod::kPropagate;
  kernels::Backend backend = kernels::Backend::kCpu;
  std::vector<std::string> freeze;
  runtime::TrainerOptions trainer;
  // Called on the data before it is written, by input; for hand-made cases.
  std::function<void(const std::string& name, std::vector<float>& values)> edit_floats;
  std::function<void(const std::string& name, std::vector<std::int64_t>& values)> edit_ints;
  std::int64_t classes = 3;  // labels are drawn from 0 .. classes - 1
};

// Where sessions train; null: on the CPU. A program that runs these tests on a device sets it
// before main().
std::shared_ptr<runtime::Device>& session_device();

cli::CompileOptions compile_options(const SessionOptions& options);

class Session {
 public:
  // Any step may fail: the first error is returned.
  static StatusOr<std::unique_ptr<Session>> open(const std::string& model_text,
                                                 SessionOptions options);

  // The same for files: a model, and its data.
  static StatusOr<std::unique_ptr<Session>> open_files(const std::string& model,
                                                       const std::string& data,
                                                       SessionOptions options);

  // Metrics of `count` steps; the test fails at the first error. On a device later ones are on
  // their way while the first are looked at.
  std::vector<runtime::StepMetrics> steps(int count);

  runtime::Executor& executor() { return *executor_; }
  runtime::Trainer& trainer() { return *trainer_; }
  const proto::Plan& plan() const { return executor_->plan(); }
  const cli::Compiled& compiled() const { return compiled_; }
  const std::string& data_path() const { return data_path_; }
  std::string file(const std::string& name) const { return dir_.file(name); }

  // Physical contents, from where training happens.
  std::vector<float> tensor(int index) const;
  std::vector<float> master(const std::string& name) const;
  const proto::Parameter* parameter(const std::string& name) const;
  // All masters and states, physical, one after the other.
  std::vector<float> all_weights() const;

 private:
  explicit Session(SessionOptions options) : options_(std::move(options)) {}
  Status compile(const std::string& model);
  Status start(const std::string& data);
  Status write_data(const proto::Plan& plan);

  TempDir dir_;
  std::string data_path_;
  SessionOptions options_;
  cli::Compiled compiled_;
  std::unique_ptr<runtime::Executor> executor_;
  std::unique_ptr<runtime::Dataset> data_;
  std::unique_ptr<runtime::Trainer> trainer_;
};

// The elements of a padded tensor that lie in the logical corner, and those beyond.
struct SplitTensor {
  std::vector<float> logical, padding;
};
template <typename Dims>
SplitTensor split(const std::vector<float>& values, const proto::Tensor& tensor,
                  const Dims& logical) {
  SplitTensor out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    bool inside = true;
    for (int d = tensor.dims_size() - 1; d >= 0; --d) {
      inside = inside && rest % tensor.dims(d) < logical.Get(d);
      rest /= tensor.dims(d);
    }
    (inside ? out.logical : out.padding).push_back(values[i]);
  }
  return out;
}

}  // namespace mezzo::test
