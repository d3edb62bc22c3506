#include "tools/mezzo/bench_subject.h"

#include <chrono>
#include <cstring>
#include <random>

#include "compiler/support/dtype.h"
#include "compiler/support/half.h"
#include "compiler/support/text.h"
#include "runtime/train/element_cast.h"

namespace mezzo::cli {
namespace {

StatusOr<std::vector<std::int64_t>> sizes(const GraphPort& port,
                                          const std::map<std::string, std::int64_t>& given) {
  if (!port.type.is_tensor() || !port.type.tensor.shape) {
    return invalid_argument("input '" + printable(port.name) + "': no values can be drawn for " +
                            to_string(port.type) + ". Hint: give them by --input");
  }
  std::vector<std::int64_t> dims;
  for (const Dim& dim : *port.type.tensor.shape) {
    const auto found = given.find(dim.symbol);
    if (!dim.known() && found == given.end()) {
      return invalid_argument(
          "input '" + printable(port.name) + "': expected a static shape, got " +
          to_string(port.type) + ". Hint: give open dimensions a size" +
          (dim.symbol.empty() ? "" : ", as --dim " + printable(dim.symbol) + "=32") +
          ", or the inputs by --input");
    }
    dims.push_back(dim.known() ? dim.value : found->second);
  }
  return dims;
}

// Normally distributed float32, or whole numbers 0 and 1, as the type asked for.
StatusOr<RuntimeValue> draw(const GraphPort& port, const std::map<std::string, std::int64_t>& given,
                            BufferPool& pool, std::mt19937_64& random) {
  MEZZO_ASSIGN_OR_RETURN(const std::vector<std::int64_t> dims, sizes(port, given));
  HostTensor tensor{port.type.dtype(), dims, nullptr};
  const auto count = static_cast<std::size_t>(tensor.elems());
  MEZZO_ASSIGN_OR_RETURN(const std::shared_ptr<std::byte> data, pool.allocate(tensor.bytes()));
  std::vector<std::byte> bytes;
  DType drawn = DType::kBool;
  if (is_floating(tensor.dtype)) {
    std::normal_distribution<float> normal;
    drawn = DType::kFloat32;
    bytes.resize(count * sizeof(float));
    for (std::size_t i = 0; i < count; ++i) {
      const float value = normal(random);
      std::memcpy(&bytes[i * sizeof(float)], &value, sizeof value);
    }
  } else {
    bytes.resize(count);
    for (std::byte& value : bytes) value = static_cast<std::byte>(random() & 1U);
  }
  const runtime::CastFunction cast = runtime::element_cast(drawn, tensor.dtype);
  if (cast == nullptr) {
    return invalid_argument("input '" + printable(port.name) +
                            "': no values can be drawn for type " +
                            std::string(dtype_name(tensor.dtype)) + ". Hint: give them by --input");
  }
  cast(bytes.data(), data.get(), tensor.elems());
  tensor.data = data;
  return RuntimeValue(std::move(tensor));
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

StatusOr<BenchSubject> BenchSubject::create(const std::string& model, const SessionOptions& options,
                                            const std::string& input, std::uint64_t seed) {
  BenchSubject subject;
  MEZZO_ASSIGN_OR_RETURN(subject.session_, Session::open(model, options));
  if (!input.empty()) {
    MEZZO_ASSIGN_OR_RETURN(const InputFiles files, InputFiles::open(input));
    MEZZO_ASSIGN_OR_RETURN(subject.inputs_, files.read(subject.session_->inputs()));
    return subject;
  }
  std::mt19937_64 random(seed);
  BufferPool pool(0);
  for (const GraphPort& port : subject.session_->inputs()) {
    RuntimeValue value;
    if (!port.has_default) {
      auto drawn = draw(port, options.compile.dims, pool, random);
      if (!drawn.ok()) return drawn.status().with_context(model);
      value = std::move(drawn).value();
    }
    subject.inputs_.push_back(std::move(value));
  }
  return subject;
}

StatusOr<double> BenchSubject::run() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  MEZZO_ASSIGN_OR_RETURN(outputs_, session_->run(inputs_));
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::vector<double> BenchSubject::outputs() const {
  std::vector<double> values;
  for (const RuntimeValue& output : outputs_) {
    if (!output.is_tensor() || !is_floating(output.tensor.dtype)) continue;
    const std::int64_t elems = output.tensor.elems();
    for (std::int64_t i = 0; i < elems; ++i)
      values.push_back(element(output.tensor.data.get(), output.tensor.dtype, i));
  }
  return values;
}

}  // namespace mezzo::cli
