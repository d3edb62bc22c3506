#include "passes/layout/choose_layouts.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/kernel.h"

namespace mezzo::passes {
namespace {

using kernels::Layout;
using kernels::LayoutUse;

kernels::TensorDesc describe(const proto::Tensor& tensor) {
  return {static_cast<DType>(tensor.dtype()),
          {tensor.dims().begin(), tensor.dims().end()},
          static_cast<Layout>(tensor.layout())};
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

// What a Transpose is between a channels-last tensor and a row-major one of the same bytes.
enum class View : std::uint8_t { kNone, kOfChannelsLast, kToChannelsLast };

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

class LayoutChooser {
 public:
  explicit LayoutChooser(PlanDraft& draft) : draft_(draft), plan_(draft.plan) {}

  LayoutStats run() {
    find_free_tensors();
    form_groups();
    if (weigh()) rewrite();
    return stats_;
  }

 private:
  // ---- what may change

  int tensor_count() const { return plan_.tensors_size(); }
  const proto::Phase& phase() const { return plan_.phases(0); }
  bool matters(int tensor) const {
    return tensor >= 0 && describe(plan_.tensors(tensor)).layout_matters();
  }
  std::int64_t bytes(int tensor) const {
    return static_cast<std::int64_t>(describe(plan_.tensors(tensor)).bytes());
  }
  static LayoutUse use_of(const proto::Step& step) { return kernels::layout_use(step.op()); }

  // Types that kernels take channels last without falling back to slow ones.
  static bool may_turn(const proto::Tensor& tensor) {
    const auto dtype = static_cast<DType>(tensor.dtype());
    return dtype == DType::kFloat32 || is_low(dtype) || dtype == DType::kBool;
  }

  // Activations whose bytes only steps that may change their layout write, and nobody shares.
  void find_free_tensors() {
    const auto count = static_cast<std::size_t>(tensor_count());
    free_.assign(count, false);
    for (const proto::Step& step : phase().steps()) {
      if (use_of(step) == LayoutUse::kRowMajor) continue;
      for (int o = 0; o < step.outputs_size(); ++o) {
        const int output = step.outputs(o);
        if (!matters(output) || plan_.tensors(output).role() != proto::ROLE_ACTIVATION ||
            !may_turn(plan_.tensors(output))) {
          continue;
        }
        if (use_of(step) == LayoutUse::kPrefers && o > 0) continue;
        free_[static_cast<std::size_t>(output)] = true;
      }
    }
    for (int i = 0; i < tensor_count(); ++i) {
      const std::int32_t source = draft_.alias_of[static_cast<std::size_t>(i)];
      if (source < 0) continue;
      free_[static_cast<std::size_t>(i)] = false;
      free_[static_cast<std::size_t>(source)] = false;
    }
    for (const proto::Port& port : plan_.outputs())
      free_[static_cast<std::size_t>(port.tensor())] = false;
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

  // Can all of the step's tensors lie channels last? A kernel is prepared to see, once per step.
  bool keeps(const proto::Step& step) {
    if (use_of(step) != LayoutUse::kKeeps) return false;
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
    for (const proto::Step& step : phase().steps()) {
      if (!keeps(step)) continue;
      int first = -1;
      for_activations(step, [&](int tensor) {
        if (!is_free(tensor)) return;
        if (first < 0) first = tensor;
        parent_[static_cast<std::size_t>(root(tensor))] = root(first);
      });
    }
  }

  // ---- gains

  void gain(int tensor, std::int64_t moved) {
    if (is_free(tensor)) gains_[static_cast<std::size_t>(root(tensor))] += moved;
  }

  void weigh_step(const proto::Step& step) {
    switch (use_of(step)) {
      case LayoutUse::kPrefers:
        if (matters(step.inputs(0))) gain(step.inputs(0), bytes(step.inputs(0)));
        if (matters(step.outputs(0))) gain(step.outputs(0), bytes(step.outputs(0)));
        for (int i = 1; i < step.inputs_size(); ++i) costs_row_major(step.inputs(i));
        return;
      case LayoutUse::kMoves: {
        const View view = view_of(step, plan_.tensors(step.inputs(0)).dims_size());
        if (view == View::kOfChannelsLast) gain(step.inputs(0), bytes(step.inputs(0)));
        if (view == View::kToChannelsLast) gain(step.outputs(0), bytes(step.outputs(0)));
        return;
      }
      case LayoutUse::kKeeps:
        if (keeps(step)) {
          weigh_borders(step);
          return;
        }
        break;
      case LayoutUse::kRowMajor: break;
    }
    for_activations(step, [&](int tensor) { costs_row_major(tensor); });
  }

  // A free tensor is reordered once, however many steps want it row-major.
  void costs_row_major(int tensor) {
    if (!is_free(tensor) || read_row_major_[static_cast<std::size_t>(tensor)]) return;
    read_row_major_[static_cast<std::size_t>(tensor)] = true;
    gain(tensor, -bytes(tensor));
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

  // False if nothing turns.
  bool weigh() {
    gains_.assign(static_cast<std::size_t>(tensor_count()), 0);
    read_row_major_.assign(static_cast<std::size_t>(tensor_count()), false);
    for (const proto::Step& step : phase().steps()) weigh_step(step);
    for (int i = 0; i < tensor_count(); ++i) {
      if (!is_free(i) || gains_[static_cast<std::size_t>(root(i))] <= 0) continue;
      plan_.mutable_tensors(i)->set_layout(static_cast<std::uint32_t>(Layout::kChannelsLast));
      ++stats_.channels_last;
    }
    return stats_.channels_last > 0;
  }

  // ---- rewriting

  bool is_channels_last(int tensor) const {
    return plan_.tensors(tensor).layout() == static_cast<std::uint32_t>(Layout::kChannelsLast);
  }

  // A tensor like `tensor` in the other layout.
  int twin(int tensor) {
    const int index = tensor_count();
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
    proto::Step* step = steps_.Add();
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
        draft_.alias_of[static_cast<std::size_t>(y)] >= 0) {
      return false;
    }
    draft_.alias_of[static_cast<std::size_t>(y)] = x;
    ++stats_.views;
    return true;
  }

  void rewrite_step(const proto::Step& old) {
    if (use_of(old) == LayoutUse::kMoves && make_view(old)) return;
    proto::Step step = old;
    std::vector<std::pair<int, int>> results;  // written, wanted
    const LayoutUse use = use_of(step);
    if (use == LayoutUse::kPrefers) {
      for (int i = 1; i < step.inputs_size(); ++i)
        step.set_inputs(i, operand_in(Layout::kRowMajor, step.inputs(i), step.node()));
    } else if (use != LayoutUse::kMoves) {
      bool turned = false;
      if (keeps(old)) {
        for_activations(old, [&](int tensor) {
          turned = turned || (is_free(tensor) && is_channels_last(tensor));
        });
      }
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
    *steps_.Add() = step;
    for (const auto& [written, wanted] : results) add_reorder(written, wanted, step.node());
  }

  void rewrite() {
    free_.resize(static_cast<std::size_t>(tensor_count()));
    for (const proto::Step& step : phase().steps()) rewrite_step(step);
    plan_.mutable_phases(0)->mutable_steps()->Swap(&steps_);
  }

  PlanDraft& draft_;
  proto::Plan& plan_;
  LayoutStats stats_;
  std::vector<bool> free_;
  std::unordered_map<const proto::Step*, bool> keeps_;
  std::vector<int> parent_;
  std::vector<std::int64_t> gains_;  // by root
  std::vector<bool> read_row_major_;
  std::unordered_map<int, int> copies_;  // tensor -> its twin in the other layout
  google::protobuf::RepeatedPtrField<proto::Step> steps_;
};

}  // namespace

LayoutStats choose_layouts(PlanDraft& draft) {
  if (draft.plan.phases_size() != 1 || draft.plan.has_training()) return {};
  return LayoutChooser(draft).run();
}

}  // namespace mezzo::passes
