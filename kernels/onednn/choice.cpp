#include "kernels/onednn/choice.h"

#include <algorithm>
#include <span>

namespace mezzo::kernels::onednn {
namespace {

Status check_side(std::string_view side, std::span<const TensorDesc> descs, std::size_t least,
                  std::size_t most) {
  if (descs.size() < least || descs.size() > most) {
    return invalid_argument("expected " + std::to_string(least) + " to " + std::to_string(most) +
                            " " + std::string(side) + "s, got " + std::to_string(descs.size()));
  }
  for (std::size_t i = 0; i < descs.size(); ++i) {
    const std::string where = std::string(side) + " " + std::to_string(i);
    if (!descs[i].present()) {
      if (i < least) return invalid_argument(where + " is missing");
      continue;
    }
    if (library_type(descs[i].dtype) == dnnl::memory::data_type::undef) {
      return unimplemented(where + " is " + std::string(dtype_name(descs[i].dtype)) +
                           "; supported are float, float16 and bfloat16");
    }
  }
  return ok_status();
}

}  // namespace

Status check_operands(const KernelRequest& request, const Arity& arity) {
  MEZZO_RETURN_IF_ERROR(
      check_side("operand", request.inputs, arity.least_inputs, arity.most_inputs));
  return check_side("result", request.outputs, arity.least_outputs, arity.most_outputs);
}

std::vector<DType> compute_dtypes(const KernelRequest& request, std::size_t operands) {
  const auto end = request.inputs.begin() + static_cast<std::ptrdiff_t>(operands);
  const bool all_bf16 = std::all_of(request.inputs.begin(), end, [](const TensorDesc& desc) {
    return desc.dtype == DType::kBFloat16;
  });
  if (all_bf16 && has_native_bf16()) return {DType::kBFloat16, DType::kFloat32};
  return {DType::kFloat32};
}

Status check_direct(std::initializer_list<const TensorDesc*> activations) {
  const DType dtype = (*activations.begin())->dtype;
  for (const TensorDesc* desc : activations) {
    const bool rows = desc->layout == Layout::kRowMajor && desc->layout_matters();
    if (rows) return unimplemented("row-major activations: own code is faster than a reorder");
    if (desc->dtype != dtype) return unimplemented("activations of different dtypes");
  }
  const bool takes = dtype == DType::kFloat32 || (dtype == DType::kBFloat16 && has_native_bf16());
  if (takes) return ok_status();
  return unimplemented(std::string(dtype_name(dtype)) + ": own code is faster than a cast");
}

std::string implementation_name(std::string_view library_name, const KernelRequest& request,
                                const Choice& choice) {
  std::string name = "onednn:" + std::string(library_name);
  const bool casts = std::any_of(
      request.inputs.begin(), request.inputs.end(),
      [&](const TensorDesc& desc) { return desc.present() && desc.dtype != choice.compute_dtype; });
  if (choice.compute_dtype == DType::kFloat32 && casts) name += ", operands cast to float";
  return name;
}

}  // namespace mezzo::kernels::onednn
