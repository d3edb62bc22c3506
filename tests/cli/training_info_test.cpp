// Models that hold their own training (TrainingInfoProto, ai.onnx.preview.training): the loss, the
// parameters and the optimizer are the file's. Models and values are made by
// training_info/make_models.py.

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "cli_runner.h"
#include "compiler/onnx/export.h"
#include "compiler/onnx/import.h"
#include "runtime/io/npz.h"
#include "runtime/io/safetensors.h"
#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

using Json = nlohmann::json;
using Arguments = std::vector<std::string>;

std::string path_of(const std::string& name) { return MEZZO_TRAINING_INFO + ("/" + name); }

const Json& expected() {
  static const Json all = Json::parse(std::ifstream(path_of("expected.json")));
  return all;
}

class TrainingInfo : public CliTest {
 protected:
  void write_arrays(bool labels) const {
    const Json& data = expected()["data"];
    const std::int64_t samples = data["samples"];
    auto writer = runtime::NpzWriter::create(file("data.npz"));
    ASSERT_TRUE(writer.ok());
    const std::vector<float> x = data["x"];
    ASSERT_TRUE(writer
                    ->add("x", DType::kFloat32, std::vector<std::int64_t>{samples, 3},
                          std::as_bytes(std::span(x)))
                    .ok());
    if (labels) {
      const std::vector<std::int64_t> target = data["ce"];
      ASSERT_TRUE(writer
                      ->add("t", DType::kInt64, std::vector<std::int64_t>{samples},
                            std::as_bytes(std::span(target)))
                      .ok());
    } else {
      const std::vector<float> target = data["mse"];
      ASSERT_TRUE(writer
                      ->add("t", DType::kFloat32, std::vector<std::int64_t>{samples, 2},
                            std::as_bytes(std::span(target)))
                      .ok());
    }
    ASSERT_TRUE(writer->commit().ok());
  }

  CommandResult train(const std::string& model, const Arguments& more = {}) const {
    Arguments command = {"train",        model,         "--data", "data.npz",
                         "--no-shuffle", "--precision", "fp32"};
    for (const auto& [option, key] :
         {std::pair("--batch-size", "batch"), std::pair("--steps", "steps")}) {
      command.emplace_back(option);
      command.push_back(std::to_string(expected()["data"][key].get<int>()));
    }
    command.insert(command.end(), more.begin(), more.end());
    return mezzo(command);
  }

  std::vector<double> losses() const {
    std::ifstream metrics(file("run/metrics.jsonl"));
    std::vector<double> values;
    for (std::string line; std::getline(metrics, line);)
      values.push_back(Json::parse(line)["loss"]);
    return values;
  }

  std::vector<float> weight(const std::string& name) const {
    auto saved = runtime::SafetensorsFile::open(file("run/checkpoint/model.safetensors"));
    if (!saved.ok()) return {};
    const auto* tensor = saved->find(name);
    if (tensor == nullptr) return {};
    std::vector<float> values(tensor->bytes.size() / sizeof(float));
    std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
    return values;
  }

  void check(const std::string& name) const {
    SCOPED_TRACE(name);
    const Json& want = expected()[name];
    const std::vector<double> got = losses(), loss = want["losses"];
    ASSERT_EQ(got.size(), loss.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], loss[i], 2e-6) << i;
    for (const char* parameter : {"W", "B"}) {
      const std::vector<float> trained = weight(parameter), values = want[parameter];
      ASSERT_EQ(trained.size(), values.size()) << parameter;
      for (std::size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(trained[i], values[i], 2e-6) << parameter << " " << i;
    }
  }

  // A model of the folder, changed.
  std::unique_ptr<Model> load(const std::string& name) const {
    return value_or_die(load_model(path_of(name)));
  }
  void save(const Model& model) const {
    ASSERT_TRUE(export_model(model, file("changed.onnx")).ok());
  }
  static Node* optimizer(Model& model) {
    for (const auto& node : model.training_info[0].algorithm->nodes()) {
      if (node->name == "optimizer") return node.get();
    }
    return nullptr;
  }
};

TEST_F(TrainingInfo, StepsAreThoseOfTheOperators) {
  for (const std::string name : {"adam", "adam_from_one"}) {
    write_arrays(true);
    const CommandResult run = train(path_of(name + ".onnx"));
    ASSERT_EQ(run.status, 0) << run.err;
    check(name);
  }
  for (const std::string name :
       {"momentum", "momentum_beta", "nesterov", "adagrad", "adagrad_from_one", "sgd"}) {
    write_arrays(false);
    const CommandResult run = train(path_of(name + ".onnx"));
    ASSERT_EQ(run.status, 0) << run.err;
    check(name);
  }
}

