#include "tests/property/random_model.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ops/op_def.h"

namespace mezzo::test {
namespace {

using Dims = std::vector<std::int64_t>;

class Maker {
 public:
  Maker(std::uint64_t seed, const RandomModelOptions& options)
      : options_(options), random_(seed), model_(std::make_unique<Model>()) {
    model_->ir_version = 10;
    model_->set_opset("", 22);
    model_->graph = std::make_unique<Graph>("random");
    builder_ = std::make_unique<Builder>(*model_->graph, type_inference(*model_));
  }

  std::unique_ptr<Model> make() {
    for (int i = 0; i < 2; ++i) {
      pool_.push_back(graph().add_input(
          "x" + std::to_string(i), TensorType::of(DType::kFloat32, {pick_size(), pick_size()})));
    }
    while (static_cast<int>(graph().node_count()) < options_.nodes) add_something();
    options_.smooth ? add_loss() : add_outputs();
    if (!builder_->status().ok()) {  // a mistake of this file
      std::fprintf(stderr, "random model: %s\n", builder_->status().message().c_str());
      std::abort();
    }
    return std::move(model_);
  }

 private:
  Graph& graph() { return *model_->graph; }
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }
  bool chance(int percent) { return below(100) < percent; }
  std::int64_t pick_size() { return 2 + below(5); }
  float real() { return static_cast<float>(below(2001) - 1000) / 1000.0F; }

  // Recent values more often, so that graphs become deep; old ones too, so that values are shared.
  Value* any() {
    const auto size = static_cast<std::int64_t>(pool_.size());
    return chance(60) ? pool_.back() : pool_[static_cast<std::size_t>(below(size))];
  }
  static Dims dims_of(const Value* value) { return value->tensor_type().dims(); }
  Value* any_like(const Value* value) {
    std::vector<Value*> same;
    for (Value* other : pool_) {
      if (dims_of(other) == dims_of(value)) same.push_back(other);
    }
    return same[static_cast<std::size_t>(below(static_cast<std::int64_t>(same.size())))];
  }

  Value* weight(const Dims& dims, float scale, float offset = 0) {
    std::int64_t elems = 1;
    for (const std::int64_t d : dims) elems *= d;
    std::vector<float> values;
    for (std::int64_t i = 0; i < elems; ++i) values.push_back(offset + scale * real());
    return graph().add_initializer("w" + std::to_string(weights_++),
                                   Tensor::from_floats(dims, values));
  }
  Value* scalar(float value) {
    if (chance(50)) return builder_->scalar(DType::kFloat32, value);
    return builder_->op("Constant", {},
                        {{"value", NamedTensor{"", Tensor::scalar(DType::kFloat32, value)}}});
  }
  float fan(std::int64_t in) const { return 1.2F / std::sqrt(static_cast<float>(in)); }

  void add_something() {
    builder_->set_scope("n" + std::to_string(graph().node_count()));
    const std::int64_t kind = below(options_.branches ? 12 : 11);
    Value* made = nullptr;
    switch (kind) {
      case 0:
      case 1: made = contraction(); break;
      case 2: made = unary(); break;
      case 3: made = binary(); break;
      case 4: made = movement(); break;
      case 5: made = split_and_join(); break;
      case 6: made = normalisation(); break;
      case 7: made = spelled_out(); break;
      case 8: made = reduction(); break;
      case 9: made = options_.images ? image() : contraction(); break;
      case 10: made = options_.smooth ? contraction() : no_op(); break;
      default: made = branch(); break;
    }
    if (made != nullptr) pool_.push_back(made);
  }

  Value* contraction() {
    Value* x = any();
    const std::int64_t in = dims_of(x)[1], out = pick_size();
    switch (below(4)) {
      case 0: return builder_->op("MatMul", {x, weight({in, out}, fan(in))});
      case 1:
        return builder_->op("Gemm", {x, weight({out, in}, fan(in)), weight({out}, 0.2F)},
                            {{"transB", std::int64_t{1}}});
      case 2: {  // a weight behind a Transpose, as exporters write linear layers
        Value* turned =
            builder_->op("Transpose", {weight({out, in}, fan(in))}, {{"perm", Dims{1, 0}}});
        return builder_->op("MatMul", {x, turned});
      }
      default: {  // attention scores: x times its own transpose
        Value* turned = builder_->op("Transpose", {x}, {{"perm", Dims{1, 0}}});
        return builder_->op("Tanh", {builder_->op("MatMul", {x, turned})});
      }
    }
  }

