// mezzo run: executes a model or a plan on an npz.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <memory>

#include "compiler/support/text.h"
#include "runtime/exec/plan_file.h"
#include "runtime/io/npz.h"
#include "runtime/train/element_cast.h"
#include "tools/mezzo/command.h"
#include "tools/mezzo/compile_model.h"
#include "tools/mezzo/options.h"
#include "tools/mezzo/output_places.h"

namespace mezzo::cli {
namespace {

struct RunCommand {
  std::string model, input, output;
  PolicyOptions policy;
  DimOptions dims;
  ThreadOptions threads;

  Status run() const {
    MEZZO_RETURN_IF_ERROR(
        expect_different({{"--output", output}}, {{"the model", model}, {"--input", input}}));
    MEZZO_ASSIGN_OR_RETURN(const runtime::NpzFile file, runtime::NpzFile::open(input));
    MEZZO_ASSIGN_OR_RETURN(const auto executor, prepare(file));
    MEZZO_RETURN_IF_ERROR(read_inputs(file, *executor));
    MEZZO_RETURN_IF_ERROR(executor->run(proto::PHASE_FORWARD));
    MEZZO_RETURN_IF_ERROR(write_outputs(*executor));
    std::printf("wrote %s\n", output.c_str());
    return ok_status();
  }

  StatusOr<std::unique_ptr<runtime::Executor>> prepare(const runtime::NpzFile& file) const {
    const runtime::ExecutorOptions options{threads.count(), kernels::Backend::kCpu, false};
    if (model.ends_with(".plan")) {
      if (policy.ask_for_precision() || policy.force_fp32) {
        return invalid_argument(model +
                                ": a plan's precision is settled. Hint: give the policy to " +
                                "`mezzo compile`");
      }
      MEZZO_ASSIGN_OR_RETURN(const runtime::LoadedPlan loaded, runtime::load_plan(model));
      return runtime::Executor::create(loaded.plan, loaded.weights, options);
    }
    CompileOptions compile;
    MEZZO_ASSIGN_OR_RETURN(compile.policy, policy.to_policy());
    if (!policy.ask_for_precision()) compile.policy.force_fp32 = true;
    MEZZO_ASSIGN_OR_RETURN(compile.dims, dims.parse());
    compile.padding = padding_of(compile.policy);
    for (const runtime::ArrayInfo& array : file.arrays())
      compile.input_dims.emplace(array.name, array.shape);
    MEZZO_ASSIGN_OR_RETURN(const Compiled compiled, compile_model(model, compile));
    return runtime::Executor::create(compiled.plan(), weights_of(compiled.draft), options);
  }

  Status read_inputs(const runtime::NpzFile& file, runtime::Executor& executor) const {
    for (const proto::Port& port : executor.plan().inputs()) {
      const proto::Tensor& tensor = executor.plan().tensors(port.tensor());
      MEZZO_ASSIGN_OR_RETURN(const runtime::ArrayInfo* const info, file.get(port.name()));
      const std::vector<std::int64_t> dims(tensor.dims().begin(), tensor.dims().end());
      const auto want = static_cast<DType>(tensor.dtype());
      if (info->shape != dims) {
        return invalid_argument(input + ": array '" + port.name() + "': expected shape " +
                                format_dims(dims) + ", got " + format_dims(info->shape));
      }
      const runtime::CastFunction cast = runtime::element_cast(info->dtype, want);
      if (cast == nullptr) {
        return invalid_argument(input + ": array '" + port.name() + "': expected " +
                                std::string(dtype_name(want)) + ", got " +
                                std::string(dtype_name(info->dtype)));
      }
      MEZZO_ASSIGN_OR_RETURN(const runtime::ArrayData data,
                             file.read(port.name(), runtime::Alignment::kAny));
      cast(data.bytes.data(), executor.data(port.tensor()), static_cast<std::int64_t>(info->elems));
    }
    return ok_status();
  }

  Status write_outputs(const runtime::Executor& executor) const {
    MEZZO_ASSIGN_OR_RETURN(runtime::NpzWriter writer, runtime::NpzWriter::create(output));
    for (const proto::Port& port : executor.plan().outputs()) {
      const proto::Tensor& tensor = executor.plan().tensors(port.tensor());
      const std::vector<std::int64_t> dims(tensor.dims().begin(), tensor.dims().end());
      MEZZO_RETURN_IF_ERROR(writer.add(
          port.name(), static_cast<DType>(tensor.dtype()), dims,
          {executor.data(port.tensor()), static_cast<std::size_t>(executor.bytes(port.tensor()))}));
    }
    return writer.commit();
  }
};

}  // namespace

Work add_run(CLI::App& app) {
  auto command = std::make_shared<RunCommand>();
  app.add_option("model", command->model, "ONNX model, or a plan (.plan)")
      ->required()
      ->type_name("FILE");
  app.add_option("--input", command->input, "The graph's inputs, by name")
      ->required()
      ->type_name("NPZ");
  app.add_option("--output", command->output, "Receives the outputs, by name")
      ->required()
      ->type_name("NPZ");
  command->policy.add_to(app, /*takes_fp32=*/true, /*has_io=*/false);
  app.get_option("--precision")->description("Low type, or fp32 (default)");
  command->dims.add_to(app);
  command->threads.add_to(app);
  return [command] { return command->run(); };
}

}  // namespace mezzo::cli
