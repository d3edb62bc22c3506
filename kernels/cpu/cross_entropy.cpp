// Softmax cross-entropy and its gradient. Letters: N batch, C classes, S the product of the other
// dims; scores x[N][C][S], labels l[N][S].
//
//   log_prob = x - log sum over c of exp x,  loss(n, s) = -weights[l] log_prob[n, l, s]
//   dscores = weights[l] (exp log_prob - [c = l]) dloss / (mean: sum of the labels' weights)
//
// log_sum_exp[N][S] = log sum over c of exp x; given to the gradient, that takes x in the place of
// log_prob.
//
// Positions whose label is ignore_index count nowhere. With no position left "mean" is NaN and the
// gradient 0. Losses of single positions go to the workspace and are summed there in order, in
// double.
#include <cmath>

#include "kernels/cpu/common.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr Int kColumns = 64;
constexpr Int kUnit = 4096;

enum class Reduction { kMean, kSum, kNone };

struct Plan {
  const Isa* isa = nullptr;
  std::string op;
  int threads = 1;
  Int n = 0, classes = 0, pixels = 1;
  Reduction reduction = Reduction::kMean;
  bool ignores = false;
  Int ignore_index = 0;
  DType labels = DType::kNone;
  DType weights = DType::kNone;  // kNone: all 1
  DType scores = DType::kNone;   // forward: x, backward: log_prob
  DType loss = DType::kNone;     // or its gradient
  DType out = DType::kNone;      // forward: log_prob or kNone, backward: dscores
  DType sums = DType::kNone;     // log_sum_exp or kNone

  Int positions() const { return n * pixels; }
  Int columns() const { return std::min(pixels, kColumns); }
  Int tile_floats() const { return padded_floats(classes * columns()); }
  // Workspace: a float per position, then a float per class, then a tile per thread.
  Int weights_at() const { return padded_floats(positions()); }
  Int tiles_at() const { return weights_at() + padded_floats(classes); }
  Int room() const { return tiles_at() + tile_floats() * threads; }

  bool ignored(Int label) const { return ignores && label == ignore_index; }
  Int label_at(const void* data, Int p) const {
    return labels == DType::kInt32 ? static_cast<const std::int32_t*>(data)[p]
                                   : static_cast<const std::int64_t*>(data)[p];
  }
};

Status check_labels(const Plan& plan, const void* labels) {
  for (Int p = 0; p < plan.positions(); ++p) {
    const Int label = plan.label_at(labels, p);
    if ((label >= 0 && label < plan.classes) || plan.ignored(label)) continue;
    std::string place = std::to_string(p / plan.pixels);
    if (plan.pixels > 1) place += ", pixel " + std::to_string(p % plan.pixels);
    return invalid_argument(plan.op + ", operand 'labels': label " + std::to_string(label) +
                            " at position " + place + ", expected 0 to " +
                            std::to_string(plan.classes - 1) +
                            (plan.ignores ? " or " + std::to_string(plan.ignore_index) : ""));
  }
  return ok_status();
}

// Workspace of one run.
struct Room {
  float* position = nullptr;      // loss, or factor of the gradient
  const float* weight = nullptr;  // per class; null: all 1
  float* tiles = nullptr;
};

Room open_workspace(const Plan& plan, void* workspace, const void* weights) {
  auto* floats = static_cast<float*>(workspace);
  Room room{floats, nullptr, floats + plan.tiles_at()};
  if (plan.weights != DType::kNone && weights != nullptr) {
    plan.isa->unpack(plan.weights, weights, floats + plan.weights_at(), plan.classes);
    room.weight = floats + plan.weights_at();
  }
  return room;
}

float weight_of(const Plan& plan, const Room& room, Int label) {
  if (plan.ignored(label)) return 0.0F;
  return room.weight != nullptr ? room.weight[label] : 1.0F;
}

void read_tile(const Plan& plan, const void* data, Int first, Int width, float* tile) {
  if (width == plan.pixels) {
    plan.isa->unpack(plan.scores, at(data, first, plan.scores), tile, plan.classes * width);
    return;
  }
  for (Int c = 0; c < plan.classes; ++c) {
    plan.isa->unpack(plan.scores, at(data, first + c * plan.pixels, plan.scores), tile + c * width,
                     width);
  }
}

void write_tile(const Plan& plan, const float* tile, Int width, void* data, Int first) {
  if (width == plan.pixels) {
    plan.isa->pack(plan.out, tile, at(data, first, plan.out), plan.classes * width);
    return;
  }
  for (Int c = 0; c < plan.classes; ++c) {
    plan.isa->pack(plan.out, tile + c * width, at(data, first + c * plan.pixels, plan.out), width);
  }
}

