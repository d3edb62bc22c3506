#include "passes/layout/choose_layouts.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <vector>

#include "kernels/kernel.h"
#include "passes/layout/layout_rewriter.h"
#include "passes/layout/step_layouts.h"

namespace mezzo::passes {
namespace {

using kernels::Layout;

class LayoutChooser {
 public:
  LayoutChooser(PlanDraft& draft, DeviceKind device)
      : draft_(draft), plan_(draft.plan), device_(device) {}

  LayoutStats run() {
    find_free_tensors();
    form_groups();
    weigh();
    follow_layouts(
        draft_, device_, [this](const proto::Step& step) { return keeps(step); }, stats_);
    return stats_;
  }

 private:
  // ---- what may change

  int tensor_count() const { return plan_.tensors_size(); }
  template <typename Visit>
  void for_steps(const Visit& visit) {
    for (const proto::Phase& phase : plan_.phases()) {
      for (const proto::Step& step : phase.steps()) visit(step);
    }
  }
  bool matters(int tensor) const {
    return tensor >= 0 && describe(plan_.tensors(tensor)).layout_matters();
  }
  std::int64_t bytes(int tensor) const {
    return static_cast<std::int64_t>(describe(plan_.tensors(tensor)).bytes());
  }
  StepLayout use_of(const proto::Step& step) const { return step_layout(step, plan_, device_); }

  // Types that kernels take channels last without falling back to slow ones.
  bool may_turn(const proto::Step& step, int output) const {
    const proto::Tensor& tensor = plan_.tensors(step.outputs(output));
    const auto dtype = static_cast<DType>(tensor.dtype());
    if (step.op() == "MaxPool" && output == 1) return true;  // where each maximum was
    return dtype == DType::kFloat32 || is_low(dtype) || dtype == DType::kBool;
  }

  // Activations whose bytes only steps that may change their layout write, and nobody shares.
  void find_free_tensors() {
    const auto count = static_cast<std::size_t>(tensor_count());
    free_.assign(count, false);
    for_steps([&](const proto::Step& step) {
      if (use_of(step) == StepLayout::kRowMajor) return;
      for (int o = 0; o < step.outputs_size(); ++o) {
        const int output = step.outputs(o);
        if (!matters(output) || plan_.tensors(output).role() != proto::ROLE_ACTIVATION ||
            !may_turn(step, o)) {
          continue;
        }
        if (use_of(step) == StepLayout::kPrefers && o > 0) continue;
        free_[static_cast<std::size_t>(output)] = true;
      }
    });
    for (int i = 0; i < tensor_count(); ++i) {
      const std::int32_t source = draft_.alias_of[static_cast<std::size_t>(i)];
      if (source < 0) continue;
      free_[static_cast<std::size_t>(i)] = false;
      free_[static_cast<std::size_t>(source)] = false;
    }
    for (const proto::Port& port : plan_.outputs()) {
      free_[static_cast<std::size_t>(port.tensor())] = false;
      if (port.evaluate_tensor() >= 0)
        free_[static_cast<std::size_t>(port.evaluate_tensor())] = false;
    }
  }
  bool is_free(int tensor) const { return tensor >= 0 && free_[static_cast<std::size_t>(tensor)]; }

  // Calls visit(tensor) for the operands and results whose layout matters.
  template <typename Visit>
  void for_activations(const proto::Step& step, const Visit& visit) const {
    for (const int input : step.inputs()) {
      if (matters(input)) visit(input);
    }
    for (const int output : step.outputs()) {
      if (matters(output)) visit(output);
    }
  }

  // Can all of the step's tensors lie channels last? A kernel is prepared to see, once per step:
  // the CPU's, as there need be no device here. A test holds the rows of devices to the same.
  bool keeps(const proto::Step& step) {
    if (use_of(step) != StepLayout::kKeeps) return false;
    const auto [known, is_new] = keeps_.try_emplace(&step, false);
    if (is_new) known->second = accepts_channels_last(step);
    return known->second;
  }

  bool accepts_channels_last(const proto::Step& step) const {
    bool concerned = false;
    for_activations(step, [&](int tensor) { concerned = concerned || is_free(tensor); });
    if (!concerned) return false;
    kernels::KernelRequest request;
    request.op = step.op();
    request.attributes = attributes_of(step);
    const auto turned = [&](int tensor) {
      if (tensor < 0) return kernels::TensorDesc{};
      kernels::TensorDesc desc = describe(plan_.tensors(tensor));
      if (desc.layout_matters()) desc.layout = Layout::kChannelsLast;
      return desc;
    };
    for (const int input : step.inputs()) request.inputs.push_back(turned(input));
    for (const int output : step.outputs()) request.outputs.push_back(turned(output));
    const auto kernel = kernels::prepare_kernel(request, kernels::Backend::kCpu);
    return kernel.ok() && (*kernel)->implementation() != "reference";
  }

