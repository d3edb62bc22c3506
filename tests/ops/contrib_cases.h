// The cases of contrib_cases.txt: operators of com.microsoft with what ONNX Runtime makes of them.
#pragma once

#include <string>
#include <vector>

#include "tests/ops/samples.h"

namespace mezzo::test {

struct ContribCase {
  std::string title;
  OpSample sample;
  std::vector<OperandSample> results;
};

std::vector<ContribCase> read_contrib_cases();

}  // namespace mezzo::test
