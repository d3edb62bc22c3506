// What `assign-precision` decides of a model in text form, for tests of single rules.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "compiler/onnx/import.h"
#include "compiler/report/records.h"
#include "passes/pass_runner.h"
#include "passes/pipeline.h"
#include "tests/support/status_test.h"

namespace mezzo::test {

struct Decisions {
  Records records;

  const NodeDecision& of(const std::string& node) const {
    for (const NodeDecision& decision : records.nodes) {
      if (decision.node == node) return decision;
    }
    ADD_FAILURE() << "no record of " << node;
    static const NodeDecision none;
    return none;
  }
  bool low(const std::string& node) const { return is_low(of(node).dtype); }
  std::string cause(const std::string& node) const { return of(node).cause; }
};

// `graph` is the text of a graph at opset 22: "g (float[2] x) => (float[2] y) {...}".
inline Decisions decide(const std::string& graph, DType low = DType::kFloat16,
                        const passes::PrecisionPolicy& policy = {}) {
  const auto model =
      value_or_die(import_text("<ir_version: 10, opset_import: [\"\" : 22]>\n" + graph));
  passes::PassContext ctx;
  ctx.policy = policy;
  ctx.policy.low = low;
  EXPECT_THAT(
      passes::run_passes(
          *model, ctx, {passes::find_pass("infer-shapes"), passes::find_pass("assign-precision")}),
      IsOk());
  return {std::move(ctx.records)};
}

}  // namespace mezzo::test
