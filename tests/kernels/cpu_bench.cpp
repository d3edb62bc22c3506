// Bytes per second of the CPU kernels on one thread, beside memcpy. Operands are far larger than
// the caches.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "kernels/kernel.h"

namespace mezzo::kernels {
namespace {

using Dims = std::vector<std::int64_t>;

struct Free {
  void operator()(unsigned char* p) const { ::operator delete[](p, std::align_val_t{64}); }
};
using Bytes = std::unique_ptr<unsigned char, Free>;

Bytes make_bytes(std::size_t size) {
  Bytes bytes(static_cast<unsigned char*>(::operator new[](size + 64, std::align_val_t{64})));
  // 0x3c3c.. is a modest positive number in every floating type.
  std::memset(bytes.get(), 0x3c, size);
  return bytes;
}

void run(benchmark::State& state, const KernelRequest& request, const KernelEntry& row) {
  auto kernel = row.prepare(request);
  if (!kernel.ok()) return state.SkipWithError(kernel.status().message().c_str());
  std::vector<Bytes> buffers;
  std::vector<const void*> in;
  std::vector<void*> out;
  std::size_t moved = 0;
  for (const TensorDesc& desc : request.inputs) {
    buffers.push_back(make_bytes(desc.bytes()));
    if (!is_floating(desc.dtype)) std::memset(buffers.back().get(), 0, desc.bytes());
    in.push_back(buffers.back().get());
    moved += desc.bytes();
  }
  for (const TensorDesc& desc : request.outputs) {
    buffers.push_back(make_bytes(desc.bytes()));
    out.push_back(buffers.back().get());
    moved += desc.bytes();
  }
  const Bytes workspace = make_bytes((*kernel)->workspace_bytes());
  for (auto _ : state) {
    if (!(*kernel)->run({in, out, workspace.get()}).ok()) return state.SkipWithError("run failed");
    benchmark::ClobberMemory();
  }
  state.SetLabel(std::string((*kernel)->implementation()));
  state.SetBytesProcessed(static_cast<std::int64_t>(moved) * state.iterations());
}

void copy_memory(benchmark::State& state) {
  constexpr std::size_t kSize = 64 << 20;
  const Bytes from = make_bytes(kSize);
  const Bytes to = make_bytes(kSize);
  for (auto _ : state) {
    std::memcpy(to.get(), from.get(), kSize);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(2 * kSize) * state.iterations());
}

TensorDesc f32(Dims dims, Layout layout = Layout::kRowMajor) {
  return {DType::kFloat32, std::move(dims), layout};
}
TensorDesc bf16(Dims dims, Layout layout = Layout::kRowMajor) {
  return {DType::kBFloat16, std::move(dims), layout};
}
TensorDesc f16(Dims dims) { return {DType::kFloat16, std::move(dims), Layout::kRowMajor}; }

TensorDesc of(DType dtype, Dims dims) { return {dtype, std::move(dims), Layout::kRowMajor}; }

struct BenchCase {
  const char* name;
  KernelRequest request;
};

KernelRequest request_of(std::string op, std::vector<TensorDesc> inputs,
                         std::vector<TensorDesc> outputs, Attributes attributes = {}) {
  return {std::move(op), std::move(attributes), std::move(inputs), std::move(outputs), 1};
}

// Doubles, integers and truth values.
std::vector<BenchCase> typed_cases() {
  const Dims flat = {4096, 4096};
  const TensorDesc f64 = of(DType::kFloat64, flat), i64 = of(DType::kInt64, flat);
  const TensorDesc i32 = of(DType::kInt32, flat), u8 = of(DType::kUInt8, flat);
  const TensorDesc truth = of(DType::kBool, flat);
  Attributes first, last, along_last;
  first.set("axes", Dims{0});
  last.set("axes", Dims{1});
  along_last.set("axis", std::int64_t{1});
  return {
      {"Add f64", request_of("Add", {f64, f64}, {f64})},
      {"Add i64", request_of("Add", {i64, i64}, {i64})},
      {"Mul i64 scalar", request_of("Mul", {i64, of(DType::kInt64, {})}, {i64})},
      {"Mul i32", request_of("Mul", {i32, i32}, {i32})},
      {"Add u8", request_of("Add", {u8, u8}, {u8})},
      {"Add f64 + bf16", request_of("Add", {f64, bf16(flat)}, {f64})},
      {"Less i64", request_of("Less", {i64, i64}, {truth})},
      {"Equal i64 scalar", request_of("Equal", {i64, of(DType::kInt64, {})}, {truth})},
      {"And", request_of("And", {truth, truth}, {truth})},
      {"Not", request_of("Not", {truth}, {truth})},
      {"Where f32", request_of("Where", {truth, f32(flat), f32(flat)}, {f32(flat)})},
      {"Where i64", request_of("Where", {truth, i64, i64}, {i64})},
      {"Clip i32", request_of("Clip", {i32, of(DType::kInt32, {}), of(DType::kInt32, {})}, {i32})},
      {"Relu f64", request_of("Relu", {f64}, {f64})},
      {"Exp f64", request_of("Exp", {f64}, {f64})},
      {"Sqrt f64", request_of("Sqrt", {f64}, {f64})},
      {"Mish f32", request_of("Mish", {f32(flat)}, {f32(flat)})},
      {"PRelu f32", request_of("PRelu", {f32(flat), f32({4096, 1})}, {f32(flat)})},
      {"Atan f32", request_of("Atan", {f32(flat)}, {f32(flat)})},
      {"Cast i64 f32", request_of("Cast", {i64}, {f32(flat)})},
      {"Cast f32 i64", request_of("Cast", {f32(flat)}, {i64})},
      {"Cast f64 f16", request_of("Cast", {f64}, {f16(flat)})},
      {"Cast bool f32", request_of("Cast", {truth}, {f32(flat)})},
      {"Cast u8 f32", request_of("Cast", {u8}, {f32(flat)})},
      {"Sum of 3 f32", request_of("Sum", {f32(flat), f32(flat), f32(flat)}, {f32(flat)})},
      {"ReduceSum f64 rows",
       request_of("ReduceSum", {f64}, {of(DType::kFloat64, {4096, 1})}, last)},
      {"ReduceSum i64 columns",
       request_of("ReduceSum", {i64}, {of(DType::kInt64, {1, 4096})}, first)},
      {"ReduceMax i32 rows", request_of("ReduceMax", {i32}, {of(DType::kInt32, {4096, 1})}, last)},
      {"ReduceL1 f32 rows", request_of("ReduceL1", {f32(flat)}, {f32({4096, 1})}, last)},
      {"ArgMax f32 rows",
       request_of("ArgMax", {f32(flat)}, {of(DType::kInt64, {4096, 1})}, along_last)},
      {"ArgMax f32 columns", request_of("ArgMax", {f32(flat)}, {of(DType::kInt64, {1, 4096})})},
      {"CumSum f32 rows", request_of("CumSum", {f32(flat)}, {f32(flat)}, along_last)},
      {"CumSum i64 columns", request_of("CumSum", {i64}, {i64})},
      {"QuantizeLinear f32 u8",
       request_of("QuantizeLinear", {f32(flat), f32({}), of(DType::kUInt8, {})}, {u8})},
      {"QuantizeLinear f32 u8 per row",
       request_of("QuantizeLinear", {f32(flat), f32({4096}), of(DType::kUInt8, {4096})}, {u8})},
      {"DequantizeLinear u8 f32",
       request_of("DequantizeLinear", {u8, f32({}), of(DType::kUInt8, {})}, {f32(flat)})},
      {"DynamicQuantizeLinear",
       request_of("DynamicQuantizeLinear", {f32(flat)}, {u8, f32({}), of(DType::kUInt8, {})})},
  };
}

KernelRequest program_of(const char* program, std::vector<TensorDesc> inputs, TensorDesc output) {
  Attributes attributes;
  attributes.set("program", std::string(program));
  return request_of("FusedElementwise", std::move(inputs), {std::move(output)}, attributes);
}

// Programs, and the operators that they stand for; compare milliseconds, not bytes.
std::vector<BenchCase> fused_cases() {
  const Dims flat = {4096, 4096};
  const TensorDesc x = f32(flat), low = bf16(flat);
  return {
      {"Fused Add row, Gelu bf16",
       program_of("t0 = Add(x0, x1); y = Gelu(t0)", {low, bf16({4096})}, low)},
      {"- Add row bf16", request_of("Add", {low, bf16({4096})}, {low})},
      {"- Gelu bf16", request_of("Gelu", {low}, {low})},
      {"Fused Add, Relu f32", program_of("t0 = Add(x0, x1); y = Relu(t0)", {x, x}, x)},
      {"- Add f32", request_of("Add", {x, x}, {x})},
      {"- Relu f32", request_of("Relu", {x}, {x})},
      {"Fused Sigmoid, Mul, Add f32",
       program_of("t0 = Sigmoid(x0); t1 = Mul(t0, x1); y = Add(t1, x2)", {x, x, x}, x)},
      {"- Sigmoid f32", request_of("Sigmoid", {x}, {x})},
      {"- Mul f32", request_of("Mul", {x, x}, {x})},
      {"Fused Mul, Mul, Add scalars f32",
       program_of("t0 = Mul(x0, 2); t1 = Mul(t0, 3); y = Add(t1, 1)", {x}, x)},
      {"- Mul f32 scalar", request_of("Mul", {x, f32({})}, {x})},
  };
}

std::vector<BenchCase> bench_cases() {
  const Dims flat = {4096, 4096};
  const Dims image = {32, 64, 56, 56};
  const Dims few_pixels = {64, 512, 7, 7};
  const Dims channel = {64};
  const auto last = Layout::kChannelsLast;
  Attributes pool;
  pool.set("kernel_shape", Dims{3, 3});
  pool.set("strides", Dims{2, 2});
  pool.set("pads", Dims{1, 1, 1, 1});
  Attributes training;
  training.set("training_mode", std::int64_t{1});
  Attributes heads;
  heads.set("perm", Dims{0, 2, 1, 3});
  const auto resize = [](const char* mode, TensorDesc x, TensorDesc y) {
    Attributes attributes;
    attributes.set("mode", std::string(mode));
    return request_of("Resize", {std::move(x)}, {std::move(y)}, attributes);
  };
  Attributes reflect;
  reflect.set("mode", std::string("reflect"));
  reflect.set("pads", Dims{0, 0, 1, 1, 0, 0, 1, 1});
  Attributes columns;
  columns.set("axis", std::int64_t{1});
  Attributes shuffle;
  shuffle.set("perm", Dims{0, 1, 4, 2, 5, 3});
  Attributes channels_first;
  channels_first.set("perm", Dims{0, 3, 1, 2});
  Attributes regions;
  regions.set("output_height", std::int64_t{7});
  regions.set("output_width", std::int64_t{7});
  regions.set("sampling_ratio", std::int64_t{2});
  const auto batch_norm = [&](TensorDesc x, const Dims& c) {
    return request_of("BatchNormalization", {x, f32(c), f32(c), f32(c), f32(c)},
                      {x, f32(c), f32(c), f32(c), f32(c)}, training);
  };
  const auto batch_norm_grad = [&](TensorDesc x, const Dims& c) {
    return request_of("BatchNormalizationGrad", {x, x, f32(c), f32(c), f32(c)},
                      {x, f32(c), f32(c)});
  };
  const auto max_pool = [&](Layout layout) {
    return request_of("MaxPool", {f32({32, 64, 112, 112}, layout)},
                      {f32(image, layout), {DType::kInt64, image, layout}}, pool);
  };
  return {
      {"Add f32", request_of("Add", {f32(flat), f32(flat)}, {f32(flat)})},
      {"Add bf16", request_of("Add", {bf16(flat), bf16(flat)}, {bf16(flat)})},
      {"Add f32 + row", request_of("Add", {f32(flat), f32({4096})}, {f32(flat)})},
      {"Add f32 + channel", request_of("Add", {f32(image), f32({64, 1, 1})}, {f32(image)})},
      {"Relu f32", request_of("Relu", {f32(flat)}, {f32(flat)})},
      {"Relu bf16", request_of("Relu", {bf16(flat)}, {bf16(flat)})},
      {"Gelu f32", request_of("Gelu", {f32(flat)}, {f32(flat)})},
      {"Gelu bf16", request_of("Gelu", {bf16(flat)}, {bf16(flat)})},
      {"GeluGrad bf16", request_of("GeluGrad", {bf16(flat), bf16(flat)}, {bf16(flat)})},
      {"Swish bf16", request_of("Swish", {bf16(flat)}, {bf16(flat)})},
      {"Cast f32 f16", request_of("Cast", {f32(flat)}, {f16(flat)})},
      {"Cast f32 bf16", request_of("Cast", {f32(flat)}, {bf16(flat)})},
      {"Cast f16 f32", request_of("Cast", {f16(flat)}, {f32(flat)})},
      {"Softmax f32 128", request_of("Softmax", {f32({131072, 128})}, {f32({131072, 128})})},
      {"Softmax f32 4096", request_of("Softmax", {f32(flat)}, {f32(flat)})},
      {"Softmax bf16 4096", request_of("Softmax", {bf16(flat)}, {bf16(flat)})},
      {"LayerNorm f32 768",
       request_of("LayerNormalization", {f32({16384, 768}), f32({768}), f32({768})},
                  {f32({16384, 768}), f32({16384, 1}), f32({16384, 1})})},
      {"LayerNormGrad f32 768", request_of("LayerNormalizationGrad",
                                           {f32({16384, 768}), f32({16384, 768}), f32({768}),
                                            f32({16384, 1}), f32({16384, 1})},
                                           {f32({16384, 768}), f32({768}), f32({768})})},
      {"BatchNorm f32", batch_norm(f32(image), channel)},
      {"BatchNorm f32 channels-last", batch_norm(f32(image, last), channel)},
      {"BatchNorm bf16 channels-last", batch_norm(bf16(image, last), channel)},
      {"BatchNorm f32 few pixels", batch_norm(f32(few_pixels), {512})},
      {"BatchNormGrad f32", batch_norm_grad(f32(image), channel)},
      {"BatchNormGrad bf16 channels-last", batch_norm_grad(bf16(image, last), channel)},
      {"SumTo rows", request_of("SumTo", {f32(flat)}, {f32({4096})})},
      {"SumTo columns", request_of("SumTo", {f32(flat)}, {f32({4096, 1})})},
      {"SumTo narrow", request_of("SumTo", {f32({1048576, 10})}, {f32({10})})},
      {"SumTo bf16 rows", request_of("SumTo", {bf16(flat)}, {f32({4096})})},
      {"SumTo channel", request_of("SumTo", {f32(image)}, {f32({64, 1, 1})})},
      {"Reorder f32", request_of("Reorder", {f32(image)}, {f32(image, last)})},
      {"Reorder bf16", request_of("Reorder", {bf16(image)}, {bf16(image, last)})},
      {"Reorder back f32", request_of("Reorder", {f32(image, last)}, {f32(image)})},
      {"Transpose f32", request_of("Transpose", {f32(flat)}, {f32(flat)})},
      {"Transpose heads",
       request_of("Transpose", {f32({32, 512, 12, 64})}, {f32({32, 12, 512, 64})}, heads)},
      {"MaxPool", max_pool(Layout::kRowMajor)},
      {"MaxPool channels-last", max_pool(last)},
      {"Dropout f32", request_of("Dropout", {f32(flat), {DType::kInt64, {}, Layout::kRowMajor}},
                                 {f32(flat), {DType::kBool, flat, Layout::kRowMajor}})},
      {"Resize nearest x2 f32", resize("nearest", f32(image), f32({32, 64, 112, 112}))},
      {"Resize nearest x2 bf16", resize("nearest", bf16(image), bf16({32, 64, 112, 112}))},
      {"Resize linear x2 f32", resize("linear", f32(image), f32({32, 64, 112, 112}))},
      {"Resize linear x2 bf16", resize("linear", bf16(image), bf16({32, 64, 112, 112}))},
      {"Resize linear half f32", resize("linear", f32({32, 64, 112, 112}), f32(image))},
      {"Resize cubic x2 f32", resize("cubic", f32(image), f32({32, 64, 112, 112}))},
      {"Pad reflect f32", request_of("Pad", {f32(image)}, {f32({32, 64, 58, 58})}, reflect)},
      {"Gather rows of 768",
       request_of("Gather", {f32({30000, 768}), {DType::kInt64, {16384}, Layout::kRowMajor}},
                  {f32({16384, 768})})},
      {"Gather columns",
       request_of("Gather", {f32(flat), {DType::kInt64, {4096}, Layout::kRowMajor}}, {f32(flat)},
                  columns)},
      {"Transpose pixel shuffle", request_of("Transpose", {f32({8, 64, 2, 2, 56, 56})},
                                             {f32({8, 64, 56, 2, 56, 2})}, shuffle)},
      {"Transpose N H W 3",
       request_of("Transpose", {f32({16, 224, 224, 3})}, {f32({16, 3, 224, 224})}, channels_first)},
      {"GridSample linear f32",
       request_of("GridSample", {f32({8, 64, 56, 56}), f32({8, 56, 56, 2})},
                  {f32({8, 64, 56, 56})})},
      {"RoiAlign f32",
       request_of(
           "RoiAlign",
           {f32({1, 256, 100, 100}), f32({512, 4}), {DType::kInt64, {512}, Layout::kRowMajor}},
           {f32({512, 256, 7, 7})}, regions)},
      {"GatherGrad",
       request_of("GatherGrad", {f32({16384, 768}), {DType::kInt64, {16384}, Layout::kRowMajor}},
                  {f32({16384, 768})})},
  };
}

const bool registered = [] {
  benchmark::RegisterBenchmark("memcpy", copy_memory);
  std::vector<BenchCase> cases = bench_cases();
  for (BenchCase& test : typed_cases()) cases.push_back(std::move(test));
  for (BenchCase& test : fused_cases()) cases.push_back(std::move(test));
  for (const BenchCase& test : cases) {
    // Every row that is faster than the reference: oneDNN's beside ours where both exist.
    for (const KernelEntry* row : kernel_rows(test.request.op, Backend::kCpu)) {
      if (row->implementation == "reference" || !row->prepare(test.request).ok()) continue;
      benchmark::RegisterBenchmark(
          test.name,
          [request = test.request, row](benchmark::State& state) { run(state, request, *row); });
    }
  }
  return true;
}();

}  // namespace
}  // namespace mezzo::kernels
