#include "passes/numerics/output_error.h"

#include "compiler/interpreter/buffer_pool.h"
#include "compiler/ir/cast_elems.h"

namespace mezzo::numerics {

StatusOr<RuntimeValue> in_type_of(const Value& declared, const RuntimeValue& value) {
  const DType want = declared.dtype();
  if (!value.is_tensor() || want == value.tensor.dtype || !is_floating(want) ||
      !is_floating(value.tensor.dtype))
    return value;
  static BufferPool pool(0);
  HostTensor made{want, value.tensor.dims, nullptr};
  MEZZO_ASSIGN_OR_RETURN(const std::shared_ptr<std::byte> data, pool.allocate(made.bytes()));
  cast_elems(value.tensor.dtype, want, Overflow::kInfinity, value.tensor.data.get(), data.get(),
             static_cast<std::size_t>(made.elems()));
  made.data = data;
  return RuntimeValue(std::move(made));
}

StatusOr<OutputError> output_error(const Model& a, const Model& b, std::uint64_t samples,
                                   const SampleReader& read, const CalibrateOptions& options) {
  InterpreterOptions interpreter_options;
  interpreter_options.threads = options.threads;
  interpreter_options.most_iterations = options.most_iterations;
  OutputError worst;
  if (options.progress) options.progress(0);
  // One model after the other: each may hold its weights in an order of its own.
  std::vector<std::vector<RuntimeValue>> of_a;
  {
    Interpreter run_a(a, interpreter_options);
    for (std::uint64_t i = 0; i < samples; ++i) {
      MEZZO_ASSIGN_OR_RETURN(std::vector<RuntimeValue> inputs, read(i));
      MEZZO_ASSIGN_OR_RETURN(std::vector<RuntimeValue> outputs, run_a.run(std::move(inputs)));
      of_a.push_back(std::move(outputs));
    }
  }
  Interpreter run_b(b, interpreter_options);
  for (std::uint64_t i = 0; i < samples; ++i) {
    MEZZO_ASSIGN_OR_RETURN(const std::vector<RuntimeValue> inputs, read(i));
    std::vector<RuntimeValue> for_b;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      MEZZO_ASSIGN_OR_RETURN(RuntimeValue value, in_type_of(*b.graph->inputs()[k], inputs[k]));
      for_b.push_back(std::move(value));
    }
    MEZZO_ASSIGN_OR_RETURN(const auto of_b, run_b.run(std::move(for_b)));
    for (std::size_t k = 0; k < of_b.size(); ++k) {
      const Difference found = difference(of_a[i][k], of_b[k]);
      if (!worst.output.empty() && found.error <= worst.difference.error) continue;
      worst.output = a.graph->outputs()[k]->name();
      worst.difference = found;
    }
    if (options.progress) options.progress(i + 1);
  }
  return worst;
}

}  // namespace mezzo::numerics
