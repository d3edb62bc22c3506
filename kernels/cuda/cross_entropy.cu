// Softmax cross-entropy, negative log-likelihood and the gradient of the former. Letters: N batch,
// C classes, S the product of the other dims; position p = (n, s) has the label l[p].
//
//   loss[p] = -weights[l] log_prob[n, l, s]; 0 where the label is ignore_index
//   "mean": sum of loss / sum of the weights of the labels that count;  "sum";  "none": as it is
//   log_sum_exp[p] = log of the sum of exp scores[n,:,s]; where the gradient is given it, its
//   log_prob is scores - log_sum_exp
//   dscores[n,c,s] = weights[l] (exp(log_prob[n,c,s]) - (c == l)) dloss / (mean: sum of weights)
//
// scores, log_prob, dscores: floating, row-major or (all of them) channels-last; labels int32 or
// int64; weights[C] floating. Computes in float32 (float64 where an operand is). Sums over
// positions: at most kMostParts parts, each by the tree of a block, then the parts by another.
// A label that is no class is a fault; its loss and gradient are those of an ignored one.
#include <cmath>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/layer_kernel.h"
#include "kernels/cuda/loss_labels.h"
#include "kernels/cuda/row_walk.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/softmax_line.h"

namespace mezzo::kernels::cuda {

// A team of threads per position. log_prob may be absent.
template <typename T>
__global__ void __launch_bounds__(kMostTeamThreads)
    loss_of_rows(FloatsIn scores, LabelReader labels, FloatsOut losses, FloatsOut log_prob,
                 FloatsOut sums, Int positions, RowWalk walk_of_any) {
  const SoftmaxLine<T> line{true};
  T x[kHeld];
  for (Int p = first_row(); p < positions; p += row_step()) {
    const Int start = p * walk_of_any.length;
    const RowWalk walk = walk_of_any.from(start);
    Pair<T> state = line.nothing();
    for (int chunk = 0; chunk < walk.chunks; ++chunk) {
      load_held(scores, start, walk, chunk, x, line.kFill);
      line.add_held(state, x, x, 0);
    }
    state = line.finish(team_reduce(state, line, line.nothing()));
    if (threadIdx.x == 0) {
      const Int label = labels.label(p);
      const T score = label < 0 ? T(0) : load_float<T>(scores, start + label);
      store_float(losses, p, position_loss(labels, label, state, score));
      if (sums.data != nullptr) store_float(sums, p, state.first + state.second);
    }
    for (int chunk = 0; log_prob.data != nullptr && chunk < walk.chunks; ++chunk) {
      if (walk.chunks > 1) load_held(scores, start, walk, chunk, x, line.kFill);
#pragma unroll
      for (int k = 0; k < kHeld; ++k) x[k] = line.map(state, x[k], T(0), 0);
      store_held(log_prob, start, walk, chunk, x);
    }
  }
}

// A thread per position.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    loss_of_lines(FloatsIn scores, LabelReader labels, FloatsOut losses, FloatsOut log_prob,
                  FloatsOut sums, Int positions) {
  const SoftmaxLine<T> line{true};
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int p = Int{blockIdx.x} * blockDim.x + threadIdx.x; p < positions; p += step) {
    const Int start = labels.begin(p);
    const Int stride = labels.stride();
    Pair<T> state = line.nothing();
    for (Int c = 0; c < labels.classes; ++c) {
      line.add(state, load_float<T>(scores, start + c * stride), T(0), c);
    }
    state = line.finish(state);
    const Int label = labels.label(p);
    const T score = label < 0 ? T(0) : load_float<T>(scores, start + label * stride);
    store_float(losses, p, position_loss(labels, label, state, score));
    if (sums.data != nullptr) store_float(sums, p, state.first + state.second);
    for (Int c = 0; log_prob.data != nullptr && c < labels.classes; ++c) {
      const Int at = start + c * stride;
      store_float(log_prob, at, line.map(state, load_float<T>(scores, at), T(0), c));
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    loss_of_log_prob(FloatsIn log_prob, LabelReader labels, FloatsOut losses, Int positions) {
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int p = Int{blockIdx.x} * blockDim.x + threadIdx.x; p < positions; p += step) {
    const Int label = labels.label(p);
    T value = T(0);
    if (label >= 0) {
      value = -labels.weight<T>(label) *
              load_float<T>(log_prob, labels.begin(p) + label * labels.stride());
    }
    store_float(losses, p, value);
  }
}

// Sums of the losses (absent: 0) and of their labels' weights; block b those of part b of all. One
// block alone ends the matter, several leave their sums in `parts`.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    sum_losses(FloatsIn losses, LabelReader labels, Int positions, Pair<T>* parts, LossEnd end,
               FloatsOut to) {
  const Int part = (positions + gridDim.x - 1) / gridDim.x;
  const Int first = blockIdx.x * part;
  const Int last = first + part < positions ? first + part : positions;
  Pair<T> sums{T(0), T(0)};
  for (Int p = first + threadIdx.x; p < last; p += blockDim.x) {
    if (losses.data != nullptr) sums.first += load_float<T>(losses, p);
    if (end != LossEnd::kSum) sums.second += labels.weight<T>(labels.label(p));
  }
  sums = block_reduce(sums, PairSum(), Pair<T>{T(0), T(0)});
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1) {
    store_loss(to, end, sums);
  } else {
    parts[blockIdx.x] = sums;
  }
}