  // ---- groups

  int root(int tensor) {
    int& up = parent_[static_cast<std::size_t>(tensor)];
    while (up != parent_[static_cast<std::size_t>(up)]) up = parent_[static_cast<std::size_t>(up)];
    return up;
  }

  void form_groups() {
    parent_.resize(static_cast<std::size_t>(tensor_count()));
    std::iota(parent_.begin(), parent_.end(), 0);
    for_steps([&](const proto::Step& step) {
      if (!keeps(step)) return;
      int first = -1;
      for_activations(step, [&](int tensor) {
        if (!is_free(tensor)) return;
        if (first < 0) first = tensor;
        parent_[static_cast<std::size_t>(root(tensor))] = root(first);
      });
    });
  }

  // ---- gains

  void gain(int tensor, std::int64_t moved) {
    if (is_free(tensor)) gains_[static_cast<std::size_t>(root(tensor))] += moved;
  }

  void weigh_step(const proto::Step& step) {
    switch (use_of(step)) {
      case StepLayout::kPrefers:
        if (matters(step.inputs(0))) gain(step.inputs(0), bytes(step.inputs(0)));
        if (matters(step.outputs(0))) gain(step.outputs(0), bytes(step.outputs(0)));
        for (int i = 1; i < step.inputs_size(); ++i) costs_row_major(step.inputs(i));
        return;
      case StepLayout::kMoves: {
        const View view = view_of(step, plan_.tensors(step.inputs(0)).dims_size());
        if (view == View::kOfChannelsLast) gain(step.inputs(0), bytes(step.inputs(0)));
        if (view == View::kToChannelsLast) gain(step.outputs(0), bytes(step.outputs(0)));
        return;
      }
      case StepLayout::kChannelsLast:
        for_activations(step, [&](int tensor) { costs_channels_last(tensor); });
        return;
      case StepLayout::kKeeps:
        if (keeps(step)) {
          weigh_borders(step);
          return;
        }
        break;
      case StepLayout::kRowMajor: break;
    }
    for_activations(step, [&](int tensor) { costs_row_major(tensor); });
  }

  // A free tensor is reordered once, however many steps want it row-major.
  void costs_row_major(int tensor) {
    if (!is_free(tensor) || read_row_major_[static_cast<std::size_t>(tensor)]) return;
    read_row_major_[static_cast<std::size_t>(tensor)] = true;
    gain(tensor, -bytes(tensor));
  }

  // The same the other way round.
  void costs_channels_last(int tensor) {
    if (!is_free(tensor) || read_channels_last_[static_cast<std::size_t>(tensor)]) return;
    read_channels_last_[static_cast<std::size_t>(tensor)] = true;
    gain(tensor, bytes(tensor));
  }

  // Tensors at the border are reordered for the group.
  void weigh_borders(const proto::Step& step) {
    int member = -1;
    for_activations(step, [&](int tensor) { member = is_free(tensor) ? tensor : member; });
    if (member < 0) return;
    for_activations(step, [&](int tensor) {
      if (!is_free(tensor)) gain(member, -bytes(tensor));
    });
  }

  void weigh() {
    gains_.assign(static_cast<std::size_t>(tensor_count()), 0);
    read_row_major_.assign(static_cast<std::size_t>(tensor_count()), false);
    read_channels_last_ = read_row_major_;
    for_steps([&](const proto::Step& step) { weigh_step(step); });
    for (int i = 0; i < tensor_count(); ++i) {
      if (!is_free(i) || gains_[static_cast<std::size_t>(root(i))] <= 0) continue;
      plan_.mutable_tensors(i)->set_layout(static_cast<std::uint32_t>(Layout::kChannelsLast));
      ++stats_.channels_last;
    }
  }

  PlanDraft& draft_;
  proto::Plan& plan_;
  DeviceKind device_;
  LayoutStats stats_;
  std::vector<bool> free_;
  std::unordered_map<const proto::Step*, bool> keeps_;
  std::vector<int> parent_;
  std::vector<std::int64_t> gains_;  // by root
  std::vector<bool> read_row_major_, read_channels_last_;
};

}  // namespace

LayoutStats choose_layouts(PlanDraft& draft, DeviceKind device) {
  if (device == DeviceKind::kCpu && (draft.plan.phases_size() != 1 || draft.plan.has_training()))
    return {};
  return LayoutChooser(draft, device).run();
}

}  // namespace mezzo::passes
