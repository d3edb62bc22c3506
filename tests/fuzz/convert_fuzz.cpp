// The passes of `mezzo convert` over any model that loads, with settings drawn from its bytes.
// Every pass verifies what it leaves, and the result can be written and read. A model that ONNX's
// checker accepts stays one that it accepts.
#include <cstdint>
#include <memory>
#include <string>

#include "compiler/ir/verifier.h"
#include "compiler/onnx/check.h"
#include "compiler/onnx/export.h"
#include "compiler/onnx/function_calls.h"
#include "compiler/onnx/import.h"
#include "compiler/report/report.h"
#include "fuzz_target.h"
#include "onnx/onnx_pb.h"
#include "passes/pass_runner.h"
#include "passes/pipeline.h"

namespace mezzo::fuzz {
namespace {

// Larger graphs are slow to convert under the sanitizers and hold nothing that small ones do not.
constexpr std::uint64_t kMostNodes = 200;

passes::PassContext context_for(std::uint32_t choice) {
  passes::PassContext ctx;
  if ((choice & 1U) != 0) ctx.policy.low = DType::kBFloat16;
  if ((choice & 2U) != 0) ctx.policy.io = passes::IoTypes::kLow;
  if ((choice & 4U) != 0) ctx.policy.assign = passes::AssignMethod::kPropagate;
  if ((choice & 8U) != 0) ctx.padding = {.multiple = 8, .always = true};
  return ctx;
}

void run(Bytes bytes) {
  const auto model = load_model(write_scratch("model.onnx", bytes));
  if (!model.ok() || !count_expanded_nodes(**model, kMostNodes).ok()) return;
  const bool valid = check_model(**model).ok();
  passes::PassContext ctx = context_for(choice_for(bytes));
  const Status status = run_passes(**model, ctx, passes::convert_pipeline(ctx));
  if (!accepted(status, "the passes of convert")) return;
  refresh_value_info(*(*model)->graph);
  demand_ok(verify(**model), "a converted model verifies");
  demand(!report_json(make_report(**model, ctx.records)).empty(), "there is a report");
  onnx::ModelProto proto;
  demand_ok(to_proto(**model, {}, proto), "a converted model becomes a message");
  demand_ok(import_proto(proto).status(), "a converted model is read");
  if (valid) demand_ok(check_model(**model), "a valid model stays valid");
}

std::unique_ptr<google::protobuf::Message> new_message() {
  return std::make_unique<onnx::ModelProto>();
}

}  // namespace

const Target convert_target = {"convert", run, new_message};

}  // namespace mezzo::fuzz