// REQUIRES: one block, at most as many parts as threads.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    join_losses(const Pair<T>* parts, int count, LossEnd end, FloatsOut to) {
  Pair<T> sums{T(0), T(0)};
  if (static_cast<int>(threadIdx.x) < count) sums = parts[threadIdx.x];
  sums = block_reduce(sums, PairSum(), Pair<T>{T(0), T(0)});
  if (threadIdx.x == 0) store_loss(to, end, sums);
}

// A team of threads per position. divisor null: 1. per_position: dloss has one number for each.
template <typename T>
__global__ void __launch_bounds__(kMostTeamThreads)
    loss_grad_of_rows(FloatsIn dloss, int per_position, FloatsIn log_prob, FloatsIn sums,
                      LabelReader labels, const T* divisor, FloatsOut dscores, Int positions,
                      RowWalk walk_of_any) {
  T x[kHeld];
  for (Int p = first_row(); p < positions; p += row_step()) {
    const Int start = p * walk_of_any.length;
    const RowWalk walk = walk_of_any.from(start);
    const Int label = labels.label(p);
    const T factor = upstream(labels, label, dloss, per_position != 0 ? p : 0, divisor);
    const T sum = sums.data != nullptr ? load_float<T>(sums, p) : T(0);
    for (int chunk = 0; chunk < walk.chunks; ++chunk) {
      load_held(log_prob, start, walk, chunk, x, T(0));
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        const T target = walk.place(chunk, k) == label ? T(1) : T(0);
        x[k] = label < 0 ? T(0) : factor * (std::exp(x[k] - sum) - target);
      }
      store_held(dscores, start, walk, chunk, x);
    }
  }
}

// A thread per position.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    loss_grad_of_lines(FloatsIn dloss, int per_position, FloatsIn log_prob, FloatsIn sums,
                       LabelReader labels, const T* divisor, FloatsOut dscores, Int positions) {
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int p = Int{blockIdx.x} * blockDim.x + threadIdx.x; p < positions; p += step) {
    const Int label = labels.label(p);
    const T factor = upstream(labels, label, dloss, per_position != 0 ? p : 0, divisor);
    const Int start = labels.begin(p);
    const T sum = sums.data != nullptr ? load_float<T>(sums, p) : T(0);
    for (Int c = 0; c < labels.classes; ++c) {
      const Int at = start + c * labels.stride();
      const T target = c == label ? T(1) : T(0);
      const T prob = std::exp(load_float<T>(log_prob, at) - sum);
      const T value = label < 0 ? T(0) : factor * (prob - target);
      store_float(dscores, at, value);
    }
  }
}

namespace {

constexpr Int kMostParts = kBlockThreads;
constexpr Int kPartPositions = 4096;

enum class Reduction : std::uint8_t { kMean, kSum, kNone };

// A loss as prepared: fixed parts of its kernels' parameters, and where its workspace lies.
struct Loss {
  LabelReader labels;
  DType weights_dtype = DType::kFloat32;
  Int positions = 0;
  bool by_line = false;
  bool is_double = false;
  Reduction reduction = Reduction::kMean;
  std::size_t losses_at = 0, parts_at = 0, divisor_at = 0, workspace_bytes = 0;

