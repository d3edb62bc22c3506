// Exports for inference, by both exporters of PyTorch, train as the modules they were made from:
// ten steps of SGD with momentum, with a loss from the command line. exports/make_exports.py has
// the modules.

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli_runner.h"

namespace mezzo::test {
namespace {

using Json = nlohmann::json;

std::string path_of(const std::string& name) { return MEZZO_EXPORTS + ("/" + name); }

TEST_F(CliTest, ExportsTrainAsTheirModules) {
  const Json recorded = Json::parse(std::ifstream(path_of("losses.json")));
  ASSERT_EQ(recorded.size(), 8U);
  for (const auto& [name, losses] : recorded.items()) {
    SCOPED_TRACE(name);
    const CommandResult run =
        mezzo({"train", path_of(name + ".onnx"), "--data",
               path_of(name.substr(0, name.find('_')) + ".npz"), "--batch-size", "8",
               "--no-shuffle", "--steps", "10", "--lr", "0.05", "--momentum", "0.9", "--precision",
               "fp32", "--loss", "cross-entropy"});
    ASSERT_EQ(run.status, 0) << run.err;
    std::ifstream metrics(file("run/metrics.jsonl"));
    std::size_t step = 0;
    for (std::string line; std::getline(metrics, line); ++step)
      EXPECT_NEAR(Json::parse(line)["loss"].get<double>(), losses.at(step).get<double>(), 5e-6)
          << step;
    EXPECT_EQ(step, losses.size());
  }
}

}  // namespace
}  // namespace mezzo::test
