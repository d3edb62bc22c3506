// Gradient operators of ONNX Runtime's training artifacts, taken apart, against central
// differences of the forward operators they belong to. In double on the reference kernels.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "compiler/onnx/import.h"
#include "compiler/ops/op_def.h"
#include "passes/cleanup/decompose.h"
#include "passes/cleanup/fold_constants.h"
#include "tests/ops/decomposed.h"
#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

// A graph with forward and gradient nodes: inputs x, ..., dy and integers; output y, and d_NAME for
// every input NAME whose gradient is checked.
struct Case {
  std::string name, inputs, initializers, nodes;
  double low = -2, high = 2;
};

class Gradients {
 public:
  explicit Gradients(const Case& c) : low_(c.low), high_(c.high) {
    std::string outputs = "float[] y";
    for (std::size_t at = 0; (at = c.nodes.find("d_", at)) != std::string::npos; ++at) {
      if (at > 0 && c.nodes[at - 1] != ' ' && c.nodes[at - 1] != '\n') continue;
      const std::string name = c.nodes.substr(at, c.nodes.find_first_of(" ,)=", at) - at);
      if (gradients_.insert(name).second) outputs += ", float[] " + name;
    }
    model_ = value_or_die(import_text(
        R"(<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]> g ()" + c.inputs +
            ") => (" + outputs + ") <" + c.initializers + "> {\n" + c.nodes + "}",
        c.name));
    for (Value* output : model_->graph->outputs()) {
      if (output->type.is_tensor()) output->type.tensor.shape.reset();
    }
  }

  Status prepare() {
    MEZZO_RETURN_IF_ERROR(infer_types(*model_));
    passes::PassContext ctx;
    for (int round = 0; round < 2; ++round) {
      MEZZO_RETURN_IF_ERROR(passes::fold_constants(*model_, ctx).status());
      MEZZO_RETURN_IF_ERROR(passes::decompose(*model_, ctx).status());
    }
    MEZZO_RETURN_IF_ERROR(passes::fold_constants(*model_, ctx).status());
    for (const auto& node : model_->graph->nodes()) MEZZO_RETURN_IF_ERROR(lower(*node).status());
    fill();
    return ok_status();
  }

  // sum(dy y) by the inputs, numerically and by the graph.
  void check() {
    Environment environment = inputs_;
    ASSERT_THAT(interpret(*model_->graph, environment), IsOk());
    double largest = 0;
    for (const std::string& name : gradients_) {
      SCOPED_TRACE(name);
      const Value* input = model_->graph->find(name.substr(2));
      ASSERT_NE(input, nullptr);
      const Doubles got = environment.at(model_->graph->find(name)).to_doubles();
      ASSERT_EQ(got.size(), inputs_.at(input).to_doubles().size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        const double expected = difference(*input, i);
        EXPECT_NEAR(got[i], expected, 1e-6 * std::max(1.0, std::fabs(expected))) << "element " << i;
        largest = std::max(largest, std::fabs(expected));
      }
    }
    EXPECT_GT(largest, 1e-3) << "all gradients are zero";
  }

 private:
  void fill() {
    std::mt19937 random(11);
    for (const Value* input : model_->graph->inputs()) {
      Buffer buffer = Buffer::of(input->dtype(), input->tensor_type().dims());
      if (is_floating(input->dtype())) {
        for (std::size_t i = 0; i < static_cast<std::size_t>(input->tensor_type().elems()); ++i)
          buffer.values()[i] = std::uniform_real_distribution<double>(low_, high_)(random);
      }
      inputs_.emplace(input, std::move(buffer));
    }
  }

  double objective() {
    Environment environment = inputs_;
    EXPECT_THAT(interpret(*model_->graph, environment), IsOk());
    const Doubles y = environment.at(model_->graph->find("y")).to_doubles();
    const Doubles dy = inputs_.at(model_->graph->find("dy")).to_doubles();
    EXPECT_EQ(y.size(), dy.size());
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
    return sum;
  }

  double difference(const Value& input, std::size_t i) {
    constexpr double kStep = 1e-5;
    double& x = inputs_.at(&input).values()[i];
    const double at = x;
    x = at + kStep;
    const double above = objective();
    x = at - kStep;
    const double below = objective();
    x = at;
    return (above - below) / (2 * kStep);
  }

  double low_, high_;
  std::unique_ptr<Model> model_;
  std::set<std::string> gradients_;
  Environment inputs_;
};