  LabelReader reader(const KernelArguments& arguments, std::size_t labels_at) const {
    LabelReader filled = labels;
    filled.labels = arguments.inputs[labels_at];
    filled.weights = {operand_data(arguments, labels_at + 1), weights_dtype};
    filled.fault = arguments.fault;
    filled.step = arguments.step;
    filled.operand = static_cast<std::int32_t>(labels_at);
    return filled;
  }
  Int parts() const {
    return std::clamp<Int>((positions + kPartPositions - 1) / kPartPositions, 1, kMostParts);
  }
};

Status explain_label(const DeviceFault& fault, const std::string& op, const LabelReader& labels) {
  const Int pixels = labels.pixels.value();
  std::string place = std::to_string(fault.position / pixels);
  if (pixels > 1) place += ", pixel " + std::to_string(fault.position % pixels);
  return invalid_argument(
      op + ", operand 'labels': label " + std::to_string(fault.value) + " at position " + place +
      ", expected 0 to " + std::to_string(labels.classes - 1) +
      (labels.ignores != 0 ? " or " + std::to_string(labels.ignore_index) : ""));
}

Explain explanation(const KernelRequest& request, const Loss& loss) {
  return [op = request.op, labels = loss.labels](const DeviceFault& fault) {
    return explain_label(fault, op, labels);
  };
}

// scores (or log_prob) is operand number `at`, labels and weights come next. Positions are numbered
// as labels and loss lie.
StatusOr<Loss> read_loss(const KernelRequest& request, std::size_t at,
                         const TensorDesc& loss_or_gradient) {
  const TensorDesc& scores = operand(request, at);
  const Dims& dims = scores.dims;
  if (dims[1] == 0) return unimplemented("no classes");
  Loss loss;
  loss.is_double = has_double(request);
  loss.weights_dtype = operand(request, at + 2).dtype;
  const Int pixels = dims_product(dims, 2, dims.size());
  loss.positions = dims[0] * pixels;
  loss.by_line = pixels != 1 && !is_channels_last(scores);
  loss.labels.dtype = operand(request, at + 1).dtype;
  loss.labels.classes = dims[1];
  loss.labels.pixels = Divisor(pixels);
  loss.labels.by_line = loss.by_line ? 1 : 0;
  loss.labels.ignores = request.attributes.has("ignore_index") ? 1 : 0;
  loss.labels.ignore_index = request.attributes.get_int("ignore_index", 0);
  if (is_channels_last(operand(request, at + 1)))
    return unimplemented("labels that lie channels-last");
  const std::string reduction = request.attributes.get_string("reduction", "mean");
  loss.reduction = reduction == "mean"  ? Reduction::kMean
                   : reduction == "sum" ? Reduction::kSum
                                        : Reduction::kNone;
  if (is_channels_last(loss_or_gradient)) return unimplemented("a loss that lies channels-last");
  WorkspacePlan workspace;
  loss.losses_at = workspace.add(loss.positions);
  loss.parts_at = workspace.add(2 * kMostParts);
  loss.divisor_at = workspace.add(1);
  loss.workspace_bytes = workspace.bytes();
  return loss;
}

// Into `to`: what `end` says of the losses, of which there may be none, and weights.
template <typename T>
Status sum_up(const Loss& loss, const FloatsIn& losses, const LabelReader& labels, LossEnd end,
              const FloatsOut& to, const KernelArguments& arguments) {
  const Int count = loss.parts();
  auto* parts = workspace_at<Pair<T>>(arguments, loss.parts_at);
  LaunchShape shape{dim3(static_cast<unsigned>(count)), dim3(kBlockThreads), 0};
  MEZZO_RETURN_IF_ERROR((launch<sum_losses<T>>(shape, arguments.stream, losses, labels,
                                               loss.positions, parts, end, to)));
  if (count == 1) return ok_status();
  shape.grid = dim3(1);
  return launch<join_losses<T>>(shape, arguments.stream, parts, static_cast<int>(count), end, to);
}

// Where the losses of the positions go: to the result itself if nothing is summed up.
template <typename T>
FloatsOut losses_place(const Loss& loss, const FloatsOut& result,
                       const KernelArguments& arguments) {
  if (loss.reduction == Reduction::kNone) return result;
  return {workspace_at<T>(arguments, loss.losses_at), kRealDType<T>};
}

template <typename T>
Status end_loss(const Loss& loss, const FloatsOut& losses, const LabelReader& labels,
                const FloatsOut& result, const KernelArguments& arguments) {
  if (loss.reduction == Reduction::kNone) return ok_status();
  const LossEnd end = loss.reduction == Reduction::kMean ? LossEnd::kMean : LossEnd::kSum;
  return sum_up<T>(loss, {losses.data, losses.dtype}, labels, end, result, arguments);
}

PreparedKernel prepare_cross_entropy(const KernelRequest& request) {
  MEZZO_RETURN_IF_ERROR(expect_one_layout({&operand(request, 0), &result(request, 1)}));
  MEZZO_ASSIGN_OR_RETURN(const Loss loss, read_loss(request, 0, result(request, 0)));
  const auto body = [loss, scores_dtype = operand(request, 0).dtype,
                     loss_dtype = result(request, 0).dtype,
                     log_prob_dtype = result(request, 1).dtype,
                     sums_dtype = result(request, 2).dtype](const KernelArguments& arguments) {
    return with_real(loss.is_double, [&](auto real) -> Status {
      using T = decltype(real);
      const FloatsIn scores{arguments.inputs[0], scores_dtype};
      const FloatsOut to{arguments.outputs[0], loss_dtype};
      const FloatsOut log_prob{result_data(arguments, 1), log_prob_dtype};
      const FloatsOut sums{result_data(arguments, 2), sums_dtype};
      const FloatsOut losses = losses_place<T>(loss, to, arguments);
      const LabelReader labels = loss.reader(arguments, 1);
      if (loss.positions > 0 && loss.by_line) {
        MEZZO_RETURN_IF_ERROR(
            (launch<loss_of_lines<T>>(shape_for(loss.positions), arguments.stream, scores, labels,
                                      losses, log_prob, sums, loss.positions)));
      } else if (loss.positions > 0) {
        const LaunchShape shape = row_shape(loss.positions, labels.classes);
        const RowWalk walk =
            row_walk(labels.classes, shape, is_aligned_16({scores.data, log_prob.data}),
                     RowStart::kAnywhere);
        MEZZO_RETURN_IF_ERROR(
            (launch<loss_of_rows<T>>(shape, arguments.stream, scores, labels, losses, log_prob,
                                     sums, loss.positions, walk)));
      }
      return end_loss<T>(loss, losses, labels, to, arguments);
    });
  };
  return make_layer("cuda:cross-entropy", body, loss.workspace_bytes, explanation(request, loss));
}

PreparedKernel prepare_nll_loss(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Loss loss, read_loss(request, 0, result(request, 0)));
  const auto body = [loss, log_prob_dtype = operand(request, 0).dtype,
                     loss_dtype = result(request, 0).dtype](const KernelArguments& arguments) {
    return with_real(loss.is_double, [&](auto real) -> Status {
      using T = decltype(real);
      const FloatsOut to{arguments.outputs[0], loss_dtype};
      const FloatsOut losses = losses_place<T>(loss, to, arguments);
      const LabelReader labels = loss.reader(arguments, 1);
      if (loss.positions > 0) {
        MEZZO_RETURN_IF_ERROR((launch<loss_of_log_prob<T>>(
            shape_for(loss.positions), arguments.stream,
            FloatsIn{arguments.inputs[0], log_prob_dtype}, labels, losses, loss.positions)));
      }
      return end_loss<T>(loss, losses, labels, to, arguments);
    });
  };
  return make_layer("cuda:nll-loss", body, loss.workspace_bytes, explanation(request, loss));
}

