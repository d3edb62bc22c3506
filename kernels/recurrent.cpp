#include "kernels/recurrent.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "compiler/support/text.h"

namespace mezzo::kernels {
namespace {

using Dims = std::vector<std::int64_t>;

struct ActivationName {
  std::string_view name;
  RecurrentActivation kind;
  bool takes_alpha, takes_beta;
  double alpha, beta;  // where not given: those of the operators of these names
};

constexpr ActivationName kActivations[] = {
    {"Affine", RecurrentActivation::kAffine, true, true, 1.0, 0.0},
    {"Elu", RecurrentActivation::kElu, true, false, 1.0, 0.0},
    {"HardSigmoid", RecurrentActivation::kHardSigmoid, true, true, 0.2, 0.5},
    {"LeakyRelu", RecurrentActivation::kLeakyRelu, true, false, 0.01, 0.0},
    {"Relu", RecurrentActivation::kRelu, false, false, 0.0, 0.0},
    {"ScaledTanh", RecurrentActivation::kScaledTanh, true, true, 1.0, 1.0},
    {"Sigmoid", RecurrentActivation::kSigmoid, false, false, 0.0, 0.0},
    {"Softplus", RecurrentActivation::kSoftplus, false, false, 0.0, 0.0},
    {"Softsign", RecurrentActivation::kSoftsign, false, false, 0.0, 0.0},
    {"Tanh", RecurrentActivation::kTanh, false, false, 0.0, 0.0},
    {"ThresholdedRelu", RecurrentActivation::kThresholdedRelu, true, false, 1.0, 0.0},
};

bool same_name(std::string_view a, std::string_view b) {  // exporters differ in case
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

Status wrong(const KernelRequest& request, const std::string& what) {
  return invalid_argument(request.op + ": " + what);
}

Status read_activations(const KernelRequest& request, RecurrentForm& form) {
  std::string names = request.attributes.get_string("activations", "");
  const std::size_t expected = form.activations_each() * static_cast<std::size_t>(form.directions);
  if (names.empty()) {
    constexpr std::string_view kDefaults[] = {"Tanh", "Sigmoid,Tanh,Tanh", "Sigmoid,Tanh"};
    const std::string_view defaults = kDefaults[static_cast<std::size_t>(form.cell)];
    for (std::int64_t d = 0; d < form.directions; ++d) {
      names += (d > 0 ? "," : "") + std::string(defaults);
    }
  }
  const std::vector<double> alphas = request.attributes.get_floats("activation_alpha");
  const std::vector<double> betas = request.attributes.get_floats("activation_beta");
  std::size_t next_alpha = 0;
  std::size_t next_beta = 0;
  for (std::string_view rest = names; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    const auto* known =
        std::find_if(std::begin(kActivations), std::end(kActivations),
                     [&](const ActivationName& row) { return same_name(row.name, name); });
    if (known == std::end(kActivations)) {
      return wrong(request, "attribute 'activations': '" + std::string(name) +
                                "' is no activation of recurrent layers");
    }
    ActivationChoice choice = {known->kind, known->alpha, known->beta};
    if (known->takes_alpha && next_alpha < alphas.size()) choice.alpha = alphas[next_alpha++];
    if (known->takes_beta && next_beta < betas.size()) choice.beta = betas[next_beta++];
    form.activations.push_back(choice);
  }
  if (form.activations.size() == expected) return ok_status();
  return wrong(request, "attribute 'activations': expected " + std::to_string(expected) +
                            " names, got '" + names + "'");
}

Status expect(const KernelRequest& request, bool input, std::size_t i, std::string_view name,
              const Dims& dims) {
  const std::vector<TensorDesc>& descs = input ? request.inputs : request.outputs;
  if (i >= descs.size() || !descs[i].present()) return ok_status();
  if (descs[i].layout != Layout::kRowMajor) {
    return unimplemented(request.op + ": channels-last operands");
  }
  if (descs[i].dims == dims) return ok_status();
  return invalid_argument(request.op + (input ? ", operand " : ", result ") + std::to_string(i) +
                          " '" + std::string(name) + "': expected dims " + format_dims(dims) +
                          ", got " + format_dims(descs[i].dims));
}

Status check_dims(const KernelRequest& request, const RecurrentForm& form) {
  const std::int64_t d = form.directions;
  const std::int64_t h = form.hidden;
  const std::int64_t width = form.gates * h;
  const auto ordered = [&](std::int64_t first, std::int64_t second, std::int64_t last) {
    return form.batch_first ? Dims{second, first, last} : Dims{first, second, last};
  };
  const Dims state = ordered(d, form.batch, h);
  MEZZO_RETURN_IF_ERROR(expect(request, true, 1, "w", {d, width, form.input}));
  MEZZO_RETURN_IF_ERROR(expect(request, true, 2, "r", {d, width, h}));
  MEZZO_RETURN_IF_ERROR(expect(request, true, kRecurrentBias, "b", {d, 2 * width}));
  MEZZO_RETURN_IF_ERROR(expect(request, true, kRecurrentLengths, "sequence_lens", {form.batch}));
  MEZZO_RETURN_IF_ERROR(expect(request, true, kRecurrentInitialH, "initial_h", state));
  MEZZO_RETURN_IF_ERROR(expect(request, true, kRecurrentInitialC, "initial_c", state));
  MEZZO_RETURN_IF_ERROR(expect(request, true, kRecurrentPeepholes, "p", {d, 3 * h}));
  const Dims y =
      form.batch_first ? Dims{form.batch, form.steps, d, h} : Dims{form.steps, d, form.batch, h};
  MEZZO_RETURN_IF_ERROR(expect(request, false, 0, "y", y));
  MEZZO_RETURN_IF_ERROR(expect(request, false, 1, "y_h", state));
  return expect(request, false, 2, "y_c", state);
}

}  // namespace

StatusOr<RecurrentForm> read_recurrent(const KernelRequest& request) {
  RecurrentForm form;
  form.cell = request.op == "LSTM"  ? RecurrentCell::kLstm
              : request.op == "GRU" ? RecurrentCell::kGru
                                    : RecurrentCell::kRnn;
  form.gates = form.cell == RecurrentCell::kLstm ? 4 : form.cell == RecurrentCell::kGru ? 3 : 1;
  if (request.inputs.size() < 3) return wrong(request, "expected at least 3 operands");
  for (std::size_t i = 0; i < 3; ++i) {
    const TensorDesc& desc = request.inputs[i];
    if (!desc.present() || desc.dims.size() != 3 || desc.layout != Layout::kRowMajor) {
      return wrong(request, "operand " + std::to_string(i) + ": expected rank 3, got " +
                                format_dims(desc.dims));
    }
  }
  const Attributes& attributes = request.attributes;
  const std::int64_t layout = attributes.get_int("layout", 0);
  if (layout != 0 && layout != 1) return wrong(request, "attribute 'layout': expected 0 or 1");
  form.batch_first = layout == 1;
  const Dims& x = request.inputs[0].dims;
  form.steps = x[form.batch_first ? 1 : 0];
  form.batch = x[form.batch_first ? 0 : 1];
  form.input = x[2];
  form.hidden = request.inputs[2].dims[2];
  const std::string direction = attributes.get_string("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    return wrong(
        request,
        "attribute 'direction': expected forward, reverse or bidirectional, got " + direction);
  }
  form.directions = direction == "bidirectional" ? 2 : 1;
  form.reverse = direction == "reverse";
  if (attributes.get_int("hidden_size", form.hidden) != form.hidden) {
    return wrong(request, "attribute 'hidden_size' is " +
                              std::to_string(attributes.get_int("hidden_size", 0)) +
                              ", but the recurrent weights have " + std::to_string(form.hidden));
  }
  form.linear_before_reset = attributes.get_int("linear_before_reset", 0) != 0;
  form.input_forget = attributes.get_int("input_forget", 0) != 0;
  form.clip = attributes.get_float("clip", 0.0);
  if (!(form.clip > 0.0)) form.clip = std::numeric_limits<double>::infinity();
  MEZZO_RETURN_IF_ERROR(check_dims(request, form));
  MEZZO_RETURN_IF_ERROR(read_activations(request, form));
  return form;
}

Status check_lengths(const RecurrentForm& form, std::string_view op, const std::int32_t* lengths) {
  for (std::int64_t b = 0; lengths != nullptr && b < form.batch; ++b) {
    if (lengths[b] >= 0 && lengths[b] <= form.steps) continue;
    return invalid_argument(std::string(op) + ", operand 4 'sequence_lens': element " +
                            std::to_string(b) + " is " + std::to_string(lengths[b]) +
                            ", expected 0 to " + std::to_string(form.steps));
  }
  return ok_status();
}

}  // namespace mezzo::kernels