  Value* unary() {
    static constexpr const char* kSmooth[] = {"Tanh", "Sigmoid", "Neg", "Erf"};
    static constexpr const char* kAll[] = {"Tanh", "Sigmoid",   "Neg", "Relu",
                                           "Abs",  "LeakyRelu", "Sin"};
    if (options_.smooth) return builder_->op(kSmooth[below(4)], {any()});
    return builder_->op(kAll[below(7)], {any()});
  }

  Value* binary() {
    Value* x = any();
    switch (below(5)) {
      case 0: return builder_->op("Add", {x, any_like(x)});
      case 1: return builder_->op("Sub", {any_like(x), x});
      case 2: return builder_->op("Mul", {x, builder_->op("Tanh", {any_like(x)})});
      case 3: return builder_->op("Add", {x, weight({dims_of(x)[1]}, 0.5F)});
      default: return builder_->op(chance(50) ? "Mul" : "Div", {x, scalar(1.5F)});
    }
  }

  Value* movement() {
    Value* x = any();
    const Dims dims = dims_of(x);
    switch (below(4)) {
      case 0: return builder_->op("Transpose", {x}, {{"perm", Dims{1, 0}}});
      case 1: return builder_->op("Reshape", {x, builder_->ints({dims[1], dims[0]})});
      case 2:
        return builder_->op("Slice", {x, builder_->ints({0}),
                                      builder_->ints({std::max<std::int64_t>(2, dims[0] / 2)}),
                                      builder_->ints({0})});
      default: {
        Value* row = builder_->op("ReduceMean", {x, builder_->ints({1})});
        return builder_->op("Expand", {row, builder_->ints({dims[0], 4})});
      }
    }
  }

  Value* split_and_join() {
    Value* x = any();
    const Dims dims = dims_of(x);
    Node* split = builder_->node("Split", {x, builder_->ints({1, dims[1] - 1})}, 2,
                                 {{"axis", std::int64_t{1}}});
    Value* first = builder_->op("Tanh", {split->result(0)});
    return builder_->op("Concat", {split->result(1), first}, {{"axis", std::int64_t{1}}});
  }

  Value* normalisation() {
    Value* x = any();
    const std::int64_t n = dims_of(x)[1];
    switch (below(3)) {
      case 0: return builder_->op("Softmax", {x}, {{"axis", std::int64_t{-1}}});
      case 1: return builder_->op("LogSoftmax", {x}, {{"axis", std::int64_t{-1}}});
      default:
        return builder_->op("LayerNormalization", {x, weight({n}, 0.2F, 1), weight({n}, 0.2F)},
                            {{"axis", std::int64_t{-1}}, {"epsilon", 0.1F}});
    }
  }

  Value* spelled_out() {
    Value* x = any();
    switch (below(options_.smooth ? 3 : 4)) {
      case 0: {  // GELU
        Value* erf = builder_->op("Erf", {builder_->op("Div", {x, scalar(1.4142135F)})});
        Value* one_plus = builder_->op("Add", {erf, scalar(1)});
        return builder_->op("Mul", {builder_->op("Mul", {x, one_plus}), scalar(0.5F)});
      }
      case 1: return builder_->op("Mul", {x, builder_->op("Sigmoid", {x})});  // Swish
      case 2: {                                                               // LayerNorm
        Value* last = builder_->ints({-1});
        Value* centred = builder_->op("Sub", {x, builder_->op("ReduceMean", {x, last})});
        Value* square = builder_->op("Pow", {centred, scalar(2)});
        Value* root = builder_->op(
            "Sqrt",
            {builder_->op("Add", {builder_->op("ReduceMean", {square, last}), scalar(0.1F)})});
        Value* scaled = builder_->op(
            "Mul", {builder_->op("Div", {centred, root}), weight({dims_of(x)[1]}, 0.2F, 1)});
        return builder_->op("Add", {scaled, weight({dims_of(x)[1]}, 0.2F)});
      }
      default: {  // softmax
        Value* last = builder_->ints({-1});
        Value* e =
            builder_->op("Exp", {builder_->op("Sub", {x, builder_->op("ReduceMax", {x, last})})});
        return builder_->op("Div", {e, builder_->op("ReduceSum", {e, last})});
      }
    }
  }

