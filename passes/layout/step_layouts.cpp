#include "passes/layout/step_layouts.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace mezzo::passes {
namespace {

constexpr std::array<std::string_view, 4> kConvolutions = {"Conv", "ConvGradInput",
                                                           "ConvGradWeight", "ConvTranspose"};

bool reads_low(const proto::Step& step, const proto::Plan& plan) {
  const auto low = [&](int operand) {
    return operand < step.inputs_size() && step.inputs(operand) >= 0 &&
           is_low(static_cast<DType>(plan.tensors(step.inputs(operand)).dtype()));
  };
  return low(0) && low(1);
}

}  // namespace

kernels::TensorDesc describe(const proto::Tensor& tensor) {
  return {static_cast<DType>(tensor.dtype()),
          {tensor.dims().begin(), tensor.dims().end()},
          static_cast<kernels::Layout>(tensor.layout())};
}

kernels::Attributes attributes_of(const proto::Step& step) {
  kernels::Attributes attributes;
  for (const proto::Attribute& attribute : step.attributes()) {
    const std::string& name = attribute.name();
    switch (attribute.value_case()) {
      case proto::Attribute::kI: attributes.set(name, attribute.i()); break;
      case proto::Attribute::kF: attributes.set(name, attribute.f()); break;
      case proto::Attribute::kS: attributes.set(name, attribute.s()); break;
      case proto::Attribute::kInts:
        attributes.set(name, std::vector<std::int64_t>(attribute.ints().values().begin(),
                                                       attribute.ints().values().end()));
        break;
      case proto::Attribute::kFloats:
        attributes.set(name, std::vector<double>(attribute.floats().values().begin(),
                                                 attribute.floats().values().end()));
        break;
      default: break;
    }
  }
  return attributes;
}

StepLayout step_layout(const proto::Step& step, const proto::Plan& plan, DeviceKind device) {
  if (device == DeviceKind::kCuda &&
      std::ranges::find(kConvolutions, step.op()) != kConvolutions.end()) {
    return reads_low(step, plan) ? StepLayout::kChannelsLast : StepLayout::kRowMajor;
  }
  switch (kernels::layout_use(step.op())) {
    case kernels::LayoutUse::kKeeps: return StepLayout::kKeeps;
    case kernels::LayoutUse::kMoves: return StepLayout::kMoves;
    case kernels::LayoutUse::kPrefers:
      return device == DeviceKind::kCpu ? StepLayout::kPrefers : StepLayout::kRowMajor;
    case kernels::LayoutUse::kRowMajor: break;
  }
  return StepLayout::kRowMajor;
}

View view_of(const proto::Step& step, int rank) {
  if (step.op() != "Transpose" || rank < 3) return View::kNone;
  std::vector<std::int64_t> perm;
  for (const proto::Attribute& attribute : step.attributes()) {
    if (attribute.name() == "perm")
      perm.assign(attribute.ints().values().begin(), attribute.ints().values().end());
  }
  std::vector<std::int64_t> to_last(static_cast<std::size_t>(rank));  // 0 2 .. rank-1 1
  std::iota(to_last.begin() + 1, to_last.end(), 2);
  to_last.back() = 1;
  if (perm == to_last) return View::kOfChannelsLast;
  std::vector<std::int64_t> from_last(static_cast<std::size_t>(rank));  // 0 rank-1 1 ..
  std::iota(from_last.begin() + 1, from_last.end(), 0);
  from_last[1] = rank - 1;
  return perm == from_last ? View::kToChannelsLast : View::kNone;
}

}  // namespace mezzo::passes
