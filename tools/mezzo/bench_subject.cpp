#include "tools/mezzo/bench_subject.h"

#include <chrono>
#include <cstring>
#include <random>

#include "compiler/support/dtype.h"
#include "compiler/support/half.h"
#include "compiler/support/text.h"
#include "runtime/exec/plan_file.h"
#include "runtime/train/element_cast.h"

namespace mezzo::cli {
namespace {

StatusOr<std::unique_ptr<runtime::Executor>> make_executor(const std::string& model,
                                                           CompileOptions compile,
                                                           const runtime::ExecutorOptions& options,
                                                           const BenchInputs& inputs) {
  if (model.ends_with(".plan")) {
    MEZZO_ASSIGN_OR_RETURN(const runtime::LoadedPlan loaded, runtime::load_plan(model));
    return runtime::Executor::create(loaded.plan, loaded.weights, options);
  }
  for (const auto& [name, array] : inputs.arrays) compile.input_dims.emplace(name, array.shape);
  MEZZO_ASSIGN_OR_RETURN(const Compiled compiled, compile_model(model, compile));
  return runtime::Executor::create(compiled.plan(), weights_of(compiled.draft), options);
}

// Normally distributed float32, or whole numbers 0 and 1 of the type asked for.
StatusOr<BenchInputs::Array> draw(const proto::Tensor& tensor, const std::string& name,
                                  std::mt19937_64& random) {
  BenchInputs::Array array;
  array.shape.assign(tensor.dims().begin(), tensor.dims().end());
  std::int64_t elems = 1;
  for (const std::int64_t dim : array.shape) elems *= dim;
  const auto dtype = static_cast<DType>(tensor.dtype());
  const auto count = static_cast<std::size_t>(elems);
  if (is_floating(dtype)) {
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float& value : values) value = normal(random);
    array.dtype = DType::kFloat32;
    array.bytes.resize(count * sizeof(float));
    std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
    return array;
  }
  array.dtype = DType::kBool;
  array.bytes.resize(count);
  for (std::byte& value : array.bytes) value = static_cast<std::byte>(random() & 1U);
  if (runtime::element_cast(array.dtype, dtype) == nullptr) {
    return invalid_argument("input '" + name + "': no values can be drawn for type " +
                            std::string(dtype_name(dtype)) + ". Hint: give them by --input");
  }
  return array;
}

// Element i of a floating tensor.
double element(const std::byte* data, DType dtype, std::int64_t i) {
  const auto read = [&](auto value) {
    std::memcpy(&value, data + static_cast<std::size_t>(i) * sizeof value, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::kFloat64: return read(double{});
    case DType::kFloat16: return f16_to_float(read(std::uint16_t{}));
    case DType::kBFloat16: return bf16_to_float(read(std::uint16_t{}));
    default: return read(float{});
  }
}

}  // namespace

StatusOr<BenchInputs> BenchInputs::read(const std::string& npz) {
  MEZZO_ASSIGN_OR_RETURN(const runtime::NpzFile file, runtime::NpzFile::open(npz));
  BenchInputs inputs;
  inputs.source = npz;
  for (const runtime::ArrayInfo& info : file.arrays()) {
    MEZZO_ASSIGN_OR_RETURN(const runtime::ArrayData data,
                           file.read(info.name, runtime::Alignment::kAny));
    inputs.arrays[info.name] = {info.dtype, info.shape, {data.bytes.begin(), data.bytes.end()}};
  }
  return inputs;
}

StatusOr<BenchSubject> BenchSubject::create(const std::string& model, const CompileOptions& compile,
                                            const runtime::ExecutorOptions& options,
                                            BenchInputs& inputs, std::uint64_t seed) {
  BenchSubject subject;
  MEZZO_ASSIGN_OR_RETURN(subject.executor_, make_executor(model, compile, options, inputs));
  MEZZO_RETURN_IF_ERROR(subject.bind(inputs, seed));
  return subject;
}

Status BenchSubject::bind(BenchInputs& inputs, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (const proto::Port& port : executor_->plan().inputs()) {
    const proto::Tensor& tensor = executor_->plan().tensors(port.tensor());
    auto found = inputs.arrays.find(port.name());
    if (found == inputs.arrays.end()) {
      if (!inputs.source.empty()) {
        return invalid_argument(inputs.source + ": there is no array '" + printable(port.name()) +
                                "' for that input. Hint: without --input, values are drawn");
      }
      MEZZO_ASSIGN_OR_RETURN(BenchInputs::Array drawn, draw(tensor, port.name(), random));
      found = inputs.arrays.emplace(port.name(), std::move(drawn)).first;
    }
    const BenchInputs::Array& array = found->second;
    const std::vector<std::int64_t> dims(tensor.dims().begin(), tensor.dims().end());
    const auto wanted = static_cast<DType>(tensor.dtype());
    const runtime::CastFunction cast = runtime::element_cast(array.dtype, wanted);
    if (array.shape != dims || cast == nullptr) {
      return invalid_argument(inputs.source + ": array '" + printable(port.name()) +
                              "': expected " + std::string(dtype_name(wanted)) + format_dims(dims) +
                              ", got " + std::string(dtype_name(array.dtype)) +
                              format_dims(array.shape));
    }
    std::int64_t elems = 1;
    for (const std::int64_t dim : dims) elems *= dim;
    Feed& feed = feeds_.emplace_back();
    feed.to = executor_->data(port.tensor());
    feed.bytes.resize(executor_->bytes(port.tensor()));
    cast(array.bytes.data(), feed.bytes.data(), elems);
  }
  return ok_status();
}

StatusOr<double> BenchSubject::run() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  for (const Feed& feed : feeds_) {
    if (!feed.bytes.empty()) std::memcpy(feed.to, feed.bytes.data(), feed.bytes.size());
  }
  MEZZO_RETURN_IF_ERROR(executor_->run(proto::PHASE_FORWARD));
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::vector<double> BenchSubject::outputs() const {
  std::vector<double> values;
  for (const proto::Port& port : executor_->plan().outputs()) {
    const proto::Tensor& tensor = executor_->plan().tensors(port.tensor());
    const auto dtype = static_cast<DType>(tensor.dtype());
    if (!is_floating(dtype)) continue;
    const std::int64_t elems =
        static_cast<std::int64_t>(executor_->bytes(port.tensor())) * 8 / dtype_bits(dtype);
    for (std::int64_t i = 0; i < elems; ++i)
      values.push_back(element(executor_->data(port.tensor()), dtype, i));
  }
  return values;
}

std::uint64_t BenchSubject::memory_bytes() const {
  std::uint64_t mapped = 0;
  for (int i = 0; i < executor_->plan().tensors_size(); ++i) {
    const proto::Tensor& tensor = executor_->plan().tensors(i);
    if (tensor.role() == proto::ROLE_CONSTANT && tensor.in_weights_file())
      mapped += executor_->bytes(i);
  }
  return executor_->memory().total() - executor_->memory().copied_bytes + mapped;
}

}  // namespace mezzo::cli
