#include "interpreted.h"

#include <gtest/gtest.h>

#include "compiler/onnx/import.h"
#include "passes/pass_runner.h"
#include "passes/pipeline.h"

namespace mezzo::test {

Interpreted::Interpreted(std::string_view text, InterpreterOptions options, bool functions) {
  auto model = import_text(text);
  if (!model.ok()) {
    ADD_FAILURE() << model.status().message();
    std::abort();
  }
  model_ = std::move(model).value();
  if (functions) {
    passes::PassContext ctx;
    const auto pipeline = passes::parse_passes("infer-shapes,expand-functions");
    const Status status = passes::run_passes(*model_, ctx, *pipeline);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  interpreter_ = std::make_unique<Interpreter>(*model_, std::move(options));
}

std::vector<RuntimeValue> Interpreted::run(std::vector<RuntimeValue> inputs) {
  auto outputs = interpreter_->run(std::move(inputs));
  EXPECT_TRUE(outputs.ok()) << outputs.status().message();
  // Callers index what they expect.
  return outputs.ok() ? std::move(outputs).value() : std::vector<RuntimeValue>(8);
}

std::string Interpreted::error(std::vector<RuntimeValue> inputs) {
  const auto outputs = interpreter_->run(std::move(inputs));
  EXPECT_FALSE(outputs.ok());
  return outputs.ok() ? "" : outputs.status().message();
}

}  // namespace mezzo::test
