// Runs the mezzo program as its users do: as a process, in a folder of its own.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/temp_dir.h"

namespace mezzo::test {

struct CommandResult {
  int status = -1;  // exit status; 128 + N where signal N ended it; -1: it could not be started
  std::string out, err;
};

// Starts `arguments[0]` in `folder` with standard output and error captured (never a terminal) and
// waits. A run of more than `seconds` is ended, and reads as 128 + SIGKILL.
CommandResult run_command(const std::vector<std::string>& arguments, const std::string& folder,
                          int seconds = 120);

// A temporary folder with small models and data, in which mezzo runs.
//
//   classifier.onnxtxt  x float[N,4], labels int64[N] -> scores float[N,3], loss
//   data.npz            16 samples for it; labels 0..2
class CliTest : public ::testing::Test {
 protected:
  CliTest();

  std::string file(std::string_view name) const { return folder_.file(name); }
  // The program that was built with the tests, or the one that MEZZO_PROGRAM names.
  CommandResult mezzo(const std::vector<std::string>& arguments) const;

  // The run failed with `status`: one line on standard error that holds all of `needles`, nothing
  // on standard output, and no file or folder appeared, vanished or changed.
  void expect_refusal(const std::vector<std::string>& arguments, int status,
                      const std::vector<std::string>& needles) const;

  // Writes a model of the given body: "(inputs) => (outputs) <initializers> { nodes }".
  void write_model(std::string_view name, std::string_view body, int opset = 17) const;
  void write_floats(std::string_view npz, std::string_view array,
                    const std::vector<std::int64_t>& shape, const std::vector<float>& values) const;

  // Data for the classifier, spoilt as wanted.
  struct Data {
    std::vector<std::int64_t> x_shape = {16, 4}, label_shape = {16};
    std::vector<float> x;
    std::vector<std::int64_t> labels;
    std::string x_name = "x", labels_name = "labels";
    Data();
  };
  void write_data(std::string_view name, const Data& data) const;

  // Path, relative to the folder, and content of everything in it; "/" stands for a folder.
  std::map<std::string, std::string> contents() const;

 private:
  TempDir folder_;
};

}  // namespace mezzo::test
