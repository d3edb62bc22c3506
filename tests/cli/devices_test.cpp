// Where mezzo can run, and what it says where that is not a GPU.
#include <nlohmann/json.hpp>

#include "cli_runner.h"

namespace mezzo::test {
namespace {

class Devices : public CliTest {};

TEST_F(Devices, TheCpuIsThereAndTheRestSaysWhyNot) {
  const CommandResult result = mezzo({"devices", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("devices").at(0).at("device"), "cpu");
  const bool has_gpu = json.at("devices").size() > 1;
  const CommandResult text = mezzo({"devices"});
  EXPECT_EQ(text.status, 0);
  EXPECT_NE(text.out.find("cpu"), std::string::npos);
  EXPECT_EQ(text.out.find("no CUDA") == std::string::npos, has_gpu);
}

// The reason is that of `mezzo devices`, and nothing is begun.
TEST_F(Devices, TrainingWithoutAGpuIsRefused) {
  const auto json = nlohmann::json::parse(mezzo({"devices", "--json"}).out);
  if (json.at("devices").size() > 1) GTEST_SKIP() << "there is a GPU here";
  std::string why = "CUDA";
  if (json.contains("cuda_missing")) why = json["cuda_missing"].get<std::string>();
  for (const char* device : {"cuda", "cuda:1"}) {
    expect_refusal({"train", "classifier.onnxtxt", "--data", "data.npz", "--batch-size", "4",
                    "--steps", "1", "--device", device},
                   1, {why});
    expect_refusal({"bench", "classifier.onnxtxt", "--dim", "N=4", "--device", device}, 1, {why});
  }
}

// Whatever lies where the module is looked for, mezzo says so, and the CPU goes on.
TEST_F(Devices, AFileThatIsNoModule) {
  write_floats("libmezzo_cuda.so", "x", {4}, {1, 2, 3, 4});
  ::setenv("LD_LIBRARY_PATH", file("").c_str(), 1);
  expect_refusal({"bench", "classifier.onnxtxt", "--dim", "N=4", "--device", "cuda"}, 1,
                 {"libmezzo_cuda.so", "damaged"});
  const CommandResult devices = mezzo({"devices"});
  ::unsetenv("LD_LIBRARY_PATH");
  EXPECT_EQ(devices.status, 0);
  EXPECT_NE(devices.out.find("cpu"), std::string::npos);
  EXPECT_NE(devices.out.find("no CUDA"), std::string::npos);
}

TEST_F(Devices, NamesThatAreNone) {
  for (const char* device : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:99999999999", "cpu:0"}) {
    expect_refusal({"train", "classifier.onnxtxt", "--data", "data.npz", "--batch-size", "4",
                    "--steps", "1", "--device", device},
                   2, {"--device", "expected cpu, cuda or cuda:N", device});
  }
}

TEST_F(Devices, Tf32IsOfCudaAlone) {
  expect_refusal({"train", "classifier.onnxtxt", "--data", "data.npz", "--batch-size", "4",
                  "--steps", "1", "--tf32"},
                 1, {"--tf32", "--device cuda"});
}

// Options that would have no effect are refused.
TEST_F(Devices, CompilingTakesTheNameAlone) {
  for (const char* option : {"--tf32", "--tune=2"}) {
    expect_refusal({"compile", "classifier.onnxtxt", "-o", "p.plan", "--dim", "N=4", "--device",
                    "cuda", option},
                   2, {"unknown option"});
  }
}

// A plan for a GPU runs on the CPU as well.
TEST_F(Devices, APlanForCudaRunsOnTheCpu) {
  ASSERT_EQ(mezzo({"compile", "classifier.onnxtxt", "-o", "gpu.plan", "--dim", "N=16", "--device",
                   "cuda", "--precision", "bf16"})
                .status,
            0);
  const CommandResult run = mezzo({"run", "gpu.plan", "--input", "data.npz", "--output", "y.npz"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_NE(mezzo({"inspect", "gpu.plan"}).out.find("cuda"), std::string::npos);
}

}  // namespace
}  // namespace mezzo::test