TEST_F(TrainingInfo, InitializationRunsWhenAskedTo) {
  write_arrays(false);
  const CommandResult run = train(path_of("sgd.onnx"), {"--initialize"});
  ASSERT_EQ(run.status, 0) << run.err;
  check("sgd_initialized");
  write_arrays(true);
  expect_refusal(
      {"train", path_of("adam.onnx"), "--data", "data.npz", "--batch-size", "4", "--initialize"}, 1,
      {"adam.onnx", "no initialization graph"});
}

// What the file leaves to its initialization graph is an input without it.
TEST_F(TrainingInfo, InitializationGivesWhatIsMissing) {
  const auto model = load("sgd.onnx");
  Graph& graph = *model->graph;
  for (const char* name : {"W", "B"}) {
    Value* old = graph.find(name);
    const Type type = old->type;
    graph.rename(old, std::string(name) + "_old");
    Value* input = graph.add_input(name, type);
    graph.replace_uses(old, input);
    graph.erase_initializer(old);
  }
  save(*model);
  write_arrays(false);
  const CommandResult run = train("changed.onnx");
  ASSERT_EQ(run.status, 0) << run.err;
  check("sgd_initialized");
}

TEST_F(TrainingInfo, TheCommandLineOverrules) {
  write_arrays(false);
  const CommandResult rate = train(path_of("momentum.onnx"), {"--lr", "0"});
  ASSERT_EQ(rate.status, 0) << rate.err;
  const std::vector<double> still = losses();
  ASSERT_EQ(still.size(), 5U);
  EXPECT_NEAR(still[0], still[2], 1e-6) << "two batches of the same data";
  const CommandResult other =
      train(path_of("momentum.onnx"), {"--optimizer", "sgd", "--lr", "0.1"});
  ASSERT_EQ(other.status, 0) << other.err;
  check("sgd");  // the same without momentum and decay
}

TEST_F(TrainingInfo, OtherFormsAreRefusedByName) {
  write_arrays(true);
  const Arguments command = {"train", "changed.onnx", "--data", "data.npz", "--batch-size", "4"};
  {
    const auto model = load("adam.onnx");  // a gradient that is clipped on its way
    mezzo::TrainingInfo& info = model->training_info[0];
    Node* adam = optimizer(*model);
    Value* gradient = adam->operand(4);
    const std::vector<std::string> names = {"clipped"};
    const std::vector<Value*> operands = {gradient};
    Node* clip = info.algorithm->add_node("Clip", "", operands, names, adam);
    adam->set_operand(4, clip->result());
    save(*model);
    expect_refusal(command, 1,
                   {"changed.onnx", "node 'optimizer' (ai.onnx.preview.training.Adam)",
                    "gradient of 'W'", "(Clip)"});
  }
  {
    const auto model = load("adam.onnx");  // a state that has moved already
    Graph& algorithm = *model->training_info[0].algorithm;
    const std::vector<float> values = {0, 0, 0, 0, 1, 0};
    algorithm.replace_constant(algorithm.find("V_W"), Tensor::from_floats({3, 2}, values));
    save(*model);
    expect_refusal(command, 1,
                   {"node 'optimizer' (ai.onnx.preview.training.Adam)", "'V_W'", "zeros"});
  }
  {
    const auto model = load("adam.onnx");  // a count that stands still
    auto& bindings = model->training_info[0].update_binding;
    std::erase_if(bindings, [](const auto& pair) { return pair.first == "T"; });
    save(*model);
    expect_refusal(command, 1,
                   {"node 'optimizer' (ai.onnx.preview.training.Adam)", "operand 1 (T)"});
  }
  {
    const auto model = load("adam.onnx");
    model->training_info[0].update_binding.emplace_back("nowhere", "W_new");
    save(*model);
    expect_refusal(command, 1, {"update_binding", "'nowhere'"});
  }
  {
    const auto model = load("adam.onnx");  // trained in two ways: which is meant?
    const auto other = load("adam.onnx");
    model->training_info.push_back(std::move(other->training_info[0]));
    save(*model);
    expect_refusal(command, 1, {"changed.onnx", "one training algorithm, got 2", "--loss"});
  }
}

}  // namespace
}  // namespace mezzo::test
