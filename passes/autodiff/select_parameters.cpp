#include "passes/autodiff/select_parameters.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "compiler/ops/op_def.h"
#include "compiler/support/text.h"
#include "passes/autodiff/activity.h"
#include "passes/autodiff/exporter_names.h"
#include "passes/autodiff/exporter_notes.h"
#include "passes/autodiff/parameter_roles.h"
#include "passes/autodiff/pattern_list.h"

namespace mezzo::passes {
namespace {

constexpr const char* kQuantization = "quantization parameter";
constexpr double kLargestEpsilon = 1e-3;
constexpr std::int64_t kMaskScanElems = std::int64_t{1} << 24;

bool is_scalar_loss(const Value& value) {
  return value.type.is_tensor() && is_floating(value.dtype()) &&
         value.tensor_type().has_static_shape() && value.tensor_type().elems() == 1;
}

// A scalar that is only an exponent or a limit (6 of Relu6), or a small number that only keeps a
// sum or maximum off zero. Modules hold their learned scalars as such, too (a shift, a learned
// limit of activations), under names of their own; but raise to the power of them only as vectors.
std::string scalar_role(const Value& value, const ExporterNames& names) {
  if (!value.constant()->dims().empty() || value.uses().empty()) return {};
  const double number = std::fabs(value.constant()->to_doubles().at(0));
  const auto all_uses = [&](const auto& fits) {
    return std::all_of(value.uses().begin(), value.uses().end(), fits);
  };
  if (all_uses([](const Use& use) { return use.node->is("Pow") && use.operand == 1; })) {
    return "exponent";
  }
  if (!names.is_anonymous(value.name()) && !names_a_limit(value.name())) return {};
  if (all_uses([](const Use& use) { return use.node->is("Clip") && use.operand >= 1; })) {
    return "limit";
  }
  const bool small = number > 0 && number <= kLargestEpsilon;
  if (small && all_uses([](const Use& use) {
        return use.node->is("Add") || use.node->is("Max") || use.node->is("Clip");
      })) {
    return "epsilon";
  }
  return {};
}

// All elements 0, 1, or so large that they only mask: a mask, not a weight. Shifted windows write
// -100, and nothing else beside 0.
bool is_mask(const Tensor& tensor) {
  if (tensor.elems() < 2 || tensor.elems() > kMaskScanElems) return false;
  const std::vector<double> values = tensor.to_doubles();
  bool has_zero = false, all_never = true, all_equal = true;
  std::optional<double> other;
  for (const double v : values) {
    if (v == 0) {
      has_zero = true;
      continue;
    }
    all_never = all_never && (v == 1 || v <= -1e4 || std::isinf(v));
    all_equal = all_equal && v == other.value_or(v);
    other = v;
  }
  const bool masks = other && (all_never || (all_equal && *other <= -10));
  return has_zero && masks && tensor.dims().size() >= 2;
}

// "running statistic of 'bn1'" if a normalisation reads the value as mean or variance.
std::string statistic_of(const Value& value) {
  for (const Use& use : value.uses()) {
    const std::string& op = use.node->op_type();
    if ((op == "BatchNormalization" || op == "BatchNormalizationTrain") && use.operand >= 3) {
      return "running statistic of " + describe(*use.node);
    }
  }
  return {};
}

bool is_quantization_parameter(const Value& value) {
  return std::any_of(value.uses().begin(), value.uses().end(), [](const Use& use) {
    const std::string& op = use.node->op_type();
    const bool quantizes =
        op.find("Quantize") != std::string::npos || op.find("QLinear") != std::string::npos;
    return quantizes && use.operand >= 1;
  });
}

// What layers read beside their weights: the zeros from which an exporter lets a recurrent layer
// start (a learned state has a name), and the window of a Fourier transform.
std::string layer_role(const Value& value, const ExporterNames& names) {
  const auto all_uses = [&](const auto& fits) {
    return !value.uses().empty() && std::all_of(value.uses().begin(), value.uses().end(), fits);
  };
  if (all_uses([](const Use& use) { return use.node->is("STFT") && use.operand == 2; })) {
    return "window of " + describe(*value.uses().front().node);
  }
  const bool is_state = all_uses([](const Use& use) {
    const bool recurrent = use.node->is("RNN") || use.node->is("LSTM") || use.node->is("GRU");
    return recurrent && (use.operand == 5 || use.operand == 6);
  });
  if (!is_state || !names.is_anonymous(value.name()) ||
      value.constant()->elems() > kMaskScanElems) {
    return {};
  }
  const std::vector<double> numbers = value.constant()->to_doubles();
  const bool zero = std::all_of(numbers.begin(), numbers.end(), [](double x) { return x == 0.0; });
  return zero ? "initial state of zeros" : "";
}

// A parameter of one element is a vector (the bias of one channel), by what reads it.
bool is_lone_constant(const Value& value, const ExporterNames& names) {
  const Tensor& tensor = *value.constant();
  return tensor.elems() <= 1 && names.is_anonymous(value.name()) &&
         (tensor.dims().empty() || !is_read_as_parameter(value));
}

std::string reason_to_keep(const Value& value, const std::string& noted_kind,
                           const ExporterNames& names) {
  if (std::string statistic = statistic_of(value); !statistic.empty()) return statistic;
  if (is_quantization_parameter(value)) return kQuantization;
  if (noted_kind == "BUFFER") return "buffer of the module";
  if (noted_kind == "CONSTANT_TENSOR") return "constant of the module";
  if (noted_kind == kComputedKind) return "computed by the exporter, from no parameter";
  if (noted_kind == "PARAMETER") return {};
  if (value.constant()->elems() <= 1 && value.dtype() != DType::kFloat32) {
    return "lone number in " + std::string(dtype_name(value.dtype()));
  }
  if (is_lone_constant(value, names)) return "constant of the exporter";
  if (std::string role = scalar_role(value, names); !role.empty()) return role;
  if (is_mask(*value.constant()) && !is_read_as_parameter(value)) return "mask";
  return layer_role(value, names);
}

// A pattern of --train that means integers alone is a misunderstanding.
Status check_trainable(const PatternList& train, const Graph& graph) {
  for (const Pattern& pattern : train.patterns()) {
    const Value* integers = nullptr;
    bool any = false;
    for (const Value* value : graph.initializers()) {
      if (!pattern.matches(value->name())) continue;
      any = any || is_floating(value->dtype());
      integers = value;
    }
    if (any || integers == nullptr) continue;
    return invalid_argument(
        "--train '" + pattern.text() + "': expected floating-point parameters, got '" +
        integers->name() + "' " + to_string(integers->type) +
        (integers->uses().empty() ? std::string()
                                  : " of " + describe(*integers->uses().front().node)));
  }
  return ok_status();
}

// Nothing is known of what lies behind such a node, not even its types.
const Node* first_unknown(const Graph& graph) {
  for (const auto& node : graph.nodes()) {
    if (find_op(*node) == nullptr) return node.get();
  }
  return nullptr;
}

const Value* first_of(const Node& node, const ValueSet& set) {
  for (const Value* operand : node.operands()) {
    if (operand != nullptr && set.count(operand) > 0) return operand;
  }
  return nullptr;
}

// Where the gradient of a loss ends before it reaches a parameter, as "node 'rank' (ArgMax), which
// passes no gradient on to 'scores'"; "" if the loss is computed from no such initializer. `used`
// is what the gradient reaches.
std::string end_of_gradient(const Graph& graph, const ValueSet& used, const ExporterNames& names) {
  ValueSet computed;  // from initializers that could be parameters
  for (const Value* value : graph.initializers()) {
    if (used.count(value) == 0 && value->constant() && is_floating(value->dtype()) &&
        reason_to_keep(*value, {}, names).empty())
      computed.insert(value);
  }
  const Node* end = nullptr;
  for (const auto& node : graph.nodes()) {
    if (first_of(*node, computed) == nullptr) continue;
    for (const Value* result : node->results()) {
      if (result == nullptr) continue;
      computed.insert(result);
      if (used.count(result) > 0 && end == nullptr) end = node.get();
    }
  }
  while (end != nullptr) {
    const Value* operand = first_of(*end, computed);
    if (operand == nullptr) return {};
    if (is_floating(operand->dtype()))
      return describe(*end) + ", which passes no gradient on to '" + operand->name() + "'";
    end = operand->producer();  // integers: the gradient was lost where they were made
  }
  return {};
}

}  // namespace

StatusOr<Value*> find_loss(const Graph& graph, const std::string& name,
                           const std::set<std::string>& states) {
  std::vector<std::string> all;
  std::vector<Value*> scalars;
  for (Value* output : graph.outputs()) {
    if (states.count(output->name()) > 0) continue;
    all.push_back("'" + output->name() + "' " + to_string(output->type));
    if (output->name() == name) {
      if (is_scalar_loss(*output)) return output;
      return invalid_argument("output '" + name +
                              "': expected a floating-point scalar to train on, got " +
                              to_string(output->type));
    }
    if (is_scalar_loss(*output)) scalars.push_back(output);
  }
  if (name.empty() && scalars.size() == 1) return scalars.front();
  const std::string outputs = " The outputs are " + join(all, ", ") + ".";
  if (!name.empty())
    return invalid_argument("--loss-output '" + name + "': no such output." + outputs);
  if (scalars.empty()) {
    return invalid_argument(
        "the graph has no loss: expected one output that is a floating-point scalar." + outputs +
        " Hint: add one with --loss, or export the model together with its loss");
  }
  return invalid_argument("more than one output is a floating-point scalar." + outputs +
                          " Hint: choose the loss with --loss-output NAME");
}

StatusOr<std::vector<ParameterChoice>> select_parameters(const Graph& graph, const Value& loss,
                                                         const TrainingOptions& options,
                                                         const std::set<std::string>& computed) {
  MEZZO_ASSIGN_OR_RETURN(const auto freeze, PatternList::compile(options.freeze, "--freeze"));
  MEZZO_ASSIGN_OR_RETURN(const auto train, PatternList::compile(options.train, "--train"));
  MEZZO_RETURN_IF_ERROR(freeze.check_names(graph));
  MEZZO_RETURN_IF_ERROR(train.check_names(graph));
  MEZZO_RETURN_IF_ERROR(check_trainable(train, graph));
  const std::set<std::string> chosen(options.parameters.begin(), options.parameters.end());
  const auto kinds = noted_kinds(graph);
  const ExporterNames names(graph, computed);
  const ValueSet used = influences(loss);
  std::vector<ParameterChoice> choices;
  bool any_trained = false;
  for (Value* value : graph.initializers()) {
    if (!is_floating(value->dtype()) || !value->constant()) continue;
    ParameterChoice choice{value, false, used.count(value) > 0, {}};
    if (!choice.reached) {
      choice.reason = statistic_of(*value);
      if (choice.reason.empty() && is_quantization_parameter(*value)) choice.reason = kQuantization;
      if (choice.reason.empty()) choice.reason = "the loss does not depend on it";
    } else if (train.matches(value->name())) {
      choice.trained = true;
      choice.reason = "--train";
    } else if (freeze.matches(value->name())) {
      choice.reason = kFrozenByOption;
    } else if (!chosen.empty()) {
      choice.trained = chosen.count(value->name()) > 0;
      choice.reason = choice.trained ? "the training information updates it" : kNotUpdated;
    } else {
      const auto kind = kinds.find(value->name());
      choice.reason = computed.count(value->name()) > 0
                          ? "computed from constants"
                          : reason_to_keep(*value, kind == kinds.end() ? "" : kind->second, names);
      choice.trained = choice.reason.empty();
      if (choice.trained) choice.reason = "the loss depends on it";
    }
    if (choice.trained && value->dtype() != DType::kFloat32) {
      return unimplemented("parameter '" + value->name() + "': expected float to train, got " +
                           std::string(dtype_name(value->dtype())) +
                           ". Hint: export the model in FP32, mezzo rewrites it");
    }
    any_trained = any_trained || choice.trained;
    choices.push_back(std::move(choice));
  }
  if (!any_trained) {
    const std::string reached =
        "nothing to train: the loss '" + loss.name() + "' depends on no trainable initializer";
    if (const Node* unknown = first_unknown(graph)) {
      return unimplemented(reached + ", as far as is known: no gradient passes " +
                           describe(*unknown) + ", an operator that mezzo does not know");
    }
    if (const std::string end = end_of_gradient(graph, used, names); !end.empty())
      return invalid_argument(reached + ": on the way to it stands " + end);
    return invalid_argument(reached + ". Hint: --train REGEX selects some by name");
  }
  return choices;
}

std::map<std::string, std::string> untrained(const Graph& graph,
                                             const std::vector<ParameterChoice>& choices,
                                             const std::set<std::string>& computed) {
  const ExporterNames names(graph, computed);
  std::map<std::string, std::string> reasons;
  for (const ParameterChoice& choice : choices) {
    if (choice.trained || !choice.reached) continue;
    const std::string& name = choice.value->name();
    if (choice.value->constant()->elems() > 1 || !names.is_anonymous(name))
      reasons[name] = choice.reason;
  }
  return reasons;
}

}  // namespace mezzo::passes
