#include "tests/bench/bench_models.h"

#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ops/op_def.h"

namespace mezzo::bench {
namespace {

using Ints = std::vector<std::int64_t>;

// A graph under construction: layers named as PyTorch would name their parameters.
class Maker {
 public:
  explicit Maker(std::string_view name) : model_(std::make_unique<Model>()) {
    model_->ir_version = 9;
    model_->set_opset("", 20);
    model_->graph = std::make_unique<Graph>(std::string(name));
    builder_.emplace(*model_->graph, type_inference(*model_));
  }

  Value* input(const std::string& name, DType dtype, const Ints& dims) {
    return model_->graph->add_input(name, TensorType::of(dtype, dims));
  }

  Value* weight(const std::string& name, Ints dims, float deviation) {
    const std::int64_t elems =
        std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
    std::vector<float> values(static_cast<std::size_t>(elems));
    std::normal_distribution<float> normal(0, deviation);
    for (float& value : values) value = normal(random_);
    return add(name, std::move(dims), values);
  }

  Value* fill(const std::string& name, std::int64_t elems, float value) {
    return add(name, {elems}, std::vector<float>(static_cast<std::size_t>(elems), value));
  }

  Value* op(std::string_view type, std::vector<Value*> operands,
            std::vector<Builder::NamedValue> attributes = {}) {
    return builder_->op(type, std::move(operands), std::move(attributes));
  }

  Value* conv_norm(const std::string& name, Value* x, std::int64_t inputs, std::int64_t outputs,
                   std::int64_t kernel, std::int64_t stride) {
    builder_->set_scope(name);
    const float deviation = std::sqrt(2.0F / static_cast<float>(inputs * kernel * kernel));
    Value* w = weight(name + ".conv.weight", {outputs, inputs, kernel, kernel}, deviation);
    const std::int64_t pad = kernel / 2;
    Value* y = op("Conv", {x, w},
                  {{"kernel_shape", Ints{kernel, kernel}},
                   {"strides", Ints{stride, stride}},
                   {"pads", Ints{pad, pad, pad, pad}}});
    Node* norm = builder_->node(
        "BatchNormalization",
        {y, fill(name + ".norm.weight", outputs, 1), fill(name + ".norm.bias", outputs, 0),
         fill(name + ".norm.running_mean", outputs, 0),
         fill(name + ".norm.running_var", outputs, 1)},
        3, {{"training_mode", std::int64_t{1}}});
    return norm->result();
  }

  // x[.., inputs] times a matrix, plus bias.
  Value* linear(const std::string& name, Value* x, std::int64_t inputs, std::int64_t outputs) {
    builder_->set_scope(name);
    Value* w = weight(name + ".weight", {inputs, outputs}, 0.02F);
    return op("Add", {op("MatMul", {x, w}), fill(name + ".bias", outputs, 0)});
  }

  Value* layer_norm(const std::string& name, Value* x, std::int64_t width) {
    builder_->set_scope(name);
    return op("LayerNormalization",
              {x, fill(name + ".weight", width, 1), fill(name + ".bias", width, 0)});
  }

  Value* ints(const Ints& values) { return builder_->ints(values); }
  Value* scalar_int(std::int64_t value) {
    return builder_->scalar(DType::kInt64, static_cast<double>(value));
  }
  Value* scalar(double value) { return builder_->scalar(DType::kFloat32, value); }
  void set_scope(std::string scope) { builder_->set_scope(std::move(scope)); }

  StatusOr<std::unique_ptr<Model>> finish(Value* logits, Value* labels) {
    set_scope("loss");
    Value* loss = op("SoftmaxCrossEntropyLoss", {logits, labels});
    MEZZO_RETURN_IF_ERROR(builder_->status());
    model_->graph->rename(loss, "loss");
    model_->graph->add_output(loss);
    return std::move(model_);
  }

 private:
  Value* add(const std::string& name, Ints dims, const std::vector<float>& values) {
    return model_->graph->add_initializer(name, Tensor::from_floats(std::move(dims), values));
  }

