// What is wrong with what a user gives is said on one line, with the exit status that DESIGN names,
// and leaves nothing behind. Every case runs the program.
#pragma once

#include <string>
#include <vector>

#include "cli_runner.h"

namespace mezzo::test {

using Arguments = std::vector<std::string>;

class BadInput : public CliTest {
 protected:
  Arguments train(const Arguments& more = {}) const {
    Arguments all = {
        "train", "classifier.onnxtxt", "--data", "data.npz", "--batch-size", "4", "--steps", "3"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Arguments convert(const std::string& model, const Arguments& more = {}) const {
    Arguments all = {"convert", model, "-o", "mixed.onnx"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // A binary model, made by the program itself.
  void make_onnx(const std::string& name) const {
    const CommandResult made = mezzo({"opt", "classifier.onnxtxt", "-o", name});
    ASSERT_EQ(made.status, 0) << made.err;
  }
};

}  // namespace mezzo::test
