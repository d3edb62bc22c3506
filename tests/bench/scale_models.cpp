#include "tests/bench/scale_models.h"

#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mezzo::bench {
namespace {

using Ints = std::vector<std::int64_t>;
using Attributes = std::vector<std::pair<std::string_view, Attribute::Value>>;

constexpr std::int64_t kRows = 4, kWidth = 8;

// A model under construction; nodes are added at the end of the graph at hand.
class Sketch {
 public:
  explicit Sketch(Ints input_dims = {kRows, kWidth}) : model_(std::make_unique<Model>()) {
    model_->ir_version = 8;
    model_->set_opset("", 17);
    model_->graph = std::make_unique<Graph>("scale");
    graph_ = model_->graph.get();
    input_ = graph_->add_input("x", TensorType::of(DType::kFloat32, input_dims));
  }

  Value* input() const { return input_; }
  int nodes() const { return nodes_; }

  Value* op(std::string_view type, const std::vector<Value*>& operands,
            Attributes attributes = {}) {
    const std::string name = std::string(type) + "_" + std::to_string(nodes_);
    const std::string results[] = {"y" + std::to_string(nodes_)};
    ++nodes_;
    Node* node = graph_->add_node(type, "", operands, results);
    node->name = name;
    for (auto& [key, value] : attributes) node->set_attribute(key, std::move(value));
    return node->result();
  }

  Value* weight(Ints dims, float value = 0.1F) {
    std::int64_t elems = 1;
    for (const std::int64_t dim : dims) elems *= dim;
    const std::vector<float> values(static_cast<std::size_t>(elems), value);
    return add(Tensor::from_floats(std::move(dims), values));
  }
  Value* ints(const Ints& values) {
    return add(Tensor::from_ints({static_cast<std::int64_t>(values.size())}, values));
  }

  // y = If(condition) with the same body in both branches. `body` gives its output's value.
  template <typename Body>
  Value* branch(Value* condition, const Body& body) {
    Value* result = op("If", {condition});
    Node* node = result->producer();
    for (const char* name : {"then_branch", "else_branch"}) {
      const auto inner = std::make_shared<Graph>(name, node);
      Graph* outer = std::exchange(graph_, inner.get());
      Value* output = body();
      output->type = TensorType::of(DType::kFloat32, {kRows, kWidth});
      inner->add_output(output);
      graph_ = outer;
      node->set_attribute(name, inner);
    }
    return result;
  }
  Value* condition() {
    return graph_->add_input("condition", TensorType::of(DType::kBool, Ints{}));
  }

  // A model-local function of two inputs; `body` gives its output's value. Its nodes do not count.
  template <typename Body>
  std::string function(const Body& body) {
    auto function = std::make_unique<Function>();
    function->domain = "local";
    function->name = "f" + std::to_string(model_->functions.size());
    function->opsets = model_->opsets;
    function->body = std::make_unique<Graph>(function->name);
    Graph* outer = std::exchange(graph_, function->body.get());
    const int counted = nodes_;
    Value* first = graph_->add_input("a", Type());
    graph_->add_output(body(first, graph_->add_input("b", Type())));
    nodes_ = counted;
    graph_ = outer;
    model_->set_opset("local", 1);
    model_->functions.push_back(std::move(function));
    return model_->functions.back()->name;
  }
  Value* call(const std::string& function, const std::vector<Value*>& operands) {
    Value* result = op(function, operands);
    graph_->change_op(result->producer(), function, "local");
    return result;
  }

  std::unique_ptr<Model> finish(Value* y) {
    y->type = input_->type;
    graph_->add_output(y);
    return std::move(model_);
  }

 private:
  Value* add(TensorRef tensor) {
    return model_->graph->add_initializer("w" + std::to_string(weights_++), std::move(tensor));
  }