const Case kCases[] = {
    {"relu_by_y", "float[3,4] x, float[3,4] dy", "",
     "y = Relu (x)\n d_x = com.microsoft.ReluGrad (dy, y)\n"},
    {"relu_by_x", "float[3,4] x, float[3,4] dy", "",
     "y = Relu (x)\n d_x = com.microsoft.ReluGrad (dy, x)\n"},
    {"sigmoid", "float[7] x, float[7] dy", "",
     "y = Sigmoid (x)\n d_x = com.microsoft.SigmoidGrad (dy, y)\n"},
    {"tanh", "float[7] x, float[7] dy", "",
     "y = Tanh (x)\n d_x = com.microsoft.TanhGrad (dy, y)\n"},
    {"leaky_relu", "float[9] x, float[9] dy", "",
     "y = LeakyRelu <alpha = 0.2> (x)\n d_x = com.microsoft.LeakyReluGrad <alpha = 0.2> (dy, y)\n"},
    {"gelu", "float[7] x, float[7] dy", "",
     "y = com.microsoft.Gelu (x)\n d_x = com.microsoft.GeluGrad (dy, x)\n"},
    {"fast_gelu", "float[7] x, float[7] dy", "",
     "y = com.microsoft.FastGelu (x)\n d_x = com.microsoft.FastGeluGrad (dy, x)\n"},
    {"quick_gelu", "float[7] x, float[7] dy", "",
     "y = com.microsoft.QuickGelu <alpha = 1.5> (x)\n"
     "d_x = com.microsoft.QuickGeluGrad <alpha = 1.5> (dy, x)\n"},
    {"quick_gelu_default", "float[7] x, float[7] dy", "",
     "y = com.microsoft.QuickGelu (x)\n d_x = com.microsoft.QuickGeluGrad (dy, x)\n"},
    {"bias_gelu", "float[3,4] x, float[4] b, float[3,4] dy", "",
     "y = com.microsoft.BiasGelu (x, b)\n d_x = com.microsoft.BiasGeluGrad_dX (dy, x, b)\n"},
    {"bias_fast_gelu", "float[3,4] x, float[4] b, float[3,4] dy", "",
     "y = com.microsoft.FastGelu (x, b)\n d_x = com.microsoft.BiasFastGeluGrad_dX (dy, x, b)\n"},
    {"softmax_13", "float[2,3,4] x, float[2,3,4] dy", "",
     "y = Softmax <axis = 1> (x)\n d_x = com.microsoft.SoftmaxGrad_13 <axis = 1> (dy, y)\n"},
    {"log_softmax_13", "float[2,3,4] x, float[2,3,4] dy", "",
     "y = LogSoftmax <axis = -1> (x)\n d_x = com.microsoft.LogSoftmaxGrad_13 <axis = -1> (dy, "
     "y)\n"},
    // Before opset 13 it ran over all dimensions from the axis on, by default from the second.
    {"softmax_coerced", "float[2,3,4] x, float[2,3,4] dy",
     "int64[2] flat = {2,12}, int64[3] shape = {2,3,4}",
     "a = Reshape (x, flat)\n b = Softmax <axis = 1> (a)\n y = Reshape (b, shape)\n"
     "d_x = com.microsoft.SoftmaxGrad (dy, y)\n"},
    {"log_softmax_coerced", "float[2,3,4] x, float[2,3,4] dy",
     "int64[2] flat = {1,24}, int64[3] shape = {2,3,4}",
     "a = Reshape (x, flat)\n b = LogSoftmax <axis = 1> (a)\n y = Reshape (b, shape)\n"
     "d_x = com.microsoft.LogSoftmaxGrad <axis = 0> (dy, y)\n"},
    {"softmax_last", "float[2,3] x, float[2,3] dy", "",
     "y = Softmax <axis = 1> (x)\n d_x = com.microsoft.SoftmaxGrad <axis = -1> (dy, y)\n"},
    {"layer_norm", "float[2,3,4] x, float[3,4] s, float[3,4] b, float[2,3,4] dy", "",
     "y, mean, inv = LayerNormalization <axis = 1, epsilon = 0.01> (x, s, b)\n"
     "d_x, d_s, d_b = com.microsoft.LayerNormalizationGrad <axis = 1> (dy, x, s, mean, inv)\n"},
    {"simplified_layer_norm", "float[2,3,4] x, float[4] s, float[2,3,4] dy", "",
     "y, inv = com.microsoft.SimplifiedLayerNormalization <epsilon = 0.01> (x, s)\n"
     "d_x, d_s = com.microsoft.SimplifiedLayerNormalizationGrad <axis = -1> (dy, x, s, inv)\n"},
    {"simplified_layer_norm_of_two", "float[2,3,4] x, float[3,4] s, float[2,3,4] dy", "",
     "y, inv = com.microsoft.SimplifiedLayerNormalization <epsilon = 0.01, axis = 1> (x, s)\n"
     "d_x, d_s = com.microsoft.SimplifiedLayerNormalizationGrad <axis = 1> (dy, x, s, inv)\n"},
    {"batch_norm",
     "float[4,2,3] x, float[2] s, float[2] b, float[2] m, float[2] v, float[4,2,3] dy", "",
     "y, m1, v1, mean, inv = com.microsoft.BatchNormInternal <epsilon = 0.01> (x, s, b, m, v)\n"
     "d_x, d_s, d_b = com.microsoft.BatchNormalizationGrad <epsilon = 0.01> (dy, x, s, mean, "
     "inv)\n"},
    {"conv", "float[2,4,7,6] x, float[6,2,3,2] w, float[6] b, float[2,6,4,4] dy", "",
     "y = Conv <group = 2, strides = [2,1], pads = [2,0,1,0], dilations = [1,2]> (x, w, b)\n"
     "d_x, d_w, d_b = com.microsoft.ConvGrad <group = 2, strides = [2,1], pads = [2,0,1,0], "
     "dilations = [1,2]> (dy, x, w)\n"},
    {"conv_of_onnx_domain", "float[1,1,5] x, float[2,1,3] w, float[1,2,3] dy", "",
     "y = Conv (x, w)\n , d_w = ConvGrad <kernel_shape = [3]> (dy, x, w)\n"},
    {"conv_same_upper", "float[1,1,5] x, float[2,1,3] w, float[1,2,3] dy", "",
     "y = Conv <auto_pad = \"SAME_UPPER\", strides = [2]> (x, w)\n"
     "d_x, d_w = com.microsoft.ConvGrad <auto_pad = \"SAME_UPPER\", strides = [2]> (dy, x, w)\n"},
    {"conv_transpose", "float[2,4,3,3] x, float[4,2,3,2] w, float[4] b, float[2,4,6,5] dy", "",
     "y = ConvTranspose <group = 2, strides = [2,2], pads = [1,0,0,1], output_padding = [0,0]> (x, "
     "w, b)\n"
     "d_x, d_w, d_b = com.microsoft.ConvTransposeGrad <group = 2, strides = [2,2], pads = "
     "[1,0,0,1]> "
     "(dy, x, w)\n"},
    {"conv_transpose_of_weights_alone", "float[1,2,4] x, float[2,3,3] w, float[1,3,6] dy", "",
     "y = ConvTranspose (x, w)\n , d_w = com.microsoft.ConvTransposeGrad (dy, x, w)\n"},
    {"max_pool", "float[2,2,5,5] x, float[2,2,3,3] dy", "",
     "y, at = MaxPool <kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]> (x)\n"
     "d_x = MaxPoolGrad <kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]> (dy, at)\n"},
    {"gather", "float[3,4] x, float[3,2] dy", "int64[2] at = {-1,1}",
     "y = Gather <axis = 1> (x, at)\n shape = Shape (x)\n"
     "d_x = com.microsoft.GatherGrad <axis = 1> (shape, at, dy)\n"},
    {"gather_repeated", "float[3,2] x, float[2,2,2] dy",
     "int64[2,2] at = {0,2,2,2}, int64[2] shape = {3,2}",
     "y = Gather (x, at)\n d_x = com.microsoft.GatherGrad (shape, at, dy)\n"},
    {"gather_scalar", "float[2,3,4] x, float[2,4] dy", "int64 at = {1}, int64[3] shape = {2,3,4}",
     "y = Gather <axis = 1> (x, at)\n d_x = com.microsoft.GatherGrad <axis = 1> (shape, at, dy)\n"},
    {"gather_elements", "float[3,3] x, float[2,3] dy",
     "int64[2,3] at = {0,2,1,0,2,2}, int64[2] shape = {3,3}",
     "y = GatherElements <axis = 0> (x, at)\n"
     "d_x = com.microsoft.GatherElementsGrad <axis = 0> (dy, shape, at)\n"},
    {"gather_nd", "float[3,4,2] x, float[2,2] dy",
     "int64[2,2] at = {2,1,0,-1}, int64[3] shape = {3,4,2}",
     "y = GatherND (x, at)\n d_x = com.microsoft.GatherNDGrad (shape, at, dy)\n"},
    {"gather_nd_in_batches", "float[2,3,4] x, float[2,2,4] dy",
     "int64[2,2,1] at = {2,0,1,1}, int64[3] shape = {2,3,4}",
     "y = GatherND <batch_dims = 1> (x, at)\n"
     "d_x = com.microsoft.GatherNDGrad <batch_dims = 1> (shape, at, dy)\n"},
    {"slice", "float[5,6] x, float[5,2] dy",
     "int64[2] shape = {5,6}, int64[1] from = {5}, int64[1] to = {-6}, int64[1] axis = {1}, "
     "int64[1] step = {-3}",
     "y = Slice (x, from, to, axis, step)\n"
     "d_x = com.microsoft.SliceGrad (dy, shape, from, to, axis, step)\n"},
    {"slice_without_axes", "float[5,6] x, float[3,6] dy", "int64[1] from = {1}, int64[1] to = {4}",
     "y = Slice (x, from, to)\n shape = Shape (x)\n"
     "d_x = com.microsoft.SliceGrad (dy, shape, from, to)\n"},
    {"cross_entropy", "float[4,3] x, float dy", "int64[4] t = {2,0,1,2}, float[3] cw = {0.5,2,1}",
     "y, logp = SoftmaxCrossEntropyLoss <ignore_index = 1> (x, t, cw)\n"
     "d_x = com.microsoft.SoftmaxCrossEntropyLossGrad <ignore_index = 1> (dy, logp, t, cw)\n"},
    {"cross_entropy_none", "float[2,3,2] x, float[2,2] dy", "int64[2,2] t = {2,0,1,2}",
     "y, logp = SoftmaxCrossEntropyLoss <reduction = \"none\"> (x, t)\n"
     "d_x = com.microsoft.SoftmaxCrossEntropyLossGrad <reduction = \"none\"> (dy, logp, t)\n"},
    {"cross_entropy_internal", "float[4,3] x, float dy", "int64[4] t = {2,0,1,2}, int64 skip = {0}",
     "y, logp = com.microsoft.SoftmaxCrossEntropyLossInternal <reduction = \"sum\"> (x, t, , "
     "skip)\n"
     "d_x = com.microsoft.SoftmaxCrossEntropyLossInternalGrad <reduction = \"sum\"> "
     "(dy, logp, t, , skip)\n"},
    // What is added to the gradient is the gradient of another loss, here the sum of x times 2.
    {"cross_entropy_internal_and_more", "float[2,3] x, float dy",
     "int64[2] t = {2,0}, float[6] more = {2,2,2,2,2,2}, float two = {2}",
     "a, logp = com.microsoft.SoftmaxCrossEntropyLossInternal (x, t)\n"
     "b = ReduceSum <keepdims = 0> (x)\n c = Mul (b, two)\n e = Div (c, dy)\n y = Add (a, e)\n"
     "d_x = com.microsoft.SoftmaxCrossEntropyLossInternalGrad (dy, logp, t, , , more)\n"},
    {"div", "float[3,4] a, float[4] b, float[3,4] dy", "",
     "y = Div (a, b)\n d_a, d_b = com.microsoft.DivGrad (dy, a, b)\n", 0.5, 2},
    {"scale", "float[3] x, float[3] dy", "int64[1] n = {5}",
     "y = com.microsoft.Scale <scale_down = 1> (x, n)\n"
     "d_x = com.microsoft.Scale <scale_down = 1> (dy, n)\n"},
    {"scale_of_scalar", "float x, float dy", "float[1] n = {5}",
     "y = com.microsoft.Scale (x, n)\n d_x = com.microsoft.Scale (dy, n)\n"},
    // The frame of a broadcast sum in a graph with open dimensions.
    {"broadcast", "float[2,3,4] x, float[3,1] b, float[2,3,4] dy", "",
     "y = Add (x, b)\n xs = Shape (x)\n bs = Shape (b)\n"
     "xa, ba = com.microsoft.BroadcastGradientArgs (xs, bs)\n"
     "d_x = com.microsoft.ReduceSumTraining <noop_with_empty_axes = 1> (dy, xa)\n"
     "sum = com.microsoft.ReduceSumTraining <noop_with_empty_axes = 1, keepdims = 0> (dy, ba)\n"
     "d_b = Reshape (sum, bs)\n"},
    {"concat_and_split", "float[2,3] a, float[2,2] b, float[2,5] dy", "",
     "y, lengths = com.microsoft.ConcatTraining <axis = -1> (a, b)\n"
     "d_a, d_b = com.microsoft.SplitTraining <axis = -1> (dy, lengths)\n"},
};

class TrainingGradient : public testing::TestWithParam<Case> {};

TEST_P(TrainingGradient, EqualsCentralDifferences) {
  Gradients gradients(GetParam());
  ASSERT_THAT(gradients.prepare(), IsOk());
  gradients.check();
}

INSTANTIATE_TEST_SUITE_P(All, TrainingGradient, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mezzo::test
