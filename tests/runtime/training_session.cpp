#include "training_session.h"

#include <gtest/gtest.h>

#include <cstring>

#include "model_text.h"
#include "runtime/io/npz.h"
#include "tests/support/status_test.h"

namespace mezzo::test {

std::shared_ptr<runtime::Device>& session_device() {
  static std::shared_ptr<runtime::Device> device;
  return device;
}

cli::CompileOptions compile_options(const SessionOptions& options) {
  cli::CompileOptions compile;
  compile.batch_size = options.batch_size;
  compile.train = true;
  compile.evaluate = options.evaluate;
  compile.device = options.device;
  compile.training.freeze = options.freeze;
  compile.padding.multiple = options.pad_multiple;
  compile.padding.always = true;
  compile.policy.force_fp32 = options.precision == "fp32";
  compile.policy.low = options.precision == "bf16" ? DType::kBFloat16 : DType::kFloat16;
  compile.policy.assign = options.assign;
  if (session_device() != nullptr) compile.device = DeviceKind::kCuda;
  return compile;
}

StatusOr<std::unique_ptr<Session>> Session::open(const std::string& model_text,
                                                 SessionOptions options) {
  std::unique_ptr<Session> session(new Session(std::move(options)));
  const std::string model = session->file("model.onnxtxt");
  write_text(model, model_text);
  MEZZO_RETURN_IF_ERROR(session->compile(model));
  MEZZO_RETURN_IF_ERROR(session->write_data(*session->compiled_.plan()));
  MEZZO_RETURN_IF_ERROR(session->start(session->file("data.npz")));
  return session;
}

StatusOr<std::unique_ptr<Session>> Session::open_files(const std::string& model,
                                                       const std::string& data,
                                                       SessionOptions options) {
  std::unique_ptr<Session> session(new Session(std::move(options)));
  MEZZO_RETURN_IF_ERROR(session->compile(model));
  MEZZO_RETURN_IF_ERROR(session->start(data));
  return session;
}

Status Session::compile(const std::string& model) {
  MEZZO_ASSIGN_OR_RETURN(compiled_, cli::compile_model(model, compile_options(options_)));
  MEZZO_ASSIGN_OR_RETURN(
      executor_, runtime::Executor::create(
                     compiled_.plan(), cli::weights_of(compiled_.draft),
                     {options_.trainer.threads, options_.backend, false, session_device()}));
  return ok_status();
}

Status Session::start(const std::string& data) {
  data_path_ = data;
  runtime::DatasetOptions data_options;
  data_options.batch_size = options_.batch_size;
  data_options.shuffle = options_.shuffle;
  data_options.seed = options_.trainer.seed;
  MEZZO_ASSIGN_OR_RETURN(
      runtime::Dataset dataset,
      runtime::Dataset::open(data, runtime::input_expectations(plan()), data_options));
  data_ = std::make_unique<runtime::Dataset>(std::move(dataset));
  if (options_.trainer.out.empty()) options_.trainer.out = dir_.path();
  MEZZO_ASSIGN_OR_RETURN(trainer_, runtime::Trainer::create(*executor_, *data_, options_.trainer));
  return ok_status();
}

Status Session::write_data(const proto::Plan& plan) {
  MEZZO_ASSIGN_OR_RETURN(runtime::NpzWriter writer, runtime::NpzWriter::create(file("data.npz")));
  std::uint64_t seed = 1000;
  for (const proto::Port& port : plan.inputs()) {
    const proto::Tensor& tensor = plan.tensors(port.tensor());
    std::vector<std::int64_t> shape(tensor.dims().begin(), tensor.dims().end());
    shape.at(0) = options_.samples;
    std::int64_t elems = 1;
    for (const std::int64_t dim : shape) elems *= dim;
    std::vector<float> floats = random_floats(elems, ++seed);
    if (static_cast<DType>(tensor.dtype()) == DType::kFloat32) {
      if (options_.edit_floats) options_.edit_floats(port.name(), floats);
      MEZZO_RETURN_IF_ERROR(
          writer.add(port.name(), DType::kFloat32, shape, std::as_bytes(std::span(floats))));
      continue;
    }
    std::vector<std::int64_t> labels;
    for (const float value : floats)
      labels.push_back(static_cast<std::int64_t>((value + 1) * 1e4F) % options_.classes);
    if (options_.edit_ints) options_.edit_ints(port.name(), labels);
    MEZZO_RETURN_IF_ERROR(
        writer.add(port.name(), DType::kInt64, shape, std::as_bytes(std::span(labels))));
  }
  return writer.commit();
}

std::vector<runtime::StepMetrics> Session::steps(int count) {
  std::vector<runtime::StepMetrics> metrics;
  const std::int64_t last = trainer_->steps_done() + count;
  for (int i = 0; i < count; ++i) {
    StatusOr<runtime::StepMetrics> step = trainer_->step(last);
    if (!step.ok()) {
      ADD_FAILURE() << step.status().message();
      break;
    }
    metrics.push_back(*step);
  }
  return metrics;
}

std::vector<float> Session::tensor(int index) const {
  std::vector<float> values(executor_->bytes(index) / sizeof(float));
  const std::uint64_t bytes = values.size() * sizeof(float);
  const std::byte* const from = executor_->device_data(index);
  runtime::Device* const device = executor_->device();
  if (device == nullptr) {
    std::memcpy(values.data(), from, bytes);
  } else {  // not every tensor has a home on the host
    EXPECT_THAT(device->copy_to_host(values.data(), from, bytes), IsOk());
  }
  return values;
}

const proto::Parameter* Session::parameter(const std::string& name) const {
  for (const proto::Parameter& parameter : plan().parameters()) {
    if (parameter.name() == name) return &parameter;
  }
  return nullptr;
}

std::vector<float> Session::master(const std::string& name) const {
  const proto::Parameter* found = parameter(name);
  return found == nullptr ? std::vector<float>() : tensor(found->master());
}

std::vector<float> Session::all_weights() const {
  std::vector<float> all;
  const auto append = [&](int index) {
    const std::vector<float> values = tensor(index);
    all.insert(all.end(), values.begin(), values.end());
  };
  for (const proto::Parameter& parameter : plan().parameters()) append(parameter.master());
  for (const proto::State& state : plan().states()) append(state.tensor());
  return all;
}

}  // namespace mezzo::test
