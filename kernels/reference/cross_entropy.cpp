// Softmax cross-entropy and its gradient. Letters: N batch, C classes, S the product of the other
// dims; position p = (n, s) has the label l[p] and the scores x[n, :, s].
//
//   loss[p] = -weights[l] log_prob[n, l, s]; 0 where the label is ignore_index
//   "mean": sum of loss / sum of the weights of the labels that count;  "sum";  "none": as it is
//
// With no label that counts, "mean" is 0 / 0 = NaN, as in PyTorch, and the gradient is 0.
#include <cmath>
#include <limits>

#include "compiler/support/text.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
namespace {

enum class Reduction { kMean, kSum, kNone };

struct Labels {
  std::int64_t n = 0;
  std::int64_t classes = 0;
  std::int64_t pixels = 1;
  Reduction reduction = Reduction::kMean;
  bool ignores = false;
  std::int64_t ignore_index = 0;
  std::string op;

  std::int64_t positions() const { return n * pixels; }
  // Row-major index of class c at position p in the scores.
  std::int64_t score_index(std::int64_t p, std::int64_t c) const {
    return (p / pixels * classes + c) * pixels + p % pixels;
  }
  bool ignored(std::int64_t label) const { return ignores && label == ignore_index; }

  // Every label is a class or ignored.
  Status check(const Elements& labels, const void* data) const {
    for (std::int64_t p = 0; p < positions(); ++p) {
      const auto label = static_cast<std::int64_t>(labels.read<Integer>(data, p));
      if (ignored(label) || (label >= 0 && label < classes)) continue;
      std::string place = std::to_string(p / pixels);
      if (pixels > 1) place += ", pixel " + std::to_string(p % pixels);
      return invalid_argument(op + ", operand 'labels': label " + std::to_string(label) +
                              " at position " + place + ", expected 0 to " +
                              std::to_string(classes - 1) +
                              (ignores ? " or " + std::to_string(ignore_index) : ""));
    }
    return ok_status();
  }
};

// Reads the attributes and checks scores against labels (operand numbers given) and weights.
StatusOr<Labels> read_labels(const Operands& operands, std::size_t scores, std::size_t labels,
                             std::size_t weights) {
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(scores, 2, kMaxRank));
  const Dims& dims = operands.in(scores).dims;
  Labels result;
  result.op = operands.op();
  result.n = dims[0];
  result.classes = dims[1];
  for (std::size_t i = 2; i < dims.size(); ++i) result.pixels *= dims[i];
  Dims label_dims = dims;
  label_dims.erase(label_dims.begin() + 1);
  MEZZO_RETURN_IF_ERROR(operands.expect_in(labels, label_dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(weights, {result.classes}));
  const std::string reduction = operands.attributes().get_string("reduction", "mean");
  if (reduction == "sum") {
    result.reduction = Reduction::kSum;
  } else if (reduction == "none") {
    result.reduction = Reduction::kNone;
  } else if (reduction != "mean") {
    return operands.error("attribute 'reduction' is '" + reduction +
                          "', expected 'mean', 'sum' or 'none'");
  }
  result.ignores = operands.attributes().has("ignore_index");
  result.ignore_index = operands.attributes().get_int("ignore_index", 0);
  return result;
}

// Checks the dims of the loss (or its gradient): those of the labels for "none", else a scalar.
bool is_loss_shape(const Labels& labels, const TensorDesc& loss, const TensorDesc& label_desc) {
  if (labels.reduction == Reduction::kNone) return loss.dims == label_desc.dims;
  return loss.elems() == 1 && loss.dims.size() <= 1;
}

std::string loss_shape_text(const TensorDesc& loss) {
  return "dims " + format_dims(loss.dims) +
         " do not fit the reduction: expected [] (mean, sum) or the labels' dims (none)";
}

// log of the sum of exp over the classes at position p, with the largest score taken out.
double log_sum_exp(const Labels& labels, const Elements& scores, const void* data, std::int64_t p) {
  double largest = -std::numeric_limits<double>::infinity();
  for (std::int64_t c = 0; c < labels.classes; ++c) {
    largest = std::fmax(largest, scores.read<double>(data, labels.score_index(p, c)));
  }
  double sum = 0.0;
  for (std::int64_t c = 0; c < labels.classes; ++c) {
    sum += std::exp(scores.read<double>(data, labels.score_index(p, c)) - largest);
  }
  return largest + std::log(sum);
}

}  // namespace

