// The loader: any bytes as a model file. What it takes verifies, can be written, and reads back as
// the same model: as a message, as a file with and without external data, and as text. ONNX's own
// checker, inference and version converter see it too and must answer.
#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/verifier.h"
#include "compiler/onnx/check.h"
#include "compiler/onnx/export.h"
#include "compiler/onnx/function_calls.h"
#include "compiler/onnx/import.h"
#include "fuzz_target.h"
#include "onnx/onnx_pb.h"

namespace mezzo::fuzz {
namespace {

// Larger ones are slow to infer and hold nothing that small ones do not.
constexpr std::uint64_t kMostNodes = 2000;

// The whole model in one message, serialized: equal for equal models.
std::string message_of(const Model& model) {
  onnx::ModelProto proto;
  demand_ok(to_proto(model, {}, proto), "a loaded model becomes a message");
  return proto.SerializeAsString();
}

void check_message(const std::string& message) {
  onnx::ModelProto proto;
  demand(proto.ParseFromString(message), "the message parses");
  const auto again = import_proto(proto);
  demand_ok(again.status(), "a message that was written is read");
  demand_ok(verify(**again), "what is read back verifies");
  demand(message_of(**again) == message, "a model is the same after a round trip");
}

std::unique_ptr<Model> write_and_read(const Model& model, ExternalData mode) {
  const std::string path = output_path("out.onnx");
  demand_ok(export_model(model, path, {.external_data = mode, .threshold_bytes = 16}),
            "a loaded model is written");
  auto again = import_model(path);
  demand_ok(again.status(), "a file that was written is read");
  return std::move(again).value();
}

void check_file(const Model& model, const std::string& message) {
  demand(message_of(*write_and_read(model, ExternalData::kNever)) == message,
         "a model is the same after writing and reading");
  // Data that move out of typed fields stay out of them, so the message changes once.
  const auto moved = write_and_read(model, ExternalData::kAlways);
  for (const Value* value : model.graph->initializers()) {
    const Value* other = moved->graph->find(value->name());
    if (value->constant() == nullptr) continue;
    demand(other != nullptr && other->constant() != nullptr, "no initializer is lost");
    demand(other->constant()->copy_bytes() == value->constant()->copy_bytes(),
           "external data are the same");
  }
  demand(message_of(*write_and_read(*moved, ExternalData::kAlways)) == message_of(*moved),
         "a model with external data is the same after writing and reading");
}

void check_text(const Model& model) {
  const auto shown = to_text(model);
  demand_ok(shown.status(), "every model can be shown as text");
  const auto text = to_text(model, Weights::kEmbedded);
  if (!accepted(text.status(), "to_text")) return;
  demand_ok(import_text(*text).status(), "text that was written is read");
}

// ONNX's own code, which must answer.
void check_library(Model& model) {
  accepted(check_model(model), "check_model");
  accepted(infer_all_types(model), "infer_all_types");
  demand_ok(verify(model), "a model with inferred types verifies");
}

void check_raising(Model& model) {
  if (model.opset() >= newest_opset()) return;
  accepted(raise_opset(model, model.opset() + 1), "raise_opset");
  demand_ok(verify(model), "a model of a later opset verifies");
}

void run(Bytes bytes) {
  std::vector<std::string> warnings;
  const auto model = load_model(write_scratch("model.onnx", bytes), {.warnings = &warnings});
  if (!accepted(model.status(), "load_model")) return;
  demand_ok(verify(**model), "a loaded model verifies");
  const std::string message = message_of(**model);
  check_message(message);
  const std::uint32_t way = choice_for(bytes) % 32;
  if (way < 8 || do_everything) check_file(**model, message);
  if ((way >= 8 && way < 16) || do_everything) check_text(**model);
  if (!count_expanded_nodes(**model, kMostNodes).ok()) return;
  if (way > 16 || do_everything) check_library(**model);
  // The library's converter copies all its schemas for every model, which takes longest by far.
  if (way == 16 || do_everything) check_raising(**model);
}

std::unique_ptr<google::protobuf::Message> new_message() {
  return std::make_unique<onnx::ModelProto>();
}

}  // namespace

const Target load_model_target = {"load_model", run, new_message};

}  // namespace mezzo::fuzz
