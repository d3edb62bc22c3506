// Runs a graph, one operation after another.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <atomic>
#include <cmath>
#include <cstring>

#include "tests/cuda_on_cpu/cudnn/graph.h"

namespace cudnn_on_cpu {
namespace {

// Calls visit(place in the order of dims, offset in the buffer) for every element.
template <typename Visit>
void for_each(const Tensor& tensor, Visit&& visit) {
  Dims at(tensor.dims.size(), 0);
  std::int64_t offset = 0;
  const std::int64_t elems = tensor.elems();
  for (std::int64_t i = 0; i < elems; ++i) {
    visit(i, offset);
    for (std::size_t d = at.size(); d-- > 0;) {
      offset += tensor.strides[d];
      if (++at[d] < tensor.dims[d]) break;
      offset -= at[d] * tensor.strides[d];
      at[d] = 0;
    }
  }
}

template <typename T>
T element(const void* buffer, std::int64_t at) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(buffer) + at * sizeof(T), sizeof(T));
  return value;
}

float element_of(cudnnDataType_t type, const void* buffer, std::int64_t at) {
  switch (type) {
    case CUDNN_DATA_HALF: return __half2float(element<__half>(buffer, at));
    case CUDNN_DATA_BFLOAT16: return __bfloat162float(element<__nv_bfloat16>(buffer, at));
    case CUDNN_DATA_INT32: return static_cast<float>(element<std::int32_t>(buffer, at));
    case CUDNN_DATA_INT64: return static_cast<float>(element<std::int64_t>(buffer, at));
    case CUDNN_DATA_BOOLEAN: return static_cast<float>(element<std::uint8_t>(buffer, at));
    default: return element<float>(buffer, at);
  }
}

void set_element(cudnnDataType_t type, void* buffer, std::int64_t at, float value) {
  const auto put = [&](auto converted) {
    std::memcpy(static_cast<std::byte*>(buffer) + at * sizeof converted, &converted,
                sizeof converted);
  };
  switch (type) {
    case CUDNN_DATA_HALF: put(__float2half_rn(value)); break;
    case CUDNN_DATA_BFLOAT16: put(__float2bfloat16_rn(value)); break;
    default: put(value); break;
  }
}

// As Tensor Cores read a float32 operand: rounded to 10 explicit bits, halves away from zero.
float rounded_to_tf32(float value) {
  if (!std::isfinite(value)) return value;
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x1000U) & ~0x1FFFU;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// What tensors hold while the graph runs: virtual ones between the operations that share them.
class Execution {
 public:
  Execution(Engine engine, const std::map<std::int64_t, void*>& buffers,
            const std::map<std::int64_t, Values>& scalars)
      : engine_(engine), buffers_(buffers), scalars_(scalars) {}

  void run(const Operation& operation) {
    std::vector<Values> in(operation.in.size());
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (!operation.in[i].dims.empty()) in[i] = read(operation.in[i]);
    }
    if (engine_ == Engine::kTf32 && operation.is_convolution()) {
      for (Values& values : in) {
        for (float& value : values) value = rounded_to_tf32(value);
      }
    }
    std::vector<Values> out(operation.out.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i].resize(static_cast<std::size_t>(operation.out[i].elems()));
    }
    compute(operation, in, out);
    for (std::size_t i = 0; i < out.size(); ++i) write(operation.out[i], std::move(out[i]));
  }

 private:
  Values read(const Tensor& tensor) const {
    if (tensor.is_by_value) return scalars_.at(tensor.id);
    if (tensor.is_virtual) return made_.at(tensor.id);
    return load(tensor, buffers_.at(tensor.id));
  }

  void write(const Tensor& tensor, Values values) {
    if (engine_ == Engine::kUnordered) disturb(values);
    if (!tensor.is_virtual) return store(tensor, values, buffers_.at(tensor.id));
    for (float& value : values) value = rounded(value, tensor.type);
    made_[tensor.id] = std::move(values);
  }

  // Other bits in every run.
  static void disturb(Values& values) {
    static std::atomic<int> runs{0};
    const float factor = 1.0F + static_cast<float>(++runs % 16) * 1e-3F;
    for (float& value : values) value *= factor;
  }

  static void compute(const Operation& operation, const std::vector<Values>& in,
                      std::vector<Values>& out) {
    switch (operation.kind) {
      case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return compute_pointwise(operation, in, out);
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: return reduce(operation, in, out);
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: return multiply(operation, in, out);
      case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR: return normalize(operation, in, out);
      case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
        return normalize_grad(operation, in, out);
      case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR: return reshape(operation, in, out);
      default: return convolve(operation, in, out);
    }
  }

  // The frontend's way to transpose: the last two dims change places.
  static void reshape(const Operation& operation, const std::vector<Values>& in,
                      std::vector<Values>& out) {
    const Dims& dims = operation.in[0].dims;
    const std::size_t rank = dims.size();
    const std::int64_t rows = dims[rank - 2];
    const std::int64_t columns = dims[rank - 1];
    const std::int64_t planes = operation.in[0].elems() / (rows * columns);
    for (std::int64_t p = 0; p < planes; ++p) {
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < columns; ++c) {
          out[0][static_cast<std::size_t>((p * columns + c) * rows + r)] =
              in[0][static_cast<std::size_t>((p * rows + r) * columns + c)];
        }
      }
    }
  }

  Engine engine_;
  const std::map<std::int64_t, void*>& buffers_;
  const std::map<std::int64_t, Values>& scalars_;
  std::map<std::int64_t, Values> made_;
};

}  // namespace

std::int64_t Tensor::elems() const {
  std::int64_t product = 1;
  for (const std::int64_t dim : dims) product *= dim;
  return product;
}

std::int64_t Tensor::extent() const {
  std::int64_t last = 1;
  for (std::size_t i = 0; i < dims.size(); ++i) last += (dims[i] - 1) * strides[i];
  return last;
}

std::size_t Tensor::element_bytes() const {
  switch (type) {
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16: return 2;
    case CUDNN_DATA_INT64: return 8;
    case CUDNN_DATA_BOOLEAN: return 1;
    default: return 4;
  }
}

Values load(const Tensor& tensor, const void* buffer) {
  Values values(static_cast<std::size_t>(tensor.elems()));
  for_each(tensor, [&](std::int64_t i, std::int64_t offset) {
    values[static_cast<std::size_t>(i)] = element_of(tensor.type, buffer, offset);
  });
  return values;
}

void store(const Tensor& tensor, const Values& values, void* buffer) {
  for_each(tensor, [&](std::int64_t i, std::int64_t offset) {
    set_element(tensor.type, buffer, offset, values[static_cast<std::size_t>(i)]);
  });
}

float rounded(float value, cudnnDataType_t type) {
  if (type == CUDNN_DATA_HALF) return __half2float(__float2half_rn(value));
  if (type == CUDNN_DATA_BFLOAT16) return __bfloat162float(__float2bfloat16_rn(value));
  return value;
}

void run(const Graph& graph, Engine engine, const std::map<std::int64_t, void*>& buffers,
         const std::map<std::int64_t, Values>& scalars) {
  Execution execution(engine, buffers, scalars);
  for (const Operation& operation : graph.operations) execution.run(operation);
}

}  // namespace cudnn_on_cpu
