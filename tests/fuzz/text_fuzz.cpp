// Any bytes as a model in ONNX's text syntax.
#include <string>

#include "compiler/ir/verifier.h"
#include "compiler/onnx/export.h"
#include "compiler/onnx/import.h"
#include "fuzz_target.h"

namespace mezzo::fuzz {
namespace {

void run(Bytes bytes) {
  const auto model = import_text(as_text(bytes));
  if (!accepted(model.status(), "import_text")) return;
  demand_ok(verify(**model), "a model from text verifies");
  const auto text = to_text(**model, Weights::kEmbedded);
  if (!accepted(text.status(), "to_text")) return;
  const auto again = import_text(*text);
  demand_ok(again.status(), "text that was written is read");
  const auto second = to_text(**again, Weights::kEmbedded);
  demand_ok(second.status(), "it can be written again");
  demand(*second == *text, "text is the same after a round trip");
}

}  // namespace

const Target text_target = {"text", run, nullptr};

}  // namespace mezzo::fuzz
