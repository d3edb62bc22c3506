// Formulas: torch.nn.functional of PyTorch 2. Each is spelled so that its derivatives are finite
// wherever PyTorch's are.
#include "passes/autodiff/loss_terms.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace mezzo::passes {
namespace {

// The least norm that F.cosine_similarity divides by, squared, and what F.cosine_embedding_loss
// adds to squared norms.
constexpr double kSmallestSquaredNorm = 1e-16;
constexpr double kAddedToSquaredNorm = 1e-12;

std::int64_t product(const std::vector<std::int64_t>& dims) {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

Value* LossTerms::constant(double value) { return b_.scalar(DType::kFloat32, value); }

Value* LossTerms::row(const std::vector<double>& values, std::string_view name,
                      std::vector<std::int64_t> dims) {
  const std::vector<float> floats(values.begin(), values.end());
  return b_.constant(Tensor::from_floats(std::move(dims), floats), name);
}

Value* LossTerms::reshape(Value* value, const std::vector<std::int64_t>& dims) {
  if (value->tensor_type().has_static_shape() && value->tensor_type().dims() == dims) return value;
  return b_.op("Reshape", {value, b_.ints(dims)});
}

Value* LossTerms::as_float(Value* value) {
  if (value->dtype() == DType::kFloat32) return value;
  return b_.op("Cast", {value}, {{"to", static_cast<std::int64_t>(DType::kFloat32)}});
}

Value* LossTerms::sum(Value* value) {
  return b_.op("ReduceSum", {value}, {{"keepdims", std::int64_t{0}}});
}

Value* LossTerms::sum_over(Value* value, std::int64_t axis) {
  return b_.op("ReduceSum", {value, b_.ints({axis})}, {{"keepdims", std::int64_t{0}}});
}

// What each place counts for in the weighted mean: its mask times its class's weight.
Value* LossTerms::weight_of(const CrossEntropy& given, Value* labels, Value* counts) {
  Value* weight = as_float(counts);
  if (!given.class_weights.empty()) {
    Value* first_class = b_.constant(Tensor::scalar(DType::kInt64, 0));
    Value* classes = b_.op("Where", {counts, labels, first_class});
    const auto size = static_cast<std::int64_t>(given.class_weights.size());
    Value* table = row(given.class_weights, "class_weights", {size});
    weight = b_.op("Mul", {weight, b_.op("Gather", {table, classes}, {{"axis", std::int64_t{0}}})});
  }
  return given.mask == nullptr ? weight : b_.op("Mul", {weight, given.mask});
}

// -sum over classes of weight times log-probability: [N,d...].
Value* LossTerms::smooth_terms(const CrossEntropy& given) {
  Value* log_prob = b_.op("LogSoftmax", {given.scores}, {{"axis", std::int64_t{1}}});
  if (!given.class_weights.empty()) {
    std::vector<std::int64_t> dims(given.scores->tensor_type().dims().size() - 1, 1);
    dims[0] = static_cast<std::int64_t>(given.class_weights.size());
    log_prob = b_.op("Mul", {log_prob, row(given.class_weights, "class_weights", dims)});
  }
  return b_.op("Neg", {sum_over(log_prob, 1)});
}

Value* LossTerms::cross_entropy(const CrossEntropy& given, Value* labels) {
  const auto classes = given.scores->tensor_type().dims()[1];
  Value* weights =
      given.class_weights.empty() ? nullptr : row(given.class_weights, "class_weights", {classes});
  const bool is_plain = given.mask == nullptr && given.label_smoothing == 0;
  if (given.mask != nullptr) {  // what is masked may hold any label
    Value* masked = b_.op("Equal", {given.mask, constant(0)});
    Value* ignored = b_.constant(
        Tensor::scalar(labels->dtype(), static_cast<double>(given.ignore_index)), "ignore_index");
    labels = b_.op("Where", {masked, ignored, labels});
  }
  Value* terms = b_.op("SoftmaxCrossEntropyLoss", {given.scores, labels, weights},
                       {{"reduction", std::string(is_plain ? "mean" : "none")},
                        {"ignore_index", given.ignore_index}});
  if (is_plain) return terms;

  Value* ignored = b_.constant(
      Tensor::scalar(labels->dtype(), static_cast<double>(given.ignore_index)), "ignore_index");
  Value* counts = b_.op("Not", {b_.op("Equal", {labels, ignored})});
  Value* total_weight = sum(weight_of(given, labels, counts));
  Value* place = as_float(counts);
  if (given.mask != nullptr) place = b_.op("Mul", {place, given.mask});
  if (given.mask != nullptr) terms = b_.op("Mul", {terms, given.mask});
  Value* loss = sum(terms);
  if (given.label_smoothing > 0) {
    const double share = given.label_smoothing / static_cast<double>(classes);
    Value* smooth = sum(b_.op("Mul", {smooth_terms(given), place}));
    loss = b_.op("Add", {b_.op("Mul", {loss, constant(1 - given.label_smoothing)}),
                         b_.op("Mul", {smooth, constant(share)})});
  }
  return b_.op("Div", {loss, total_weight});
}

Value* LossTerms::soft_cross_entropy(const CrossEntropy& given, Value* target) {
  const std::vector<std::int64_t>& dims = given.scores->tensor_type().dims();
  if (given.label_smoothing > 0) {
    const double share = given.label_smoothing / static_cast<double>(dims[1]);
    target = b_.op("Add",
                   {b_.op("Mul", {target, constant(1 - given.label_smoothing)}), constant(share)});
  }
  Value* log_prob = b_.op("LogSoftmax", {given.scores}, {{"axis", std::int64_t{1}}});
  Value* terms = b_.op("Mul", {target, log_prob});
  if (!given.class_weights.empty()) {
    std::vector<std::int64_t> weight_dims(dims.size() - 1, 1);
    weight_dims[0] = dims[1];
    terms = b_.op("Mul", {terms, row(given.class_weights, "class_weights", weight_dims)});
  }
  return mean(b_.op("Neg", {sum_over(terms, 1)}), given.mask);
}

// (1 - t) x + (1 + (p - 1) t) log(1 + e^-x): finite for every x, with PyTorch's derivative at 0.
Value* LossTerms::bce(Value* logits, Value* target, const std::vector<double>& weights,
                      const std::vector<double>& pos_weights) {
  const auto size = [](const std::vector<double>& values) {
    return std::vector<std::int64_t>{static_cast<std::int64_t>(values.size())};
  };
  Value* log_part = b_.op("Softplus", {b_.op("Neg", {logits})});
  if (!pos_weights.empty()) {
    std::vector<double> above_one;
    for (const double weight : pos_weights) above_one.push_back(weight - 1);
    Value* factor = b_.op("Mul", {target, row(above_one, "pos_weights", size(pos_weights))});
    log_part = b_.op("Mul", {log_part, b_.op("Add", {factor, constant(1)})});
  }
  Value* linear = b_.op("Mul", {b_.op("Sub", {constant(1), target}), logits});
  Value* terms = b_.op("Add", {linear, log_part});
  if (!weights.empty()) terms = b_.op("Mul", {terms, row(weights, "class_weights", size(weights))});
  return terms;
}

Value* LossTerms::squared_error(Value* output, Value* target) {
  Value* difference = b_.op("Sub", {output, target});
  return b_.op("Mul", {difference, difference});
}

Value* LossTerms::absolute_error(Value* output, Value* target) {
  return b_.op("Abs", {b_.op("Sub", {output, target})});
}

Value* LossTerms::cosine_distance(Value* output, Value* target) {
  // sqrt(max(|x|^2, eps^2)) is max(|x|, eps), with a derivative of 0 at x = 0.
  const auto norm = [&](Value* x) {
    Value* squared = sum_over(b_.op("Mul", {x, x}), -1);
    return b_.op("Sqrt", {b_.op("Max", {squared, constant(kSmallestSquaredNorm)})});
  };
  Value* dot = sum_over(b_.op("Mul", {output, target}), -1);
  Value* cosine = b_.op("Div", {b_.op("Div", {dot, norm(output)}), norm(target)});
  return b_.op("Sub", {constant(1), cosine});
}

Value* LossTerms::cosine_embedding(Value* a, Value* b, Value* target, double margin) {
  const auto squared = [&](Value* x) {
    return b_.op("Add", {sum_over(b_.op("Mul", {x, x}), -1), constant(kAddedToSquaredNorm)});
  };
  Value* dot = sum_over(b_.op("Mul", {a, b}), -1);
  Value* norms = b_.op("Sqrt", {b_.op("Mul", {squared(a), squared(b)})});
  Value* cosine = b_.op("Div", {dot, norms});
  Value* apart = b_.op("Relu", {b_.op("Sub", {cosine, constant(margin)})});
  Value* together = b_.op("Sub", {constant(1), cosine});
  Value* belongs = b_.op("Greater", {target, constant(0)});
  return b_.op("Where", {belongs, together, apart});
}

Value* LossTerms::mean(Value* terms, Value* mask) {
  const std::vector<std::int64_t> dims = terms->tensor_type().dims();
  const std::int64_t elems = product(dims);
  if (mask == nullptr) return b_.op("ReduceMean", {terms}, {{"keepdims", std::int64_t{0}}});
  const std::int64_t places = product(mask->tensor_type().dims());
  Value* by_place = reshape(terms, {places, elems / std::max<std::int64_t>(places, 1)});
  by_place = b_.op("Mul", {sum_over(by_place, 1), reshape(mask, {places})});
  const double inner = static_cast<double>(places) / static_cast<double>(elems);
  Value* total = b_.op("Mul", {sum(by_place), constant(inner)});
  return b_.op("Div", {total, sum(mask)});
}

}  // namespace mezzo::passes
