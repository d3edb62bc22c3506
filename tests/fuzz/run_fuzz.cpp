// The interpreter over any model that loads, on inputs drawn from its bytes: whatever a graph asks
// for, it ends with outputs or an error, within its limits.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "compiler/interpreter/interpreter.h"
#include "compiler/onnx/function_calls.h"
#include "compiler/onnx/import.h"
#include "fuzz_target.h"
#include "onnx/onnx_pb.h"
#include "passes/pass_runner.h"
#include "passes/pipeline.h"

namespace mezzo::fuzz {
namespace {

constexpr std::uint64_t kMostNodes = 100;
// Reference kernels under the sanitizers take microseconds per number.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 17;
constexpr int kMostRuns = 300;  // of nodes
constexpr std::int64_t kMostDim = 5;

// Bytes that repeat those of the model, so that a mutation changes the inputs as well.
std::vector<std::byte> draw(Bytes bytes, std::size_t count) {
  std::vector<std::byte> drawn(count);
  for (std::size_t i = 0; i < count && !bytes.empty(); ++i)
    drawn[i] = static_cast<std::byte>(bytes[(i * 7) % bytes.size()]);
  return drawn;
}

RuntimeValue make_input(Interpreter& interpreter, const Value& input, Bytes bytes) {
  if (!input.type.is_tensor() || dtype_bits(input.dtype()) % 8 != 0 ||
      input.dtype() == DType::kNone)
    return {};
  if (dtype_bits(input.dtype()) == 0) return {};
  std::vector<std::int64_t> dims;
  std::int64_t elems = 1;
  if (input.tensor_type().shape) {
    for (const Dim& dim : *input.tensor_type().shape) {
      dims.push_back(dim.known() ? std::min(dim.value, kMostDim) : 2);
      if (elems > 0 && dims.back() > 0 && elems > 4096 / dims.back()) return {};
      elems *= dims.back();
    }
  }
  std::vector<std::byte> data = draw(bytes, dtype_bytes(input.dtype(), elems));
  // Bools are 0 or 1, floats small: nearly all others are NaN or huge.
  if (input.dtype() == DType::kBool) {
    for (std::byte& value : data) value &= std::byte{1};
  }
  if (input.dtype() == DType::kFloat32) {
    for (std::size_t i = 0; i + 4 <= data.size(); i += 4) {
      const float value = static_cast<float>(static_cast<int>(data[i])) / 16.0F - 4.0F;
      std::memcpy(&data[i], &value, sizeof(value));
    }
  }
  auto tensor = interpreter.make_tensor(input.dtype(), dims, data);
  return tensor.ok() ? RuntimeValue(std::move(tensor).value()) : RuntimeValue();
}

void run(Bytes bytes) {
  const auto model = load_model(write_scratch("model.onnx", bytes));
  if (!model.ok() || !count_expanded_nodes(**model, kMostNodes).ok()) return;
  passes::PassContext ctx;
  ctx.policy.force_fp32 = true;
  const Status status = run_passes(**model, ctx, passes::interpreter_pipeline(ctx));
  if (!accepted(status, "the passes of run")) return;
  int runs = 0;
  InterpreterOptions options;
  options.backend = kernels::Backend::kReference;
  options.most_iterations = 20;
  options.most_bytes = kMostBytes;
  options.observer = [&](const NodeRun&) {
    return ++runs > kMostRuns ? invalid_argument("enough nodes") : ok_status();
  };
  Interpreter interpreter(**model, options);
  std::vector<RuntimeValue> inputs;
  for (const Value* input : (*model)->graph->inputs())
    inputs.push_back(make_input(interpreter, *input, bytes));
  const auto outputs = interpreter.run(std::move(inputs));
  accepted(outputs.status(), "a run");
  demand(interpreter.peak_bytes() <= kMostBytes, "memory stays within its limit");
}

std::unique_ptr<google::protobuf::Message> new_message() {
  return std::make_unique<onnx::ModelProto>();
}

}  // namespace

const Target run_target = {"run", run, new_message};

}  // namespace mezzo::fuzz