  Value* reduction() {
    Value* x = any();
    Value* row = builder_->op(chance(50) ? "ReduceMean" : "ReduceSum", {x, builder_->ints({1})});
    return builder_->op("Sub", {x, builder_->op("Tanh", {row})});
  }

  // [R, C] as one image of R channels.
  Value* image() {
    Value* x = any();
    const Dims dims = dims_of(x);
    Value* image = builder_->op("Reshape", {x, builder_->ints({1, dims[0], dims[1], 1})});
    const std::int64_t out = pick_size();
    Value* y = builder_->op(
        "Conv", {image, weight({out, dims[0], 1, 1}, fan(dims[0])), weight({out}, 0.2F)});
    if (chance(50)) {
      y = builder_->op("BatchNormalization", {y, weight({out}, 0.2F, 1), weight({out}, 0.2F),
                                              weight({out}, 0.2F), weight({out}, 0.2F, 1)});
    }
    if (!options_.smooth && dims[1] > 2 && chance(50)) {
      y = builder_->op(chance(50) ? "MaxPool" : "AveragePool", {y}, {{"kernel_shape", Dims{2, 1}}});
    }
    const Dims shape = dims_of(y);
    return builder_->op("Reshape", {y, builder_->ints({shape[1], shape[2]})});
  }

  Value* no_op() {
    Value* x = any();
    switch (below(4)) {
      case 0: return builder_->op("Identity", {x});
      case 1: return builder_->op("Cast", {x}, {{"to", std::int64_t{1}}});
      case 2: return builder_->op("Reshape", {x, builder_->ints(dims_of(x))});
      default: return builder_->op("CastLike", {x, any()});
    }
  }

  // Both branches read x; one computes, one gives a captured value back.
  Value* branch() {
    Value* x = any();
    Value* condition = builder_->constant(
        Tensor::scalar(DType::kBool, static_cast<double>(below(2))), "condition");
    // Not through the builder, which would ask for types before there are branches.
    const std::string result[] = {graph().unique_name(builder_->scope() + "/If")};
    Value* operands_of_if[] = {condition};
    Node* node = graph().add_node("If", "", operands_of_if, result);
    node->name = result[0];
    for (const char* name : {"then_branch", "else_branch"}) {
      auto graph = std::make_shared<Graph>(name);
      node->set_attribute(name, Attribute::GraphRef(graph));
      Value* operands[] = {x};
      const std::string names[] = {graph->unique_name(node->result()->name() + "_" + name)};
      Node* inner = graph->add_node(std::string_view(name) == "then_branch" ? "Tanh" : "Identity",
                                    "", operands, names);
      inner->result()->type = x->type;
      graph->add_output(inner->result());
    }
    node->result()->type = x->type;
    return node->result();
  }

  void add_outputs() {
    graph().add_output(pool_.back());
    for (Value* value : pool_) {
      const bool may = value->producer() != nullptr && !value->is_graph_output();
      if (may && chance(15)) graph().add_output(value);
    }
  }

  // mean((v w)^2), as wide as what came before allows.
  void add_loss() {
    builder_->set_scope("loss");
    Value* y = builder_->op("Tanh", {pool_.back()});
    Value* square = builder_->op("Mul", {y, y});
    Value* loss = builder_->op("ReduceMean", {square}, {{"keepdims", std::int64_t{0}}});
    graph().rename(loss, "loss");
    graph().add_output(loss);
  }

  RandomModelOptions options_;
  std::mt19937_64 random_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Builder> builder_;
  std::vector<Value*> pool_;
  int weights_ = 0;
};

}  // namespace

std::unique_ptr<Model> random_model(std::uint64_t seed, const RandomModelOptions& options) {
  return Maker(seed, options).make();
}

}  // namespace mezzo::test
