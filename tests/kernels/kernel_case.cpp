#include "tests/kernels/kernel_case.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compiler/support/half.h"
#include "tests/kernels/tolerance.h"

namespace mezzo::kernels {
namespace {

template <typename T>
void put(unsigned char* to, std::int64_t i, T value) {
  std::memcpy(to + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
}
template <typename T>
T get(const unsigned char* from, std::int64_t i) {
  T value;
  std::memcpy(&value, from + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

bool is_close(double got, double expected, DType dtype, const KernelCase& test, double slack) {
  const std::int64_t depth = test.depth;
  if (std::isnan(expected)) return std::isnan(got);
  if (got == expected) return true;
  const FloatFacts facts = float_facts(dtype);
  // Below the normal range half a unit is half the smallest number, whatever the element.
  const double underflow = facts.min_subnormal / 2.0 +
                           static_cast<double>(depth) * float_facts(test.accum).min_subnormal / 2.0;
  const double bound =
      tolerance(dtype, test.accum, depth) * std::fabs(expected) + slack + underflow;
  // Beyond the range, and beyond float32's on the way there, comes infinity.
  if (std::isinf(got)) return std::fabs(expected) + bound >= facts.max && got * expected > 0.0;
  if (std::isinf(expected)) return false;
  return std::fabs(got - expected) <= bound;
}

}  // namespace

void encode(DType dtype, double number, unsigned char* to, std::int64_t i) {
  const auto single = static_cast<float>(number);
  // Negative samples wrap in unsigned types.
  const auto whole = [number] { return static_cast<std::int64_t>(number); };
  switch (dtype) {
    case DType::kFloat32: return put(to, i, single);
    case DType::kFloat64: return put(to, i, number);
    case DType::kFloat16: return put(to, i, float_to_f16(single));
    case DType::kBFloat16: return put(to, i, float_to_bf16(single));
    case DType::kBool:
    case DType::kUInt8: return put(to, i, static_cast<std::uint8_t>(whole()));
    case DType::kInt8: return put(to, i, static_cast<std::int8_t>(whole()));
    case DType::kInt16: return put(to, i, static_cast<std::int16_t>(whole()));
    case DType::kUInt16: return put(to, i, static_cast<std::uint16_t>(whole()));
    case DType::kUInt32: return put(to, i, static_cast<std::uint32_t>(whole()));
    case DType::kUInt64:
      if (number < 0) return put(to, i, static_cast<std::uint64_t>(whole()));
      return put(to, i, static_cast<std::uint64_t>(number));
    case DType::kInt32: return put(to, i, static_cast<std::int32_t>(whole()));
    case DType::kInt64: return put(to, i, static_cast<std::int64_t>(number));
    default: FAIL() << "dtype " << dtype_name(dtype);
  }
}

double decode(DType dtype, const unsigned char* from, std::int64_t i) {
  switch (dtype) {
    case DType::kFloat32: return static_cast<double>(get<float>(from, i));
    case DType::kFloat64: return get<double>(from, i);
    case DType::kFloat16: return static_cast<double>(f16_to_float(get<std::uint16_t>(from, i)));
    case DType::kBFloat16: return static_cast<double>(bf16_to_float(get<std::uint16_t>(from, i)));
    case DType::kBool:
    case DType::kUInt8: return get<std::uint8_t>(from, i);
    case DType::kInt8: return get<std::int8_t>(from, i);
    case DType::kInt16: return get<std::int16_t>(from, i);
    case DType::kUInt16: return get<std::uint16_t>(from, i);
    case DType::kUInt32: return get<std::uint32_t>(from, i);
    case DType::kUInt64: return static_cast<double>(get<std::uint64_t>(from, i));
    case DType::kInt32: return get<std::int32_t>(from, i);
    case DType::kInt64: return static_cast<double>(get<std::int64_t>(from, i));
    default: return std::nan("");
  }
}

Buffer encode_all(const TensorDesc& desc, const Numbers& numbers) {
  Buffer buffer(desc.present() ? desc.bytes() : 0);
  if (!desc.present()) return buffer;
  EXPECT_EQ(static_cast<std::int64_t>(numbers.size()), desc.elems());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    encode(desc.dtype, numbers[i], buffer.data(), static_cast<std::int64_t>(i));
  }
  return buffer;
}

StatusOr<Results> run_on_host(Kernel& kernel, const KernelRequest& request,
                              const std::vector<Numbers>& operands, int in_place) {
  std::vector<Buffer> inputs;
  std::vector<Buffer> outputs;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    inputs.push_back(encode_all(request.inputs[i], i < operands.size() ? operands[i] : Numbers()));
    in.push_back(request.inputs[i].present() ? inputs.back().data() : nullptr);
  }
  for (const TensorDesc& desc : request.outputs) {
    outputs.emplace_back(desc.present() ? desc.bytes() : 0);
    out.push_back(desc.present() ? outputs.back().data() : nullptr);
  }
  if (in_place >= 0) out[0] = inputs[static_cast<std::size_t>(in_place)].data();
  Buffer workspace(kernel.workspace_bytes());
  const KernelArguments arguments{in, out, workspace.size() > 0 ? workspace.data() : nullptr};
  MEZZO_RETURN_IF_ERROR(kernel.run(arguments));
  EXPECT_TRUE(workspace.is_guard_intact()) << "wrote behind the workspace";
  Results results;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    EXPECT_TRUE(outputs[k].is_guard_intact()) << "wrote behind result " << k;
    const auto* bytes = static_cast<const unsigned char*>(out[k]);
    results.emplace_back();
    if (bytes != nullptr) results.back().assign(bytes, bytes + outputs[k].size());
  }
  return results;
}

Results reference_results(const KernelCase& test) {
  KernelRequest request = test.request;
  if (!test.exact) {
    for (TensorDesc& desc : request.outputs) {
      if (is_floating(desc.dtype)) desc.dtype = DType::kFloat64;
    }
  }
  const auto rows = kernel_rows(request.op, Backend::kReference);
  EXPECT_FALSE(rows.empty()) << "no reference kernel of " << request.op;
  if (rows.empty()) return {};
  auto kernel = rows.back()->prepare(request);
  EXPECT_TRUE(kernel.ok()) << kernel.status().message();
  if (!kernel.ok()) return {};
  auto results = run_on_host(**kernel, request, test.operands);
  EXPECT_TRUE(results.ok()) << results.status().message();
  return results.ok() ? *results : Results();
}

void compare(const KernelCase& test, const Results& got, const Results& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t k = 0; k < got.size(); ++k) {
    const TensorDesc& desc = test.request.outputs[k];
    if (!desc.present()) continue;
    if (test.exact || !is_floating(desc.dtype)) {
      EXPECT_EQ(got[k], expected[k]) << "result " << k << " differs in bits";
      continue;
    }
    double largest = 0.0;
    for (std::int64_t i = 0; test.cancels > 0.0 && i < desc.elems(); ++i) {
      const double value = std::fabs(decode(DType::kFloat64, expected[k].data(), i));
      if (std::isfinite(value)) largest = std::max(largest, value);
    }
    const double slack =
        tolerance(test.accum, test.accum, test.depth) * test.cancels * std::max(largest, 1e-30);
    for (std::int64_t i = 0; i < desc.elems(); ++i) {
      const double want = decode(DType::kFloat64, expected[k].data(), i);
      const double have = decode(desc.dtype, got[k].data(), i);
      ASSERT_TRUE(is_close(have, want, desc.dtype, test, slack))
          << "result " << k << ", element " << i << ": got " << have << ", expected " << want;
    }
  }
}

