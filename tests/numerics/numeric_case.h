// Small models in text form, made ready to be looked at while they run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/interpreter/interpreter.h"
#include "compiler/ir/graph.h"
#include "compiler/report/records.h"
#include "passes/numerics/calibrate.h"
#include "passes/precision/policy.h"

namespace mezzo::test {

// `graph` at opset 17: "g (float[2] x) => (float[2] y) {...}", then functions, if any.
std::unique_ptr<Model> model_of(const std::string& graph);
// The same after numerics::prepare().
std::unique_ptr<Model> prepared(const std::string& graph);

// Everything low, whatever it holds: what a converter does that looks at nothing.
passes::PrecisionPolicy naive_policy(DType low = DType::kFloat16);
// Converted by the policy, and prepared again.
std::unique_ptr<Model> converted(const std::string& graph, const passes::PrecisionPolicy& policy);

// Tensors in memory of their own.
RuntimeValue floats(std::vector<std::int64_t> dims, const std::vector<float>& values);
RuntimeValue integers(std::vector<std::int64_t> dims, const std::vector<std::int64_t>& values);
RuntimeValue truths(std::vector<std::int64_t> dims, const std::vector<std::uint8_t>& values);
// The elements are values of `dtype` (float16, bfloat16, double, ...).
RuntimeValue tensor_as(DType dtype, std::vector<std::int64_t> dims,
                       const std::vector<double>& values);

// Runs the model with an observer that is told every node.
std::vector<RuntimeValue> observe(const Model& model, std::vector<RuntimeValue> inputs,
                                  NodeObserver observer);

// What `convert --calibrate` decides of it with these samples.
Records calibrated(const std::string& graph, const std::vector<std::vector<RuntimeValue>>& samples,
                   const passes::PrecisionPolicy& policy = {});
const NodeDecision& decision_of(const Records& records, const std::string& node);

}  // namespace mezzo::test
