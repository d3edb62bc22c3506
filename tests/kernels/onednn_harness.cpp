#include <string>

#include "tests/kernels/layer_case.h"

namespace mezzo::kernels {
namespace {

const KernelEntry* onednn_row(std::string_view op) {
  for (const KernelEntry* row : kernel_rows(op, Backend::kCpu)) {
    if (row->implementation == "onednn") return row;
  }
  return nullptr;
}

}  // namespace

Outcome run_layer(const KernelRequest& request, const std::vector<Values>& operands) {
  const KernelEntry* const row = onednn_row(request.op);
  if (row == nullptr) {
    ADD_FAILURE() << "no oneDNN row for " << request.op;
    return {};
  }
  auto kernel = row->prepare(request);
  if (!kernel.ok()) {
    ADD_FAILURE() << kernel.status().message() << describe(request);
    return {};
  }
  return run_layer_on_host(**kernel, request, operands);
}

Outcome run_layer_on_constants(const KernelRequest& request, const std::vector<Values>& operands) {
  std::vector<Guarded> constants = make_buffers(request.inputs);
  KernelRequest known = request;
  for (std::size_t i = 0; i < constants.size(); ++i) {
    fill(constants[i], request.inputs[i], operands[i]);
    const bool given = i > 0 && request.inputs[i].present();
    known.constants.push_back(given ? constants[i].get() : nullptr);
  }
  return run_layer(known, operands);
}

bool has_bf16() { return __builtin_cpu_supports("avx512bf16"); }

}  // namespace mezzo::kernels
