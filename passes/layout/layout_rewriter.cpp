#include "passes/layout/layout_rewriter.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mezzo::passes {
namespace {

using kernels::Layout;

class LayoutRewriter {
 public:
  LayoutRewriter(PlanDraft& draft, DeviceKind device,
                 const std::function<bool(const proto::Step&)>& keeps, LayoutStats& stats)
      : draft_(draft), plan_(draft.plan), device_(device), keeps_(keeps), stats_(stats) {}

  void run() {
    turn_constants();
    for (proto::Phase& phase : *plan_.mutable_phases()) {
      // Evaluation may run without the phases before: it makes its own copies.
      if (phase.kind() == proto::PHASE_EVALUATE) copies_.clear();
      google::protobuf::RepeatedPtrField<proto::Step> old;
      old.Swap(phase.mutable_steps());
      steps_ = phase.mutable_steps();
      for (const proto::Step& step : old) rewrite_step(step, phase_keeps_.at(&step));
    }
  }

  // Asked while the steps are where the chooser saw them.
  void ask_keeps() {
    for (const proto::Phase& phase : plan_.phases()) {
      for (const proto::Step& step : phase.steps()) phase_keeps_.emplace(&step, keeps_(step));
    }
  }

 private:
  bool matters(int tensor) const {
    return tensor >= 0 && describe(plan_.tensors(tensor)).layout_matters();
  }
  bool is_channels_last(int tensor) const {
    return plan_.tensors(tensor).layout() == static_cast<std::uint32_t>(Layout::kChannelsLast);
  }

  // ---- constants