PreparedKernel prepare_cross_entropy(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(
      const Operands operands,
      Operands::check(request,
                      "scores:f labels:i weights?:f -> loss:f log_prob?:f log_sum_exp?:f"));
  MEZZO_ASSIGN_OR_RETURN(const Labels shape, read_labels(operands, 0, 1, 2));
  if (!is_loss_shape(shape, operands.out(0), operands.in(1))) {
    return operands.out_error(0, loss_shape_text(operands.out(0)));
  }
  MEZZO_RETURN_IF_ERROR(operands.expect_out(1, operands.in(0).dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(2, operands.in(1).dims));
  return make_kernel([shape, scores = Elements(operands.in(0)), labels = Elements(operands.in(1)),
                      weights = Elements(operands.in(2)), loss = Elements(operands.out(0)),
                      log_prob = Elements(operands.out(1)),
                      sums = Elements(operands.out(2))](const KernelArguments& arguments) {
    const auto& in = arguments.inputs;
    MEZZO_RETURN_IF_ERROR(shape.check(labels, in[1]));
    const void* weight_data = in_buffer(arguments, 2);
    void* log_prob_data = out_buffer(arguments, 1);
    void* sums_data = out_buffer(arguments, 2);
    double loss_sum = 0.0;
    double weight_sum = 0.0;
    for (std::int64_t p = 0; p < shape.positions(); ++p) {
      const double log_sum = log_sum_exp(shape, scores, in[0], p);
      if (sums_data != nullptr) sums.write<double>(sums_data, p, log_sum);
      for (std::int64_t c = 0; log_prob_data != nullptr && c < shape.classes; ++c) {
        const std::int64_t place = shape.score_index(p, c);
        log_prob.write<double>(log_prob_data, place, scores.read<double>(in[0], place) - log_sum);
      }
      const auto label = static_cast<std::int64_t>(labels.read<Integer>(in[1], p));
      double value = 0.0;
      if (!shape.ignored(label)) {
        const double weight =
            weight_data != nullptr ? weights.read<double>(weight_data, label) : 1.0;
        value = weight * (log_sum - scores.read<double>(in[0], shape.score_index(p, label)));
        weight_sum += weight;
      }
      loss_sum += value;
      if (shape.reduction == Reduction::kNone) loss.write<double>(arguments.outputs[0], p, value);
    }
    if (shape.reduction == Reduction::kMean) loss_sum /= weight_sum;
    if (shape.reduction != Reduction::kNone) {
      loss.write<double>(arguments.outputs[0], 0, loss_sum);
    }
    return ok_status();
  });
}

// scores are logarithms of probabilities already.
PreparedKernel prepare_nll_loss(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "log_prob:f labels:i weights?:f -> loss:f"));
  MEZZO_ASSIGN_OR_RETURN(const Labels shape, read_labels(operands, 0, 1, 2));
  if (!is_loss_shape(shape, operands.out(0), operands.in(1))) {
    return operands.out_error(0, loss_shape_text(operands.out(0)));
  }
  return make_kernel([shape, log_prob = Elements(operands.in(0)), labels = Elements(operands.in(1)),
                      weights = Elements(operands.in(2)),
                      loss = Elements(operands.out(0))](const KernelArguments& arguments) {
    const auto& in = arguments.inputs;
    MEZZO_RETURN_IF_ERROR(shape.check(labels, in[1]));
    const void* weight_data = in_buffer(arguments, 2);
    double loss_sum = 0.0;
    double weight_sum = 0.0;
    for (std::int64_t p = 0; p < shape.positions(); ++p) {
      const auto label = static_cast<std::int64_t>(labels.read<Integer>(in[1], p));
      double value = 0.0;
      if (!shape.ignored(label)) {
        const double weight =
            weight_data != nullptr ? weights.read<double>(weight_data, label) : 1.0;
        value = -weight * log_prob.read<double>(in[0], shape.score_index(p, label));
        weight_sum += weight;
      }
      loss_sum += value;
      if (shape.reduction == Reduction::kNone) loss.write<double>(arguments.outputs[0], p, value);
    }
    if (shape.reduction == Reduction::kMean) loss_sum /= weight_sum;
    if (shape.reduction != Reduction::kNone) {
      loss.write<double>(arguments.outputs[0], 0, loss_sum);
    }
    return ok_status();
  });
}

// dscores[n,c,s] = weights[l] (exp(log_prob[n,c,s]) - (c == l)) dloss / (mean: sum of weights);
// where log_sum_exp is there, log_prob is scores - log_sum_exp.
PreparedKernel prepare_cross_entropy_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(
      const Operands operands,
      Operands::check(request,
                      "dloss:f log_prob:f labels:i weights?:f log_sum_exp?:f -> dscores:f"));
  MEZZO_ASSIGN_OR_RETURN(const Labels shape, read_labels(operands, 1, 2, 3));
  if (!is_loss_shape(shape, operands.in(0), operands.in(2))) {
    return operands.in_error(0, loss_shape_text(operands.in(0)));
  }
  MEZZO_RETURN_IF_ERROR(operands.expect_in(4, operands.in(2).dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(1).dims));
  return make_kernel([shape, dloss = Elements(operands.in(0)), log_prob = Elements(operands.in(1)),
                      labels = Elements(operands.in(2)), weights = Elements(operands.in(3)),
                      sums = Elements(operands.in(4)),
                      dscores = Elements(operands.out(0))](const KernelArguments& arguments) {
    const auto& in = arguments.inputs;
    MEZZO_RETURN_IF_ERROR(shape.check(labels, in[2]));
    const void* weight_data = in_buffer(arguments, 3);
    const void* sums_data = in_buffer(arguments, 4);
    const auto weight_of = [&](std::int64_t label) {
      if (shape.ignored(label)) return 0.0;
      return weight_data != nullptr ? weights.read<double>(weight_data, label) : 1.0;
    };
    const auto label_at = [&](std::int64_t p) {
      return static_cast<std::int64_t>(labels.read<Integer>(in[2], p));
    };
    double divisor = 1.0;
    if (shape.reduction == Reduction::kMean) {
      divisor = 0.0;
      for (std::int64_t p = 0; p < shape.positions(); ++p) divisor += weight_of(label_at(p));
    }
    for (std::int64_t p = 0; p < shape.positions(); ++p) {
      const std::int64_t label = label_at(p);
      const double upstream =
          dloss.read<double>(in[0], shape.reduction == Reduction::kNone ? p : 0);
      const double factor = upstream * weight_of(label) / divisor;
      const double log_sum = sums_data != nullptr ? sums.read<double>(sums_data, p) : 0.0;
      for (std::int64_t c = 0; c < shape.classes; ++c) {
        const std::int64_t place = shape.score_index(p, c);
        const double target = c == label ? 1.0 : 0.0;
        const double value =
            shape.ignored(label)
                ? 0.0
                : factor * (std::exp(log_prob.read<double>(in[1], place) - log_sum) - target);
        dscores.write<double>(arguments.outputs[0], place, value);
      }
    }
    return ok_status();
  });
}

}  // namespace mezzo::kernels::reference