std::int64_t draw(Engine& engine, std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(engine);
}

DType draw_float(Engine& engine) {
  constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
  return kTypes[draw(engine, 0, 2)];
}

DType draw_integer_type(Engine& engine) {
  constexpr DType kTypes[] = {DType::kInt8,  DType::kInt16,  DType::kInt32,  DType::kInt64,
                              DType::kUInt8, DType::kUInt16, DType::kUInt32, DType::kUInt64};
  return kTypes[draw(engine, 0, 7)];
}

bool is_signed_type(DType dtype) {
  return dtype == DType::kInt8 || dtype == DType::kInt16 || dtype == DType::kInt32 ||
         dtype == DType::kInt64;
}

std::vector<std::int64_t> draw_dims(Engine& engine, std::size_t rank, std::int64_t most) {
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < rank; ++i) {
    dims.push_back(draw(engine, 0, 9) == 0 ? draw(engine, 0, 1) : draw(engine, 1, most));
  }
  return dims;
}

TensorDesc tensor(DType dtype, std::vector<std::int64_t> dims, Layout layout) {
  TensorDesc desc{dtype, std::move(dims), layout};
  if (desc.dims.size() < 3) desc.layout = Layout::kRowMajor;
  return desc;
}

Numbers draw_numbers(Engine& engine, const TensorDesc& desc, double deviation, bool specials) {
  Numbers numbers;
  std::normal_distribution<double> normal(0.0, deviation);
  const FloatFacts facts = float_facts(is_floating(desc.dtype) ? desc.dtype : DType::kFloat32);
  const double choices[] = {0.0,
                            -0.0,
                            INFINITY,
                            -INFINITY,
                            NAN,
                            facts.max,
                            -facts.max,
                            facts.min_subnormal,
                            -facts.min_normal,
                            1.0,
                            -1.0,
                            0.5};
  for (std::int64_t i = 0; i < desc.elems(); ++i) {
    const bool special = specials && draw(engine, 0, 15) == 0;
    const double number = special ? choices[draw(engine, 0, 11)] : normal(engine);
    unsigned char bytes[8];
    encode(desc.dtype, number, bytes, 0);
    numbers.push_back(decode(desc.dtype, bytes, 0));
  }
  return numbers;
}

Numbers draw_integers(Engine& engine, const TensorDesc& desc, std::int64_t least,
                      std::int64_t most) {
  Numbers numbers;
  for (std::int64_t i = 0; i < desc.elems(); ++i) {
    numbers.push_back(static_cast<double>(draw(engine, least, most)));
  }
  return numbers;
}

std::string describe_request(const KernelRequest& request) {
  std::string text = request.op;
  const auto add = [&](const TensorDesc& desc) {
    text += " " + std::string(dtype_name(desc.dtype)) + "[";
    for (const std::int64_t dim : desc.dims) text += std::to_string(dim) + " ";
    text += desc.layout == Layout::kChannelsLast ? "]cl" : "]";
  };
  for (const TensorDesc& desc : request.inputs) add(desc);
  text += " ->";
  for (const TensorDesc& desc : request.outputs) add(desc);
  for (const auto& [name, value] : request.attributes.values()) {
    text += " " + name + "=";
    if (const auto* number = std::get_if<std::int64_t>(&value)) text += std::to_string(*number);
    if (const auto* number = std::get_if<double>(&value)) text += std::to_string(*number);
    if (const auto* word = std::get_if<std::string>(&value)) text += *word;
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) {
      for (const std::int64_t item : *list) text += std::to_string(item) + ",";
    }
  }
  return text;
}

}  // namespace mezzo::kernels