  // Weights that only steps read which want them channels last are stored so.
  void turn_constants() {
    std::vector<bool> wanted(static_cast<std::size_t>(plan_.tensors_size()), false);
    std::vector<bool> unwanted = wanted;
    for (std::size_t i = 0; i < draft_.alias_of.size(); ++i) {
      if (draft_.alias_of[i] < 0) continue;
      unwanted[i] = true;
      unwanted[static_cast<std::size_t>(draft_.alias_of[i])] = true;
    }
    for (const proto::Port& port : plan_.outputs()) {
      for (const int tensor : {port.tensor(), port.evaluate_tensor()}) {
        if (tensor >= 0) unwanted[static_cast<std::size_t>(tensor)] = true;
      }
    }
    for (const proto::Phase& phase : plan_.phases()) {
      for (const proto::Step& step : phase.steps()) {
        const bool whole = step_layout(step, plan_, device_) == StepLayout::kChannelsLast;
        for (const int input : step.inputs()) {
          if (input >= 0) (whole ? wanted : unwanted)[static_cast<std::size_t>(input)] = true;
        }
      }
    }
    for (int i = 0; i < plan_.tensors_size(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (wanted[at] && !unwanted[at] && matters(i) && describe(plan_.tensors(i)).elems() > 0 &&
          plan_.tensors(i).role() == proto::ROLE_CONSTANT)
        turn_constant(i);
    }
  }

  void turn_constant(int index) {
    proto::Tensor* tensor = plan_.mutable_tensors(index);
    const kernels::TensorDesc desc = describe(*tensor);
    const auto elem_bytes = static_cast<std::size_t>(dtype_bits(desc.dtype)) / 8;
    const auto weights = draft_.weights.find(index);
    const std::vector<std::byte> bytes = [&] {
      if (weights != draft_.weights.end()) return weights->second->copy_bytes();
      const auto* data = reinterpret_cast<const std::byte*>(tensor->inline_data().data());
      return std::vector<std::byte>(data, data + tensor->inline_data().size());
    }();
    std::vector<std::byte> turned = channels_last(desc, elem_bytes, bytes);
    if (weights != draft_.weights.end()) {
      weights->second = Tensor::from_bytes(desc.dtype, desc.dims, std::move(turned));
    } else {
      tensor->set_inline_data(turned.data(), turned.size());
    }
    tensor->set_layout(static_cast<std::uint32_t>(Layout::kChannelsLast));
  }

  static std::vector<std::byte> channels_last(const kernels::TensorDesc& desc,
                                              std::size_t elem_bytes,
                                              const std::vector<std::byte>& bytes) {
    const auto n = static_cast<std::size_t>(desc.dims[0]);
    const auto channels = static_cast<std::size_t>(desc.dims[1]);
    const std::size_t places = bytes.size() / elem_bytes / n / channels;
    std::vector<std::byte> turned(bytes.size());
    for (std::size_t i = 0; i < n * channels * places; ++i) {
      const std::size_t place = i % places, channel = i / places % channels;
      const std::size_t to = (i / places / channels * places + place) * channels + channel;
      std::copy_n(&bytes[i * elem_bytes], elem_bytes, &turned[to * elem_bytes]);
    }
    return turned;
  }

  // ---- steps

  // A tensor like `tensor` in the other layout.
  int twin(int tensor) {
    const int index = plan_.tensors_size();
    proto::Tensor* copy = plan_.add_tensors();
    *copy = plan_.tensors(tensor);
    copy->set_name(copy->name() + (is_channels_last(tensor) ? ":row-major" : ":channels-last"));
    copy->set_layout(static_cast<std::uint32_t>(is_channels_last(tensor) ? Layout::kRowMajor
                                                                         : Layout::kChannelsLast));
    copy->set_role(proto::ROLE_ACTIVATION);
    copy->clear_inline_data();
    copy->set_in_weights_file(false);
    draft_.alias_of.push_back(-1);
    return index;
  }

  void add_reorder(int from, int to, const std::string& node) {
    proto::Step* step = steps_->Add();
    step->set_op("Reorder");
    step->set_node(node);
    step->add_inputs(from);
    step->add_outputs(to);
    ++stats_.reorders;
  }

  // `tensor` in the layout wanted: itself, or a copy that a step made before fills.
  int operand_in(Layout wanted, int tensor, const std::string& node) {
    if (!matters(tensor) || is_channels_last(tensor) == (wanted == Layout::kChannelsLast))
      return tensor;
    const auto [known, is_new] = copies_.try_emplace(tensor, -1);
    if (is_new) {
      known->second = twin(tensor);
      add_reorder(tensor, known->second, node);
    }
    return known->second;
  }

  // The Transpose's result becomes its operand's bytes.
  bool make_view(const proto::Step& step) {
    const int x = step.inputs(0), y = step.outputs(0);
    const View view = view_of(step, plan_.tensors(x).dims_size());
    const bool fits =
        (view == View::kOfChannelsLast && is_channels_last(x) && !is_channels_last(y)) ||
        (view == View::kToChannelsLast && !is_channels_last(x) && is_channels_last(y));
    if (!fits || plan_.tensors(x).role() != proto::ROLE_ACTIVATION ||
        plan_.tensors(y).role() != proto::ROLE_ACTIVATION ||
        draft_.alias_of[static_cast<std::size_t>(y)] >= 0) {
      return false;
    }
    draft_.alias_of[static_cast<std::size_t>(y)] = x;
    ++stats_.views;
    return true;
  }

  // Does the step run channels last, as a whole?
  bool runs_channels_last(const proto::Step& step, StepLayout use, bool keeps) const {
    if (use == StepLayout::kChannelsLast) return true;
    if (!keeps) return false;
    const auto turned = [&](int tensor) { return matters(tensor) && is_channels_last(tensor); };
    return std::ranges::any_of(step.inputs(), turned) ||
           std::ranges::any_of(step.outputs(), turned);
  }

  void rewrite_step(const proto::Step& old, bool keeps) {
    const StepLayout use = step_layout(old, plan_, device_);
    if (use == StepLayout::kMoves && make_view(old)) return;
    proto::Step step = old;
    std::vector<std::pair<int, int>> results;  // written, wanted
    if (use == StepLayout::kPrefers) {
      for (int i = 1; i < step.inputs_size(); ++i)
        step.set_inputs(i, operand_in(Layout::kRowMajor, step.inputs(i), step.node()));
    } else if (use != StepLayout::kMoves) {
      const bool turned = runs_channels_last(old, use, keeps);
      const Layout layout = turned ? Layout::kChannelsLast : Layout::kRowMajor;
      for (int i = 0; i < step.inputs_size(); ++i)
        step.set_inputs(i, operand_in(layout, step.inputs(i), step.node()));
      for (int o = 0; o < step.outputs_size() && turned; ++o) {
        const int wanted = step.outputs(o);
        if (!matters(wanted) || is_channels_last(wanted)) continue;
        step.set_outputs(o, twin(wanted));
        copies_.emplace(wanted, step.outputs(o));
        results.emplace_back(step.outputs(o), wanted);
      }
    }
    *steps_->Add() = step;
    for (const auto& [written, wanted] : results) add_reorder(written, wanted, step.node());
  }

  PlanDraft& draft_;
  proto::Plan& plan_;
  DeviceKind device_;
  const std::function<bool(const proto::Step&)>& keeps_;
  LayoutStats& stats_;
  std::unordered_map<const proto::Step*, bool> phase_keeps_;
  std::unordered_map<int, int> copies_;  // tensor -> its twin in the other layout
  google::protobuf::RepeatedPtrField<proto::Step>* steps_ = nullptr;
};

}  // namespace

void follow_layouts(PlanDraft& draft, DeviceKind device,
                    const std::function<bool(const proto::Step&)>& keeps, LayoutStats& stats) {
  LayoutRewriter rewriter(draft, device, keeps, stats);
  rewriter.ask_keeps();
  rewriter.run();
}

}  // namespace mezzo::passes
