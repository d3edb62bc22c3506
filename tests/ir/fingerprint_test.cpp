// Whatever matters to a run changes the hash; what is only told does not.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "compiler/ir/clone.h"
#include "graph_maker.h"

namespace mezzo {
namespace {

using ::mezzo::testing::add_op;
using ::mezzo::testing::add_subgraph;
using ::mezzo::testing::floats;

Model small_model() {
  Model model;
  model.opsets = {{"", 17}};
  model.graph = std::make_unique<Graph>("main");
  Graph& graph = *model.graph;
  Value* x = graph.add_input("x", floats({2}));
  Value* w = graph.add_initializer("w", Tensor::scalar(DType::kFloat32, 1));
  Value* y = add_op(graph, "If", {x, w}, "y");
  y->producer()->set_attribute("alpha", 1.0F);
  Graph& inner = add_subgraph(y->producer(), "then_branch");
  inner.add_output(add_op(inner, "Op", {w}, "t"));
  graph.add_output(y);
  return model;
}

TEST(Fingerprint, EveryChangeThatMattersShows) {
  const Model model = small_model();
  const auto node = [](Model& m) { return m.graph->nodes().front().get(); };
  const std::vector<std::function<void(Model&)>> changes = {
      [](Model&) {},
      [](Model& m) { m.set_opset("", 18); },
      [](Model& m) { m.set_opset("com.x", 1); },
      [](Model& m) { m.graph->rename(m.graph->find("w"), "v"); },
      [](Model& m) { m.graph->find("x")->type = floats({3}); },
      [](Model& m) { m.graph->find("x")->type = TensorType::of(DType::kFloat16, {2}); },
      [](Model& m) {
        m.graph->find("x")->type = TensorType(DType::kFloat32, {Dim::symbolic("n")});
      },
      [](Model& m) {
        m.graph->replace_constant(m.graph->find("w"), Tensor::scalar(DType::kFloat32, 1));
      },
      [](Model& m) { m.graph->add_initializer("v", Tensor::scalar(DType::kFloat32, 1)); },
      [](Model& m) { m.graph->add_output(m.graph->find("x")); },
      [&](Model& m) { m.graph->change_op(node(m), "Loop"); },
      [&](Model& m) { m.graph->change_op(node(m), "If", "com.x"); },
      [&](Model& m) { m.graph->set_overload(node(m), "o"); },
      [&](Model& m) { node(m)->name = "other"; },
      [&](Model& m) { node(m)->set_operand(1, nullptr); },
      [&](Model& m) { node(m)->set_operand(2, nullptr); },
      [&](Model& m) { node(m)->set_operand(0, m.graph->find("w")); },
      [&](Model& m) { node(m)->set_attribute("alpha", 2.0F); },
      [&](Model& m) { node(m)->set_attribute("alpha", std::int64_t{1}); },
      [&](Model& m) { node(m)->set_attribute("beta", std::vector<float>{1}); },
      [&](Model& m) {
        node(m)->set_attribute("beta", std::vector<std::string>{"a", "b"});
      },
      [&](Model& m) { node(m)->set_attribute("beta", std::vector<std::string>{"ab"}); },
      [&](Model& m) { node(m)->set_attribute("beta", Type(TensorType())); },
      [&](Model& m) {
        node(m)->set_attribute("beta", NamedTensor{"t", Tensor::scalar(DType::kBool, 1)});
      },
      [&](Model& m) { node(m)->erase_attribute("alpha"); },
      [&](Model& m) { add_op(*node(m)->subgraphs()[0], "Op", {}, "u"); },
      [&](Model& m) { m.graph->add_result(node(m), "z"); },
      [](Model& m) {
        m.functions.push_back(std::make_unique<Function>());
        m.functions[0]->body = std::make_unique<Graph>();
      },
      [](Model& m) { m.training_info.emplace_back().algorithm = std::make_unique<Graph>(); },
      [](Model& m) {
        m.training_info.emplace_back().update_binding = {{"w", "w_new"}};
      },
  };
  std::set<std::uint64_t> seen;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const std::unique_ptr<Model> copy = clone_model(model);
    ASSERT_EQ(fingerprint(*copy), fingerprint(model));
    changes[i](*copy);
    EXPECT_TRUE(seen.insert(fingerprint(*copy)).second) << "change " << i;
  }
}

TEST(Fingerprint, NotesDoNotShow) {
  Model model = small_model();
  const std::uint64_t before = fingerprint(model);
  model.doc_string = model.producer_name = "other";
  model.graph->doc_string = "told";
  model.graph->metadata = {{"a", "b"}};
  model.graph->value_info.push_back({"y", floats({2}), "", {}});
  model.graph->nodes().front()->doc_string = "told";
  EXPECT_EQ(fingerprint(model), before);
}

}  // namespace
}  // namespace mezzo