  std::unique_ptr<Model> model_;
  Graph* graph_;
  Value* input_;
  int nodes_ = 0, weights_ = 0;
};

std::unique_ptr<Model> make_chain(int nodes) {
  constexpr std::string_view kOps[] = {"Relu", "Tanh", "Neg", "Abs", "Sigmoid"};
  Sketch sketch;
  Value* x = sketch.input();
  for (int i = 0; i < nodes; ++i) x = sketch.op(kOps[i % 5], {x});
  return sketch.finish(x);
}

std::unique_ptr<Model> make_gemms(int nodes) {
  Sketch sketch;
  Value* x = sketch.input();
  while (sketch.nodes() < nodes) {
    x = sketch.op("Gemm", {x, sketch.weight({kWidth, kWidth}), sketch.weight({kWidth})});
    x = sketch.op("Relu", {x});
  }
  return sketch.finish(x);
}

// One value that a third of all nodes read, and their results summed pairwise.
std::unique_ptr<Model> make_fan(int nodes) {
  Sketch sketch;
  Value* trunk = sketch.op("Relu", {sketch.input()});
  std::vector<Value*> ends;
  for (int i = 0; i < nodes / 3; ++i) {
    Value* y = sketch.op("MatMul", {trunk, sketch.weight({kWidth, kWidth})});
    ends.push_back(sketch.op(i % 2 == 0 ? "Relu" : "Softmax", {y}));
  }
  while (ends.size() > 1) {
    std::vector<Value*> sums;
    for (std::size_t i = 0; i + 1 < ends.size(); i += 2) {
      sums.push_back(sketch.op("Add", {ends[i], ends[i + 1]}));
    }
    if (ends.size() % 2 != 0) sums.push_back(ends.back());
    ends = std::move(sums);
  }
  return sketch.finish(ends.front());
}

// Blocks whose sum also takes what a block far above gave, and normalisation in FP32.
std::unique_ptr<Model> make_residual(int nodes) {
  constexpr std::size_t kReach = 64;
  Sketch sketch;
  std::vector<Value*> sums = {sketch.input()};
  Value* x = sketch.input();
  Value* scale = sketch.weight({kWidth}, 1);
  while (sketch.nodes() < nodes) {
    Value* y = sketch.op("MatMul", {x, sketch.weight({kWidth, kWidth})});
    Value* far = sums[sums.size() > kReach ? sums.size() - kReach : 0];
    sums.push_back(sketch.op("Add", {y, far}));
    x = sketch.op("LayerNormalization", {sums.back(), scale});
  }
  return sketch.finish(x);
}

Value* attention(Sketch& sketch, Value* x, Value* by_head, Value* joined, Value* factor) {
  const auto project = [&](Ints order) {
    Value* y = sketch.op("MatMul", {x, sketch.weight({kWidth, kWidth})});
    y = sketch.op("Add", {y, sketch.weight({kWidth})});
    return sketch.op("Transpose", {sketch.op("Reshape", {y, by_head})},
                     {{"perm", std::move(order)}});
  };
  Value* q = project({0, 2, 1, 3});
  Value* k = project({0, 2, 3, 1});
  Value* v = project({0, 2, 1, 3});
  Value* scores = sketch.op("Mul", {sketch.op("MatMul", {q, k}), factor});
  Value* y = sketch.op("MatMul", {sketch.op("Softmax", {scores}), v});
  y = sketch.op("Transpose", {y}, {{"perm", Ints{0, 2, 1, 3}}});
  y = sketch.op("MatMul", {sketch.op("Reshape", {y, joined}), sketch.weight({kWidth, kWidth})});
  return sketch.op("Add", {y, sketch.weight({kWidth})});
}

std::unique_ptr<Model> make_transformer(int nodes) {
  Sketch sketch({2, kRows, kWidth});
  Value* by_head = sketch.ints({0, 0, 2, kWidth / 2});
  Value* joined = sketch.ints({0, 0, kWidth});
  Value* factor = sketch.weight({}, 0.5F);
  Value* root_two = sketch.weight({}, std::sqrt(2.0F));
  Value *one = sketch.weight({}, 1), *half = sketch.weight({}, 0.5F);
  Value* x = sketch.input();
  while (sketch.nodes() < nodes) {
    Value* y = sketch.op("LayerNormalization", {x, sketch.weight({kWidth}, 1)});
    x = sketch.op("Add", {x, attention(sketch, y, by_head, joined, factor)});
    y = sketch.op("LayerNormalization", {x, sketch.weight({kWidth}, 1)});
    y = sketch.op("MatMul", {y, sketch.weight({kWidth, kWidth})});
    Value* bell = sketch.op("Erf", {sketch.op("Div", {y, root_two})});
    y = sketch.op("Mul", {y, sketch.op("Add", {bell, one})});
    y = sketch.op("Mul", {y, half});
    x = sketch.op("Add", {x, sketch.op("MatMul", {y, sketch.weight({kWidth, kWidth})})});
  }
  return sketch.finish(x);
}

std::unique_ptr<Model> make_conv_norm(int nodes) {
  constexpr std::int64_t kChannels = 4;
  Sketch sketch({1, kChannels, 4, 4});
  Value* x = sketch.input();
  while (sketch.nodes() < nodes) {
    Value* y = sketch.op("Conv", {x, sketch.weight({kChannels, kChannels, 1, 1})},
                         {{"kernel_shape", Ints{1, 1}}});
    y = sketch.op("BatchNormalization",
                  {y, sketch.weight({kChannels}, 1), sketch.weight({kChannels}, 0),
                   sketch.weight({kChannels}, 0), sketch.weight({kChannels}, 1)});
    x = sketch.op("Add", {sketch.op("Relu", {y}), x});
  }
  return sketch.finish(x);
}

std::unique_ptr<Model> make_constants(int nodes) {
  Sketch sketch;
  Value* x = sketch.input();
  while (sketch.nodes() < nodes) {
    const bool matrix = sketch.nodes() % 4 == 0;
    const std::vector<float> values(matrix ? kWidth * kWidth : 1, 0.1F);
    TensorRef tensor = Tensor::from_floats(matrix ? Ints{kWidth, kWidth} : Ints{}, values);
    Value* constant = sketch.op("Constant", {}, {{"value", NamedTensor{"", std::move(tensor)}}});
    x = sketch.op(matrix ? "MatMul" : "Mul", {x, constant});
  }
  return sketch.finish(x);
}

// Casts that fold, casts that round, and equal casts of one value.
std::unique_ptr<Model> make_casts(int nodes) {
  Sketch sketch;
  Value* w = sketch.weight({kWidth, kWidth});
  Value* x = sketch.input();
  const auto cast = [&](Value* value, DType to) {
    return sketch.op("Cast", {value}, {{"to", static_cast<std::int64_t>(to)}});
  };
  while (sketch.nodes() < nodes) {
    x = sketch.op("MatMul", {x, w});
    Value* rounded = cast(cast(x, DType::kFloat16), DType::kFloat32);
    Value* wide = cast(cast(rounded, DType::kFloat64), DType::kFloat32);
    Value* again = cast(cast(sketch.input(), DType::kFloat16), DType::kFloat32);
    x = sketch.op("Add", {sketch.op("Exp", {wide}), again});
  }
  return sketch.finish(x);
}

// Ifs in a row, each with branches of three nodes that capture what came before.
std::unique_ptr<Model> make_branches(int nodes) {
  Sketch sketch;
  Value* w = sketch.weight({kWidth, kWidth});
  Value* condition = sketch.condition();
  Value* x = sketch.input();
  while (sketch.nodes() < nodes) {
    Value* y = sketch.branch(condition, [&] {
      Value* inner = sketch.op("Relu", {sketch.op("MatMul", {x, w})});
      return sketch.op("Add", {inner, x});
    });
    x = sketch.op("Relu", {y});
  }
  return sketch.finish(x);
}

// One If within another, eight deep, the nodes spread over all levels; 2^8 innermost branches.
Value* nest(Sketch& sketch, Value* condition, Value* w, Value* x, int depth, int per_graph) {
  for (int i = 0; i < per_graph; ++i) {
    x = i % 2 == 0 ? sketch.op("Relu", {x}) : sketch.op("MatMul", {x, w});
  }
  if (depth == 0) return x;
  return sketch.branch(condition,
                       [&] { return nest(sketch, condition, w, x, depth - 1, per_graph); });
}

std::unique_ptr<Model> make_nested(int nodes) {
  constexpr int kDepth = 8, kGraphs = (1 << (kDepth + 1)) - 1;
  Sketch sketch;
  Value* w = sketch.weight({kWidth, kWidth});
  Value* condition = sketch.condition();
  Value* y = nest(sketch, condition, w, sketch.input(), kDepth, nodes / kGraphs);
  return sketch.finish(y);
}

// Calls of 64 functions of three nodes, in turn. (ONNX's own inference, which copies its table of
// functions for every call, grows with the product of both.)
std::unique_ptr<Model> make_calls(int nodes) {
  Sketch sketch;
  Value* w = sketch.weight({kWidth, kWidth});
  Value* x = sketch.input();
  std::vector<std::string> functions;
  while (functions.size() < 64) {
    functions.push_back(sketch.function([&](Value* a, Value* b) {
      return sketch.op("Add", {sketch.op("Relu", {sketch.op("MatMul", {a, b})}), a});
    }));
  }
  while (sketch.nodes() < nodes)
    x = sketch.call(functions[static_cast<std::size_t>(sketch.nodes()) % 64], {x, w});
  return sketch.finish(x);
}

constexpr GraphKind kKinds[] = {
    {"chain", "elementwise nodes in a row", make_chain},
    {"gemms", "layers with two weights each", make_gemms},
    {"fan", "one value with thousands of readers", make_fan},
    {"residual", "sums that reach far back", make_residual},
    {"transformer", "attention, normalisation and GELU spelt out", make_transformer},
    {"conv_norm", "convolution and batch normalisation", make_conv_norm},
    {"constants", "a Constant node for every other node", make_constants},
    {"casts", "three casts in four nodes", make_casts},
    {"branches", "Ifs in a row", make_branches},
    {"nested", "Ifs within Ifs, eight deep", make_nested},
    {"calls", "calls of local functions", make_calls},
};

}  // namespace

std::span<const GraphKind> graph_kinds() { return kKinds; }

}  // namespace mezzo::bench
