#include "tests/kernels/layer_case.h"

#include <cmath>
#include <limits>

#include "compiler/support/half.h"
#include "tests/kernels/tolerance.h"

namespace mezzo::kernels {

double read_number(const std::byte* at, DType dtype) {
  const auto load = [at]<typename T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::kFloat64: return load(double{});
    case DType::kFloat32: return load(float{});
    case DType::kFloat16: return f16_to_float(load(std::uint16_t{}));
    default: return bf16_to_float(load(std::uint16_t{}));
  }
}

void write_number(std::byte* at, DType dtype, double value) {
  const auto store = [at](auto bits) { std::memcpy(at, &bits, sizeof bits); };
  switch (dtype) {
    case DType::kFloat64: return store(value);
    case DType::kFloat32: return store(static_cast<float>(value));
    case DType::kFloat16: return store(float_to_f16(static_cast<float>(value)));
    default: return store(float_to_bf16(static_cast<float>(value)));
  }
}

std::vector<Guarded> make_buffers(const std::vector<TensorDesc>& descs) {
  std::vector<Guarded> buffers;
  for (const TensorDesc& desc : descs) buffers.emplace_back(desc.present() ? desc.bytes() : 0);
  return buffers;
}

void fill(Guarded& buffer, const TensorDesc& desc, const Values& values) {
  for (std::size_t j = 0; desc.present() && j < values.size(); ++j) {
    write_number(buffer.get() + dtype_bytes(desc.dtype, static_cast<std::int64_t>(j)), desc.dtype,
                 values[j]);
  }
}

Outcome run_layer_on_host(Kernel& kernel, const KernelRequest& request,
                          const std::vector<Values>& operands) {
  std::vector<Guarded> inputs = make_buffers(request.inputs);
  std::vector<Guarded> outputs = make_buffers(request.outputs);
  Guarded workspace(kernel.workspace_bytes());
  std::vector<const void*> input_addresses;
  std::vector<void*> output_addresses;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    input_addresses.push_back(request.inputs[i].present() ? inputs[i].get() : nullptr);
    fill(inputs[i], request.inputs[i], operands[i]);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    output_addresses.push_back(request.outputs[i].present() ? outputs[i].get() : nullptr);
  }
  const Status status = kernel.run({input_addresses, output_addresses, workspace.get()});
  EXPECT_TRUE(status.ok()) << status.message() << describe(request);

  Outcome outcome{std::string(kernel.implementation()), {}};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const TensorDesc& desc = request.outputs[i];
    Values values;
    for (std::int64_t j = 0; desc.present() && j < desc.elems(); ++j) {
      values.push_back(read_number(outputs[i].get() + dtype_bytes(desc.dtype, j), desc.dtype));
    }
    outcome.results.push_back(std::move(values));
    EXPECT_TRUE(outputs[i].intact()) << "bytes behind result " << i << describe(request);
  }
  EXPECT_TRUE(workspace.intact()) << "bytes behind the workspace" << describe(request);
  return outcome;
}

std::int64_t pick(Random& random, std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(random);
}

DType pick_dtype(Random& random) {
  constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
  return kDTypes[pick(random, 0, 2)];
}

Layout pick_layout(Random& random) {
  return pick(random, 0, 1) != 0 ? Layout::kChannelsLast : Layout::kRowMajor;
}

Values random_values(Random& random, const TensorDesc& desc, double deviation) {
  std::normal_distribution<double> normal(0, deviation);
  Values values(static_cast<std::size_t>(desc.elems()));
  for (double& value : values) {
    std::byte bytes[sizeof(double)];
    write_number(bytes, desc.dtype, normal(random));
    value = read_number(bytes, desc.dtype);
  }
  return values;
}

Outcome run_reference(const KernelRequest& request, const std::vector<Values>& operands) {
  KernelRequest wide = request;
  for (TensorDesc& desc : wide.outputs) {
    if (desc.present()) desc.dtype = DType::kFloat64;
  }
  auto kernel = prepare_kernel(wide, Backend::kReference);
  if (!kernel.ok()) {
    ADD_FAILURE() << kernel.status().message() << describe(request);
    return {};
  }
  return run_layer_on_host(**kernel, wide, operands);
}

void expect_close(const Values& got, const Values& expected, DType dtype, const Values& slack,
                  const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  ASSERT_EQ(slack.size(), expected.size()) << what;
  const double max = float_facts(dtype).max;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::abs(expected[i]) > max * (1 + float_facts(dtype).epsilon)) {
      if (std::isinf(got[i]) && std::signbit(got[i]) == std::signbit(expected[i])) continue;
    } else {
      const double size = std::max(std::abs(expected[i]), float_facts(dtype).min_normal);
      const double bound = size * tolerance(dtype, DType::kFloat32, 0) + slack[i];
      if (std::abs(got[i] - expected[i]) <= bound) continue;
    }
    if (++wrong == 1) {
      ADD_FAILURE() << "element " << i << ": expected " << expected[i] << " within " << slack[i]
                    << ", got " << got[i] << what;
    }
  }
  EXPECT_EQ(wrong, 0U) << "of " << got.size() << " elements" << what;
}

Values sum_slack(const Values& magnitudes, std::int64_t depth) {
  // Each of depth additions errs by at most half a unit of float32; errors add up like a random
  // walk, of which 4 deviations (and a few roundings around it) are granted.
  const auto roundings = static_cast<std::int64_t>(4 * std::sqrt(static_cast<double>(depth)) + 8);
  const double factor = tolerance(DType::kFloat32, DType::kFloat32, roundings);
  Values slack;
  for (const double magnitude : magnitudes) slack.push_back(factor * magnitude);
  return slack;
}

Values magnitudes(KernelRequest request, std::vector<Values> operands) {
  for (Values& operand : operands) {
    for (double& value : operand) value = std::abs(value);
  }
  for (const char* name : {"alpha", "beta"}) {
    if (request.attributes.has(name)) {
      request.attributes.set(name, std::abs(request.attributes.get_float(name, 1)));
    }
  }
  return run_reference(request, operands).results[0];
}

std::string describe(const KernelRequest& request) {
  std::string text = "\n  in " + request.op;
  const auto add = [&text](const std::vector<std::int64_t>& numbers) {
    text += "[";
    for (const std::int64_t number : numbers) text += std::to_string(number) + " ";
    text += "]";
  };
  for (const auto* side : {&request.inputs, &request.outputs}) {
    text += side == &request.inputs ? "" : " ->";
    for (const TensorDesc& desc : *side) {
      text += " " + std::string(dtype_name(desc.dtype));
      if (desc.layout == Layout::kChannelsLast) text += " channels-last ";
      add(desc.dims);
    }
  }
  for (const auto& [name, value] : request.attributes.values()) {
    text += " " + name + "=";
    if (const auto* ints = std::get_if<std::vector<std::int64_t>>(&value)) add(*ints);
    if (const auto* integer = std::get_if<std::int64_t>(&value)) text += std::to_string(*integer);
    if (const auto* number = std::get_if<double>(&value)) text += std::to_string(*number);
  }
  return text + " threads=" + std::to_string(request.threads);
}

}  // namespace mezzo::kernels