// visit(first position, first element, width, tile) for all tiles, each thread with its own tile.
template <typename Visit>
void for_tiles(const Plan& plan, const Room& room, Visit&& visit) {
  const Int all = plan.positions() * plan.classes;
  if (all == 0) return;
  const Int per_image = ceil_div(plan.pixels, plan.columns());
  const Int jobs = plan.n * per_image;
  const Int group = std::max<Int>(1, kUnit / (plan.classes * plan.columns()));
  parallel_units(ceil_div(jobs, group), threads_for(all, plan.threads), [&](Int unit, int thread) {
    float* tile = room.tiles + thread * plan.tile_floats();
    for (Int job = unit * group; job < std::min(jobs, (unit + 1) * group); ++job) {
      const Int image = job / per_image;
      const Int column = job % per_image * plan.columns();
      const Int width = std::min(plan.columns(), plan.pixels - column);
      visit(image * plan.pixels + column, image * plan.classes * plan.pixels + column, width, tile);
    }
  });
}

void write_loss(const Plan& plan, const void* labels, const Room& room, void* loss) {
  if (plan.reduction == Reduction::kNone) {
    plan.isa->pack(plan.loss, room.position, loss, plan.positions());
    return;
  }
  double sum = 0.0;
  double weight_sum = 0.0;
  for (Int p = 0; p < plan.positions(); ++p) {
    sum += static_cast<double>(room.position[p]);
    weight_sum += static_cast<double>(weight_of(plan, room, plan.label_at(labels, p)));
  }
  const auto value =
      static_cast<float>(plan.reduction == Reduction::kMean ? sum / weight_sum : sum);
  plan.isa->pack(plan.loss, &value, loss, 1);
}

// The log_sum_exp of a column is x - log_prob at its label or, where that would leave few digits,
// at the largest score; `score` is x at the label.
float log_sum_of(const Plan& plan, const void* scores, Int first, const float* log_prob, Int width,
                 Int label, float score) {
  constexpr float kNear = 16.0F;
  if (std::fabs(score) <= kNear && log_prob[label * width] >= -kNear)
    return score - log_prob[label * width];
  Int best = 0;
  for (Int c = 1; c < plan.classes; ++c) {
    if (log_prob[c * width] > log_prob[best * width]) best = c;
  }
  float largest = 0.0F;
  plan.isa->unpack(plan.scores, at(scores, first + best * plan.pixels, plan.scores), &largest, 1);
  return largest - log_prob[best * width];
}

Status run_loss(const Plan& plan, const KernelArguments& arguments) {
  const void* labels = arguments.inputs[1];
  MEZZO_RETURN_IF_ERROR(check_labels(plan, labels));
  const Room room = open_workspace(plan, arguments.workspace, in_buffer(arguments, 2));
  void* log_prob = out_buffer(arguments, 1);
  void* sums = out_buffer(arguments, 2);
  for_tiles(plan, room, [&](Int position, Int first, Int width, float* tile) {
    read_tile(plan, arguments.inputs[0], first, width, tile);
    float label_scores[kColumns];
    const auto class_of = [&](Int i) {  // of an ignored label any
      const Int label = plan.label_at(labels, position + i);
      return plan.ignored(label) ? 0 : label;
    };
    for (Int i = 0; i < width; ++i) label_scores[i] = tile[class_of(i) * width + i];
    plan.isa->softmax(tile, tile, plan.classes, width, true);
    for (Int i = 0; i < width && sums != nullptr; ++i) {
      const float sum = log_sum_of(plan, arguments.inputs[0], first + i, tile + i, width,
                                   class_of(i), label_scores[i]);
      plan.isa->pack(plan.sums, &sum, at(sums, position + i, plan.sums), 1);
    }
    for (Int i = 0; i < width; ++i) {
      const Int label = plan.label_at(labels, position + i);
      room.position[position + i] =
          plan.ignored(label) ? 0.0F : -weight_of(plan, room, label) * tile[label * width + i];
    }
    if (log_prob != nullptr && plan.out != DType::kNone) {
      write_tile(plan, tile, width, log_prob, first);
    }
  });
  write_loss(plan, labels, room, arguments.outputs[0]);
  return ok_status();
}

// room.position[p] = the factor of exp(log_prob) - [c = l] at p.
void set_factors(const Plan& plan, const void* dloss, const void* labels, const Room& room) {
  double divisor = 1.0;
  if (plan.reduction == Reduction::kMean) {
    divisor = 0.0;
    for (Int p = 0; p < plan.positions(); ++p) {
      divisor += static_cast<double>(weight_of(plan, room, plan.label_at(labels, p)));
    }
  }
  const bool each = plan.reduction == Reduction::kNone;
  plan.isa->unpack(plan.loss, dloss, room.position, each ? plan.positions() : 1);
  const float common = plan.positions() > 0 ? room.position[0] : 0.0F;
  for (Int p = 0; p < plan.positions(); ++p) {
    const Int label = plan.label_at(labels, p);
    const double upstream = static_cast<double>(each ? room.position[p] : common);
    const double factor = upstream * static_cast<double>(weight_of(plan, room, label)) / divisor;
    room.position[p] = static_cast<float>(factor);
  }
}