PreparedKernel prepare_cross_entropy_grad(const KernelRequest& request) {
  MEZZO_RETURN_IF_ERROR(expect_one_layout({&operand(request, 1), &result(request, 0)}));
  MEZZO_ASSIGN_OR_RETURN(const Loss loss, read_loss(request, 1, operand(request, 0)));
  const auto body = [loss, dloss_dtype = operand(request, 0).dtype,
                     log_prob_dtype = operand(request, 1).dtype,
                     sums_dtype = operand(request, 4).dtype,
                     dscores_dtype = result(request, 0).dtype](const KernelArguments& arguments) {
    if (loss.positions == 0) return ok_status();
    return with_real(loss.is_double, [&](auto real) -> Status {
      using T = decltype(real);
      const FloatsIn dloss{arguments.inputs[0], dloss_dtype};
      const FloatsIn log_prob{arguments.inputs[1], log_prob_dtype};
      const FloatsIn sums{operand_data(arguments, 4), sums_dtype};
      const FloatsOut dscores{arguments.outputs[0], dscores_dtype};
      const LabelReader labels = loss.reader(arguments, 2);
      const int per_position = loss.reduction == Reduction::kNone ? 1 : 0;
      T* divisor = nullptr;
      if (loss.reduction == Reduction::kMean) {
        divisor = workspace_at<T>(arguments, loss.divisor_at);
        MEZZO_RETURN_IF_ERROR(
            sum_up<T>(loss, {}, labels, LossEnd::kWeights, {divisor, kRealDType<T>}, arguments));
      }
      if (loss.by_line) {
        return launch<loss_grad_of_lines<T>>(shape_for(loss.positions), arguments.stream, dloss,
                                             per_position, log_prob, sums, labels, divisor, dscores,
                                             loss.positions);
      }
      const LaunchShape shape = row_shape(loss.positions, labels.classes);
      const RowWalk walk = row_walk(
          labels.classes, shape, is_aligned_16({log_prob.data, dscores.data}), RowStart::kAnywhere);
      return launch<loss_grad_of_rows<T>>(shape, arguments.stream, dloss, per_position, log_prob,
                                          sums, labels, divisor, dscores, loss.positions, walk);
    });
  };
  return make_layer("cuda:cross-entropy-grad", body, loss.workspace_bytes,
                    explanation(request, loss));
}

constexpr KernelEntry kRows[] = {
    {"SoftmaxCrossEntropyLoss", "cuda", prepare_cross_entropy},
    {"NegativeLogLikelihoodLoss", "cuda", prepare_nll_loss},
    {"SoftmaxCrossEntropyLossGrad", "cuda", prepare_cross_entropy_grad},
};

}  // namespace

std::span<const KernelEntry> loss_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
