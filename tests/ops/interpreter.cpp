#include "tests/ops/interpreter.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "compiler/ops/op_def.h"

namespace mezzo::test {
namespace {

DType widened(DType dtype) { return is_floating(dtype) ? DType::kFloat64 : dtype; }

StatusOr<kernels::TensorDesc> desc_of(const Node& node, const Value* value) {
  if (value == nullptr) return kernels::TensorDesc{};
  if (!value->type.is_tensor() || !value->tensor_type().has_static_shape()) {
    return internal_error(describe(node) + ": '" + value->name() + "' has type " +
                          to_string(value->type));
  }
  return kernels::TensorDesc{widened(value->dtype()), value->tensor_type().dims(), {}};
}

kernels::Attributes attributes_of(const LoweredOp& lowered) {
  kernels::Attributes attributes;
  for (const Attribute& attribute : lowered.attributes) {
    std::visit(
        [&](const auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, std::vector<float>>) {
            attributes.set(attribute.name, std::vector<double>(value.begin(), value.end()));
          } else if constexpr (std::is_same_v<T, float>) {
            attributes.set(attribute.name, static_cast<double>(value));
          } else if constexpr (std::is_constructible_v<kernels::Attributes::Value, T>) {
            attributes.set(attribute.name, value);
          }
        },
        attribute.value);
  }
  return attributes;
}

StatusOr<kernels::KernelRequest> request_of(const Node& node, const LoweredOp& lowered) {
  kernels::KernelRequest request;
  request.op = lowered.kernel;
  request.attributes = attributes_of(lowered);
  for (const Value* operand : lowered.operands) {
    MEZZO_ASSIGN_OR_RETURN(kernels::TensorDesc desc, desc_of(node, operand));
    request.inputs.push_back(std::move(desc));
  }
  for (const Value* result : node.results()) {
    MEZZO_ASSIGN_OR_RETURN(kernels::TensorDesc desc, desc_of(node, result));
    request.outputs.push_back(std::move(desc));
  }
  return request;
}

Buffer buffer_of(const Tensor& tensor) {
  if (is_floating(tensor.dtype())) return Buffer::doubles(tensor.dims(), tensor.to_doubles());
  Buffer buffer = Buffer::of(tensor.dtype(), tensor.dims());
  const std::vector<std::byte> bytes = tensor.copy_bytes();
  std::copy(bytes.begin(), bytes.end(), static_cast<std::byte*>(buffer.data()));
  return buffer;
}

Status run_kernel(const kernels::KernelRequest& request, const LoweredOp& lowered, const Node& node,
                  Environment& environment) {
  MEZZO_ASSIGN_OR_RETURN(const auto kernel,
                         kernels::prepare_kernel(request, kernels::Backend::kReference));
  std::vector<const void*> inputs;
  for (const Value* operand : lowered.operands) {
    inputs.push_back(operand ? environment.at(operand).data() : nullptr);
  }
  std::vector<Buffer> results;
  for (const kernels::TensorDesc& desc : request.outputs)
    results.push_back(Buffer::of(desc.dtype, desc.dims));
  std::vector<void*> outputs;
  for (std::size_t i = 0; i < results.size(); ++i) {
    outputs.push_back(node.result(i) ? results[i].data() : nullptr);
  }
  std::vector<Buffer::Block> workspace(kernel->workspace_bytes() / sizeof(Buffer::Block) + 1);
  MEZZO_RETURN_IF_ERROR(kernel->run({inputs, outputs, workspace.data()}));
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (node.result(i) != nullptr) environment[node.result(i)] = std::move(results[i]);
  }
  return ok_status();
}

Status run_node(const Node& node, Environment& environment) {
  MEZZO_ASSIGN_OR_RETURN(const LoweredOp lowered, lower(node));
  MEZZO_ASSIGN_OR_RETURN(const kernels::KernelRequest request, request_of(node, lowered));
  for (const Value* operand : lowered.operands) {
    if (operand == nullptr || environment.count(operand) > 0) continue;
    if (!operand->constant())
      return internal_error(describe(node) + ": '" + operand->name() + "' has no value");
    environment[operand] = buffer_of(*operand->constant());
  }
  if (!lowered.alias) return run_kernel(request, lowered, node, environment);
  Buffer copy = environment.at(lowered.operands.at(0));
  if (copy.desc.elems() != request.outputs.at(0).elems()) {
    return internal_error(describe(node) + ": an alias with another number of elements");
  }
  copy.desc.dims = request.outputs[0].dims;
  environment[node.result()] = std::move(copy);
  return ok_status();
}

}  // namespace

Buffer Buffer::of(DType dtype, std::vector<std::int64_t> dims) {
  Buffer buffer;
  buffer.desc = {widened(dtype), std::move(dims), {}};
  buffer.storage.resize(buffer.desc.bytes() / sizeof(Buffer::Block) + 1);
  return buffer;
}

Buffer Buffer::doubles(std::vector<std::int64_t> dims, const std::vector<double>& values) {
  Buffer buffer = of(DType::kFloat64, std::move(dims));
  std::copy(values.begin(), values.end(), buffer.values());
  return buffer;
}

Buffer Buffer::ints(DType dtype, std::vector<std::int64_t> dims,
                    const std::vector<std::int64_t>& values) {
  Buffer buffer = of(dtype, std::move(dims));
  const std::size_t size = dtype_bytes(dtype, 1);
  for (std::size_t i = 0; i < values.size(); ++i) {  // little-endian: the low bytes come first
    std::memcpy(static_cast<char*>(buffer.data()) + i * size, &values[i], size);
  }
  return buffer;
}

std::vector<double> Buffer::to_doubles() const {
  std::vector<double> list;
  const std::size_t count = static_cast<std::size_t>(desc.elems());
  for (std::size_t i = 0; i < count; ++i) {
    if (desc.dtype == DType::kFloat64) {
      list.push_back(values()[i]);
    } else {
      std::int64_t element = 0;
      const std::size_t size = dtype_bytes(desc.dtype, 1);
      std::memcpy(&element, static_cast<const char*>(data()) + i * size, size);
      list.push_back(static_cast<double>(element));
    }
  }
  return list;
}

StatusOr<kernels::KernelRequest> request_for(const Node& node) {
  MEZZO_ASSIGN_OR_RETURN(const LoweredOp lowered, lower(node));
  return request_of(node, lowered);
}

Status interpret(const Graph& graph, Environment& environment) {
  for (const auto& node : graph.nodes()) MEZZO_RETURN_IF_ERROR(run_node(*node, environment));
  return ok_status();
}

}  // namespace mezzo::test
