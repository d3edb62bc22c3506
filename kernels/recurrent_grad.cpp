#include "kernels/recurrent_grad.h"

#include <string>

#include "compiler/support/text.h"
#include "kernels/request_check.h"

namespace mezzo::kernels {
namespace {

// The forward operator's request, with the descriptions of dy where its results stand.
KernelRequest forward_request(const KernelRequest& request) {
  KernelRequest forward;
  forward.op = request.op.substr(0, request.op.size() - std::string_view("Grad").size());
  forward.attributes = request.attributes;
  forward.inputs.assign(request.inputs.begin() + kRecurrentGradForward, request.inputs.end());
  forward.outputs.assign(request.inputs.begin(), request.inputs.begin() + kRecurrentGradForward);
  return forward;
}

bool slope_is_told(const ActivationChoice& choice) {
  const bool bends =
      choice.kind == RecurrentActivation::kElu || choice.kind == RecurrentActivation::kLeakyRelu;
  return !bends || choice.alpha >= 0.0;
}

}  // namespace

StatusOr<RecurrentForm> read_recurrent_grad(const KernelRequest& request) {
  if (request.inputs.size() < kRecurrentGradForward + 3) {
    return invalid_argument(request.op + ": expected at least 6 operands");
  }
  MEZZO_ASSIGN_OR_RETURN(RecurrentForm form, read_recurrent(forward_request(request)));
  // What is kept of all steps; dims may be large where x has no elements.
  const double kept =
      static_cast<double>(form.steps) * static_cast<double>(form.batch) *
      (2.0 * static_cast<double>(form.gates) * static_cast<double>(form.hidden) +
       5.0 * static_cast<double>(form.hidden) + 2.0 * static_cast<double>(form.input));
  if (kept > static_cast<double>(kMaxElems)) {
    return unimplemented(request.op + ": more gates than fit in memory");
  }
  for (const ActivationChoice& choice : form.activations) {
    if (slope_is_told(choice)) continue;
    return unimplemented(request.op + ": attribute 'activation_alpha': no gradient for " +
                         std::to_string(choice.alpha) + ", expected 0 or more");
  }
  for (std::size_t i = 0; i < request.outputs.size() && i < kRecurrentGradResults; ++i) {
    const TensorDesc& result = request.outputs[i];
    const std::size_t like = recurrent_grad_like(i);
    if (!result.present()) continue;
    if (like >= request.inputs.size() || !request.inputs[like].present()) {
      return invalid_argument(request.op + ", result " + std::to_string(i) +
                              ": the layer has no such operand");
    }
    if (result.dims != request.inputs[like].dims || result.layout != Layout::kRowMajor) {
      return invalid_argument(request.op + ", result " + std::to_string(i) + ": expected dims " +
                              format_dims(request.inputs[like].dims) + ", got " +
                              format_dims(result.dims));
    }
  }
  return form;
}

}  // namespace mezzo::kernels