// From every row of the tile.
void subtract(float* tile, const float* row, Int rows, Int width) {
  if (width == 1) {
    for (Int r = 0; r < rows; ++r) tile[r] -= row[0];
    return;
  }
  for (Int r = 0; r < rows; ++r) {
    for (Int i = 0; i < width; ++i) tile[r * width + i] -= row[i];
  }
}

Status run_grad(const Plan& plan, const KernelArguments& arguments) {
  const void* labels = arguments.inputs[2];
  MEZZO_RETURN_IF_ERROR(check_labels(plan, labels));
  if (plan.positions() == 0) return ok_status();
  const Room room = open_workspace(plan, arguments.workspace, in_buffer(arguments, 3));
  set_factors(plan, arguments.inputs[0], labels, room);
  const void* sums = in_buffer(arguments, 4);
  const ElementwiseLoop exp = plan.isa->elementwise(ElementwiseOp::kExp);
  for_tiles(plan, room, [&](Int position, Int first, Int width, float* tile) {
    read_tile(plan, arguments.inputs[1], first, width, tile);
    if (sums != nullptr) {
      float column_sums[kColumns];
      plan.isa->unpack(plan.sums, at(sums, position, plan.sums), column_sums, width);
      subtract(tile, column_sums, plan.classes, width);
    }
    const float* x = tile;
    const float none[2] = {0.0F, 0.0F};
    exp(&x, tile, plan.classes * width, none);
    for (Int i = 0; i < width; ++i) {
      const Int label = plan.label_at(labels, position + i);
      if (plan.ignored(label)) continue;
      tile[label * width + i] -= 1.0F;
    }
    const float* factors = room.position + position;
    for (Int c = 0; c < plan.classes; ++c) {
      for (Int i = 0; i < width; ++i) tile[c * width + i] *= factors[i];
    }
    for (Int i = 0; i < width; ++i) {  // whatever log_prob holds there
      if (!plan.ignored(plan.label_at(labels, position + i))) continue;
      for (Int c = 0; c < plan.classes; ++c) tile[c * width + i] = 0.0F;
    }
    write_tile(plan, tile, width, arguments.outputs[0], first);
  });
  return ok_status();
}

Plan make_plan(const KernelRequest& request, const Isa& isa, std::size_t scores) {
  const TensorDesc& desc = request.inputs[scores];
  Plan plan;
  plan.isa = &isa;
  plan.op = request.op;
  plan.threads = std::max(request.threads, 1);
  plan.n = desc.dims[0];
  plan.classes = desc.dims[1];
  for (std::size_t dim = 2; dim < desc.dims.size(); ++dim) plan.pixels *= desc.dims[dim];
  const std::string reduction = request.attributes.get_string("reduction", "mean");
  plan.reduction = reduction == "sum"    ? Reduction::kSum
                   : reduction == "none" ? Reduction::kNone
                                         : Reduction::kMean;
  plan.ignores = request.attributes.has("ignore_index");
  plan.ignore_index = request.attributes.get_int("ignore_index", 0);
  plan.scores = desc.dtype;
  plan.labels = request.inputs[scores + 1].dtype;
  plan.weights = in_desc(request, scores + 2).dtype;
  return plan;
}

Status expect_row_major(const KernelRequest& request) {
  for (const auto* side : {&request.inputs, &request.outputs}) {
    for (const TensorDesc& desc : *side) {
      if (desc.present() && desc.layout != Layout::kRowMajor) {
        return unimplemented("channels-last scores");
      }
    }
  }
  return ok_status();
}

std::size_t workspace_of(const Plan& plan) {
  return static_cast<std::size_t>(plan.room()) * sizeof(float);
}

}  // namespace

Prepared prepare_cross_entropy(const KernelRequest& request, const Isa& isa) {
  MEZZO_RETURN_IF_ERROR(expect_packed_floats(request, 0b010));
  MEZZO_RETURN_IF_ERROR(expect_row_major(request));
  if (request.inputs[0].elems() == 0) return unimplemented("empty scores");
  Plan plan = make_plan(request, isa, 0);
  plan.loss = request.outputs[0].dtype;
  plan.out = out_desc(request, 1).dtype;
  plan.sums = out_desc(request, 2).dtype;
  return make_kernel(isa, workspace_of(plan), [plan](const KernelArguments& arguments) {
    return run_loss(plan, arguments);
  });
}

Prepared prepare_cross_entropy_grad(const KernelRequest& request, const Isa& isa) {
  MEZZO_RETURN_IF_ERROR(expect_packed_floats(request, 0b0100));
  MEZZO_RETURN_IF_ERROR(expect_row_major(request));
  if (request.inputs[1].elems() == 0) return unimplemented("empty scores");
  Plan plan = make_plan(request, isa, 1);
  plan.loss = request.inputs[0].dtype;
  plan.out = request.outputs[0].dtype;
  plan.sums = in_desc(request, 4).dtype;
  return make_kernel(isa, workspace_of(plan), [plan](const KernelArguments& arguments) {
    return run_grad(plan, arguments);
  });
}

}  // namespace mezzo::kernels::cpu
