// A converted network of a few nodes, and what passes would have recorded about it.
#pragma once

#include <memory>
#include <string>

#include "compiler/onnx/import.h"
#include "compiler/report/report.h"
#include "tests/support/status_test.h"

namespace mezzo::test {

inline constexpr const char* kSmallModel = R"(
<ir_version: 9, opset_import: ["" : 17]>
small (float[2,4] x, int64[2] labels) => (float[2,3] y)
<float16[4,3] w = {0,0,0,0,0,0,0,0,0,0,0,0}>
{
  [to_low] x_fp16 = Cast <to: int = 10> (x)
  [scale] s = Constant <value: tensor = float16 {2}> ()
  [matmul] h = MatMul (x_fp16, w)
  [mul] m = Mul (h, s)
  [relu] r = Relu (m)
  [to_fp32] r_fp32 = Cast <to: int = 1> (r)
  [softmax] y = Softmax (r_fp32)
}
)";

inline NodeDecision decision(std::string name, std::string op, DType dtype, Rule rule,
                             std::string cause, double flops, std::uint64_t bytes) {
  NodeDecision node;
  node.node = std::move(name);
  node.op_type = std::move(op);
  node.dtype = dtype;
  node.rule = rule;
  node.cause = std::move(cause);
  node.flops = flops;
  node.bytes = bytes;
  return node;
}

inline Records small_records() {
  Records records;
  records.model = "small.onnx";
  records.target = "cpu";
  records.precision = "fp16";
  records.tool_version = "0.1.0";
  records.policy = {{"low", "float16"}, {"pin_softmax", "true"}};
  records.nodes = {
      decision("scale", "Constant", DType::kFloat16, Rule::kCut, "clear, cheaper low", 0, 2),
      decision("matmul", "MatMul", DType::kFloat16, Rule::kCategory,
               "allow: MatMul accumulates in FP32", 48, 52),
      decision("mul", "Mul", DType::kFloat16, Rule::kCut, "infer, follows 'matmul'", 6, 26),
      decision("relu", "Relu", DType::kFloat16, Rule::kCut, "infer, follows 'mul'", 6, 24),
      decision("softmax", "Softmax", DType::kFloat32, Rule::kPin, "softmax is pinned to FP32", 20,
               48),
      decision("gone", "Shape", DType::kNone, Rule::kNotFloat, "no FP32 operand or result", 0, 8)};
  const auto cast = [](std::string value, std::string producer, std::vector<std::string> consumers,
                       DType from, DType to, std::uint64_t bytes, std::string cause, bool ahead) {
    CastDecision made;
    made.value = std::move(value);
    made.producer = std::move(producer);
    made.consumers = std::move(consumers);
    made.from = from;
    made.to = to;
    made.bytes = bytes;
    made.cause = std::move(cause);
    made.ahead_of_time = ahead;
    return made;
  };
  constexpr DType kF32 = DType::kFloat32, kF16 = DType::kFloat16;
  records.casts = {
      cast("x", "input", {"matmul"}, kF32, kF16, 48, "'matmul' (MatMul) takes float16", false),
      cast("w", "initializer", {"matmul"}, kF32, kF16, 0, "weight stored low", true),
      cast("r", "relu", {"softmax"}, kF16, kF32, 36, "'softmax' (Softmax) takes float", false),
      cast("folded", "relu", {"relu"}, kF16, kF32, 1000, "made, then folded", false)};
  records.warnings = {"opset 17 is old"};
  records.pads = {"matmul: 3 -> 8 columns does not pay"};
  records.cost = {"cut", 1.5, 2.25, 4};
  records.comparison = {{"default", true, 62, 48, 2, 84, 24, 60, 1.5},
                        {"inference", false, 62, 62, 1, 48, 24, 36, 1.25}};
  records.weight_bytes_before = 48;
  records.weight_bytes_after = 24;
  records.activation_bytes_before = 96;
  records.activation_bytes_after = 60;
  return records;
}

inline CalibrationRecord small_calibration() {
  CalibrationRecord found;
  found.sources = {"a.npz", "b.npz"};
  found.samples = 7;
  found.tensors = 5;
  found.near_limit = {{"m", "loop1 > ", -3, 170154, 1e-9, 2, 1,
                       "reaches 170154 on the samples, beyond float16's 65504"}};
  found.changes = {{"matmul", "", "MatMul", DType::kFloat16, DType::kFloat32},
                   {"relu", "", "Relu", DType::kFloat32, DType::kFloat16}};
  found.avoided_by_bf16 = 1;
  found.output_error = 0.00123;
  found.checked_samples = 3;
  found.worst_output = "s";
  return found;
}

inline Report small_report(const Records& records = small_records()) {
  const std::unique_ptr<Model> model = value_or_die(import_text(kSmallModel));
  // Types of results, as inference would give them.
  for (const auto& [name, dtype] : {std::pair("x_fp16", DType::kFloat16),
                                    {"s", DType::kFloat16},
                                    {"h", DType::kFloat16},
                                    {"m", DType::kFloat16},
                                    {"r", DType::kFloat16},
                                    {"r_fp32", DType::kFloat32}}) {
    const std::vector<std::int64_t> dims = name == std::string("x_fp16")
                                               ? std::vector<std::int64_t>{2, 4}
                                               : std::vector<std::int64_t>{2, 3};
    model->graph->find(name)->type = TensorType::of(dtype, dims);
  }
  return make_report(*model, records);
}

}  // namespace mezzo::test
