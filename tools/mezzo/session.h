// Runs a model or plan on whatever inputs it is given: a plan per set of input shapes, made when
// they first come and kept; and where a graph cannot become a plan (sizes that depend on the data,
// control flow, sequences), the interpreter.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/interpreter/interpreter.h"
#include "compiler/ir/graph.h"
#include "compiler/support/status.h"
#include "runtime/exec/executor.h"
#include "tools/mezzo/compile_model.h"
#include "tools/mezzo/value_io.h"

namespace mezzo::cli {

struct SessionOptions {
  CompileOptions compile;  // policy and --dim; shapes come from the inputs
  int threads = 1;
  std::uint64_t most_iterations = 1'000'000;  // of all loops together
  bool profile = false;                       // measure every step
  std::shared_ptr<runtime::Device> device{};  // null: the CPU
  // What cannot become a plan is interpreted on the CPU in spite of `device`, with a note.
  bool device_or_interpreter = false;
};

class Session {
 public:
  // `path`: an ONNX model, or a .plan file, which has one set of shapes.
  static StatusOr<std::unique_ptr<Session>> open(const std::string& path,
                                                 const SessionOptions& options);

  const std::vector<GraphPort>& inputs() const { return inputs_; }
  const std::vector<GraphPort>& outputs() const { return outputs_; }

  // One value per input and per output, in order.
  StatusOr<std::vector<RuntimeValue>> run(std::vector<RuntimeValue> inputs);

  // Of the last run: what a plan's arenas, workspace and the weights it reads take, or the
  // interpreter's values at their peak.
  std::uint64_t memory_bytes() const;
  // Of the plan that ran last, or of all the graph's runs by the interpreter. There a node counts
  // from the end of the one before, and one with subgraphs without what its nodes took.
  std::vector<runtime::StepProfile> profile() const;

 private:
  Session(std::string path, const SessionOptions& options)
      : path_(std::move(path)), options_(options) {}
  Status open_plan();
  Status open_model();
  runtime::ExecutorOptions executor_options() const;
  // Unimplemented, with the reason, where a device was asked for and nothing else will do.
  Status expect_interpreter(const std::string& why) const;
  // Null where the graph cannot become a plan for these inputs.
  StatusOr<runtime::Executor*> plan_for(const std::vector<RuntimeValue>& inputs);
  StatusOr<std::vector<RuntimeValue>> execute(runtime::Executor& executor,
                                              const std::vector<RuntimeValue>& inputs) const;
  StatusOr<std::vector<RuntimeValue>> interpret(std::vector<RuntimeValue> inputs);
  void count_time(const Node& node);

  std::string path_;
  SessionOptions options_;
  std::vector<GraphPort> inputs_, outputs_;
  std::unique_ptr<Model> model_;                                     // null for a plan file
  std::map<std::string, std::unique_ptr<runtime::Executor>> plans_;  // by input types and shapes
  const runtime::Executor* last_ = nullptr;                          // null: interpreted
  std::map<const Node*, runtime::StepProfile> node_times_;
  std::chrono::steady_clock::time_point last_node_end_;
  std::unique_ptr<Model> interpreted_;
  std::unique_ptr<Interpreter> interpreter_;
  std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>(0);
};

}  // namespace mezzo::cli