  std::unique_ptr<Model> model_;
  std::optional<Builder> builder_;
  std::mt19937 random_{0};
};

Value* residual_block(Maker& make, const std::string& name, Value* x, std::int64_t inputs,
                      std::int64_t outputs, std::int64_t stride) {
  Value* y = make.op("Relu", {make.conv_norm(name + ".1", x, inputs, outputs, 3, stride)});
  y = make.conv_norm(name + ".2", y, outputs, outputs, 3, 1);
  if (stride != 1 || inputs != outputs) {
    x = make.conv_norm(name + ".shortcut", x, inputs, outputs, 1, stride);
  }
  return make.op("Relu", {make.op("Add", {y, x})});
}

Value* attention(Maker& make, const std::string& name, Value* x, std::int64_t batch,
                 std::int64_t width, std::int64_t heads) {
  const std::int64_t depth = width / heads;
  const Ints by_head = {batch, kPositions, heads, depth};
  const auto project = [&](const char* part, Ints order) {
    Value* y = make.linear(name + part, x, width, width);
    return make.op("Transpose", {make.op("Reshape", {y, make.ints(by_head)})},
                   {{"perm", std::move(order)}});
  };
  Value* q = project(".query", {0, 2, 1, 3});
  Value* k = project(".key", {0, 2, 3, 1});
  Value* v = project(".value", {0, 2, 1, 3});
  make.set_scope(name);
  Value* scores = make.op("MatMul", {q, k});
  scores = make.op("Mul", {scores, make.scalar(1 / std::sqrt(static_cast<double>(depth)))});
  Value* y = make.op("MatMul", {make.op("Softmax", {scores}), v});
  y = make.op("Transpose", {y}, {{"perm", Ints{0, 2, 1, 3}}});
  y = make.op("Reshape", {y, make.ints({batch, kPositions, width})});
  return make.linear(name + ".out", y, width, width);
}

Value* transformer_layer(Maker& make, const std::string& name, Value* x, std::int64_t batch,
                         std::int64_t width) {
  Value* y = attention(make, name + ".attention", x, batch, width, /*heads=*/4);
  x = make.layer_norm(name + ".norm1", make.op("Add", {x, y}), width);
  y = make.linear(name + ".up", x, width, 4 * width);
  y = make.linear(name + ".down", make.op("Gelu", {y}), 4 * width, width);
  return make.layer_norm(name + ".norm2", make.op("Add", {x, y}), width);
}

}  // namespace

StatusOr<std::unique_ptr<Model>> make_wide_resnet(std::int64_t batch) {
  Maker make("wide_resnet");
  Value* x = make.input("x", DType::kFloat32, {batch, 3, 32, 32});
  Value* y = make.input("y", DType::kInt64, {batch});
  x = make.op("Relu", {make.conv_norm("stem", x, 3, 64, 3, 1)});
  x = residual_block(make, "stage1", x, 64, 64, 1);
  x = residual_block(make, "stage2", x, 64, 128, 2);
  x = residual_block(make, "stage3", x, 128, 256, 2);
  make.set_scope("head");
  x = make.op("Flatten", {make.op("GlobalAveragePool", {x})});
  return make.finish(make.linear("head", x, 256, kClasses), y);
}

StatusOr<std::unique_ptr<Model>> make_bert(std::int64_t batch) {
  constexpr std::int64_t kWidth = 256, kLayers = 2;
  Maker make("bert");
  Value* ids = make.input("x", DType::kInt64, {batch, kPositions});
  Value* y = make.input("y", DType::kInt64, {batch});
  make.set_scope("embedding");
  Value* tokens = make.weight("tokens.weight", {kVocabulary, kWidth}, 0.02F);
  Value* positions = make.weight("positions.weight", {kPositions, kWidth}, 0.02F);
  Value* x = make.op("Add", {make.op("Gather", {tokens, ids}), positions});
  x = make.layer_norm("norm", x, kWidth);
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    x = transformer_layer(make, "layers." + std::to_string(layer), x, batch, kWidth);
  }
  make.set_scope("head");
  Value* first = make.op("Gather", {x, make.scalar_int(0)}, {{"axis", std::int64_t{1}}});
  return make.finish(make.linear("head", first, kWidth, kClasses), y);
}

}  // namespace mezzo::bench
