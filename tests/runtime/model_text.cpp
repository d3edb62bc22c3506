#include "model_text.h"

#include <cstdio>
#include <functional>
#include <numeric>
#include <utility>

#include "compiler/support/text.h"
#include "runtime/train/random.h"

namespace mezzo::test {
namespace {

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string dims_text(const std::vector<std::int64_t>& dims) {
  std::vector<std::string> texts;
  for (const std::int64_t dim : dims) texts.push_back(std::to_string(dim));
  return dims.empty() ? std::string() : "[" + join(texts, ",") + "]";
}

std::int64_t product(const std::vector<std::int64_t>& dims) {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

std::vector<float> random_floats(std::int64_t count, std::uint64_t seed, float scale) {
  runtime::SplitMix64 random(seed);
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto steps = static_cast<double>(random.next() >> 40);  // 24 bits: exact in float
    values.push_back(static_cast<float>((steps / (1 << 23) - 1) * static_cast<double>(scale)));
  }
  return values;
}

ModelText& ModelText::input(const std::string& declaration) {
  inputs_.push_back(declaration);
  return *this;
}
ModelText& ModelText::output(const std::string& declaration) {
  outputs_.push_back(declaration);
  return *this;
}
ModelText& ModelText::nodes(const std::string& lines) {
  nodes_.push_back(lines);
  return *this;
}

void ModelText::initializer(const std::string& type, const std::string& name,
                            const std::vector<std::int64_t>& dims,
                            const std::vector<std::string>& values) {
  initializers_.push_back(type + dims_text(dims) + " " + name + " = {" + join(values, ", ") + "}");
}

ModelText& ModelText::values(const std::string& name, const std::vector<std::int64_t>& dims,
                             const std::vector<float>& values) {
  std::vector<std::string> texts;
  for (const float value : values) texts.push_back(number(static_cast<double>(value)));
  initializer("float", name, dims, texts);
  return *this;
}

ModelText& ModelText::weight(const std::string& name, const std::vector<std::int64_t>& dims,
                             float scale) {
  return values(name, dims, random_floats(product(dims), seed_++, scale));
}

ModelText& ModelText::filled(const std::string& name, const std::vector<std::int64_t>& dims,
                             float value) {
  return values(name, dims, std::vector<float>(static_cast<std::size_t>(product(dims)), value));
}

ModelText& ModelText::ints(const std::string& name, const std::vector<std::int64_t>& values) {
  std::vector<std::string> texts;
  for (const std::int64_t value : values) texts.push_back(std::to_string(value));
  initializer("int64", name, {static_cast<std::int64_t>(values.size())}, texts);
  return *this;
}

std::string ModelText::text() const {
  return "<ir_version: 8, opset_import: [\"\": 17]>\ntest (" + join(inputs_, ", ") + ") => (" +
         join(outputs_, ", ") + ")\n<" + join(initializers_, ",\n") + ">\n{\n" +
         join(nodes_, "\n") + "\n}\n";
}

std::string mlp_text(bool dropout) {
  ModelText model;
  model.input("float[N,5] x")
      .input("int64[N] labels")
      .output("float[N,3] logits")
      .output("float loss");
  model.weight("fc1_weight", {7, 5})
      .weight("fc1_bias", {7})
      .weight("fc2_weight", {3, 7})
      .weight("fc2_bias", {3});
  model.nodes("h = Gemm<transB: int = 1>(x, fc1_weight, fc1_bias)\na = Relu(h)");
  if (dropout) {
    model.filled("ratio", {}, 0.25F);
    model.nodes("mode = Constant<value = bool {1}>()\nd = Dropout(a, ratio, mode)");
  }
  model.nodes(std::string("logits = Gemm<transB: int = 1>(") + (dropout ? "d" : "a") +
              ", fc2_weight, fc2_bias)");
  model.nodes("loss = SoftmaxCrossEntropyLoss(logits, labels)");
  return model.text();
}

std::string cnn_text() {
  ModelText model;
  model.input("float[N,3,6,6] x")
      .input("int64[N] labels")
      .output("float[N,10] logits")
      .output("float loss");
  model.weight("conv1_weight", {5, 3, 3, 3})
      .weight("conv2_weight", {11, 5, 3, 3}, 0.3F)
      .weight("conv2_bias", {11});
  model.weight("conv3_weight", {11, 11, 3, 3}, 0.2F).weight("conv4_weight", {11, 11, 1, 1}, 0.4F);
  for (const auto& [name, channels] :
       {std::pair("bn1", 5), std::pair("bn2", 11), std::pair("bn3", 11)}) {
    model.filled(std::string(name) + "_weight", {channels}, 1.0F)
        .weight(std::string(name) + "_bias", {channels});
    model.filled(std::string(name) + "_mean", {channels}, 0.0F)
        .filled(std::string(name) + "_var", {channels}, 1.0F);
  }
  model.weight("fc_weight", {10, 99}, 0.2F).weight("fc_bias", {10});
  model.nodes(R"(
    c1 = Conv<pads = [1, 1, 1, 1]>(x, conv1_weight)
    b1 = BatchNormalization(c1, bn1_weight, bn1_bias, bn1_mean, bn1_var)
    s1 = Sigmoid(b1)
    c2 = Conv<pads = [1, 1, 1, 1]>(s1, conv2_weight, conv2_bias)
    b2 = BatchNormalization(c2, bn2_weight, bn2_bias, bn2_mean, bn2_var)
    gate = Sigmoid(b2)
    silu = Mul(b2, gate)
    c3 = Conv<pads = [1, 1, 1, 1]>(silu, conv3_weight)
    b3 = BatchNormalization(c3, bn3_weight, bn3_bias, bn3_mean, bn3_var)
    sum = Add(b3, silu)
    r = Relu(sum)
    p1 = MaxPool<kernel_shape = [2, 2], strides = [1, 1]>(r)
    c4 = Conv(p1, conv4_weight)
    t4 = Tanh(c4)
    p2 = AveragePool<kernel_shape = [2, 2], strides = [1, 1]>(t4)
    p3 = MaxPool<kernel_shape = [2, 2], strides = [1, 1]>(p2)
    flat = Flatten(p3)
    logits = Gemm<transB: int = 1>(flat, fc_weight, fc_bias)
    loss = SoftmaxCrossEntropyLoss(logits, labels))");
  return model.text();
}

std::string transformer_mlp_text(bool dropout) {
  ModelText model;
  model.input("float[N,4,6] x")
      .input("int64[N] labels")
      .output("float[N,3] logits")
      .output("float loss");
  model.filled("ln_weight", {6}, 1.0F)
      .weight("ln_bias", {6})
      .weight("fc1_weight", {6, 13})
      .weight("fc1_bias", {13});
  model.weight("fc2_weight", {13, 6})
      .weight("fc2_bias", {6})
      .weight("head_weight", {3, 24})
      .weight("head_bias", {3});
  model.filled("half", {}, 0.5F).filled("one", {}, 1.0F).filled("root", {}, 1.41421354F);
  model.nodes(R"(
    n = LayerNormalization(x, ln_weight, ln_bias)
    m1 = MatMul(n, fc1_weight)
    h = Add(m1, fc1_bias)
    q = Div(h, root)
    e = Erf(q)
    e1 = Add(e, one)
    he = Mul(h, e1)
    g = Mul(he, half))");
  if (dropout) {
    model.filled("ratio", {}, 0.25F);
    model.nodes("mode = Constant<value = bool {1}>()\nd = Dropout(g, ratio, mode)");
  }
  model.nodes(std::string("m2 = MatMul(") + (dropout ? "d" : "g") + ", fc2_weight)");
  model.nodes(R"(
    m2b = Add(m2, fc2_bias)
    res = Add(m2b, x)
    flat = Flatten(res)
    logits = Gemm<transB: int = 1>(flat, head_weight, head_bias)
    loss = SoftmaxCrossEntropyLoss(logits, labels))");
  return model.text();
}

}  // namespace mezzo::test
