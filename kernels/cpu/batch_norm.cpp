// BatchNormalization, training and inference form.
//
//   y = (x - mean) scale / sqrt(var + epsilon) + bias; in training with the batch's own mean and
//   population variance, and running = old momentum + batch (1 - momentum), where the running
//   variance may take the batch's unbiased one.
//
// Statistics take one pass over memory: mean and squared distances of blocks that stay in the
// cache, joined as in Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for
// Computing Sample Variances" (1979), which does not cancel.
#include "kernels/cpu/batch_norm.h"

#include <array>
#include <cmath>

namespace mezzo::kernels::cpu {
namespace {

struct Plan {
  const Isa* isa = nullptr;
  int threads = 1;
  ChannelShape shape;
  double epsilon = 1e-5;
  double momentum = 0.9;
  bool training = false;
  bool unbiased = false;       // variance of the batch in the running one
  std::array<DType, 5> in{};   // x, scale, bias, mean, var
  std::array<DType, 5> out{};  // y, running_mean, running_var, saved_mean, saved_inv_std

  // Workspace, in floats: mean, factor and offset per channel, the same per column, the parts'
  // mean and m2 per chunk and column.
  Int channel_floats() const { return padded_floats(shape.channels); }
  Int column_floats() const { return shape.columns ? padded_floats(shape.width()) : 0; }
  Int columns_at() const { return 3 * channel_floats(); }
  Int parts_at() const { return columns_at() + 3 * column_floats(); }
  Int room() const {
    return parts_at() + (training && shape.columns ? 2 * shape.chunks() * column_floats() : 0);
  }
};

// Mean and summed squared distances over `count` numbers, and how two sets join.
struct Joined {
  double count = 0.0;
  double mean = 0.0;
  double m2 = 0.0;

  void join(double n, double other_mean, double other_m2) {
    if (n == 0.0) return;
    const double total = count + n;
    const double distance = other_mean - mean;
    mean += distance * n / total;
    m2 += other_m2 + distance * distance * count * n / total;
    count = total;
  }
};

// The same in float32 for many columns at once: a takes in b.
void join_columns(Int columns, float a_count, float b_count, const float* b_mean, const float* b_m2,
                  float* a_mean, float* a_m2) {
  const float share = b_count / (a_count + b_count);
  for (Int c = 0; c < columns; ++c) {
    const float distance = b_mean[c] - a_mean[c];
    a_mean[c] += distance * share;
    a_m2[c] += b_m2[c] + distance * distance * a_count * share;
  }
}

Joined run_statistics(const Plan& plan, const void* x, Int channel) {
  const ChannelShape& shape = plan.shape;
  const Int step = plan.in[0] == DType::kFloat32 ? kRowsBlock : kBlock;
  alignas(64) float room[kBlock];
  Joined joined;
  for (Int image = 0; image < shape.n; ++image) {
    const Int start = (image * shape.channels + channel) * shape.pixels;
    for (Int done = 0; done < shape.pixels; done += step) {
      const Int n = std::min(step, shape.pixels - done);
      const Moments part =
          plan.isa->moments(floats(*plan.isa, plan.in[0], x, start + done, n, room), n);
      joined.join(static_cast<double>(n), static_cast<double>(part.mean),
                  static_cast<double>(part.m2));
    }
  }
  return joined;
}

// Fills mean and m2 of one chunk and tile in the workspace.
void column_part(const Plan& plan, const void* x, Int unit, float* parts) {
  alignas(64) float room[kRowsBlock];
  alignas(64) float mean[kBlock];
  alignas(64) float m2[kBlock];
  float count = 0.0F;
  for_row_blocks(plan.shape, unit, [&](Int chunk, Int row, Int rows, Int column, Int columns) {
    float* chunk_mean = parts + chunk * 2 * plan.column_floats() + column;
    float* chunk_m2 = chunk_mean + plan.column_floats();
    const float* block =
        read_rows(*plan.isa, plan.shape, plan.in[0], x, row, rows, column, columns, room);
    const auto n = static_cast<float>(rows);
    if (count == 0.0F) {
      plan.isa->moments_rows(block, rows, columns, chunk_mean, chunk_m2);
    } else {
      plan.isa->moments_rows(block, rows, columns, mean, m2);
      join_columns(columns, count, n, mean, m2, chunk_mean, chunk_m2);
    }
    count += n;
  });
}

Joined column_statistics(const Plan& plan, const float* parts, Int channel) {
  const ChannelShape& shape = plan.shape;
  const Int repeat = shape.columns_per_channel();
  Joined joined;
  for (Int chunk = 0; chunk < shape.chunks(); ++chunk) {
    const auto rows = static_cast<double>(shape.chunk_begin(chunk + 1) - shape.chunk_begin(chunk));
    const float* mean = parts + chunk * 2 * plan.column_floats();
    for (Int column = channel * repeat; column < (channel + 1) * repeat; ++column) {
      joined.join(rows, static_cast<double>(mean[column]),
                  static_cast<double>(mean[plan.column_floats() + column]));
    }
  }
  return joined;
}

// Mean, factor and offset of a channel into the workspace, statistics to their results.
void finish_channel(const Plan& plan, const KernelArguments& arguments, const float* parts, Int c) {
  const double old_mean =
      static_cast<double>(read_one(*plan.isa, plan.in[3], arguments.inputs[3], c));
  const double old_var =
      static_cast<double>(read_one(*plan.isa, plan.in[4], arguments.inputs[4], c));
  double mean = old_mean;
  double var = old_var;
  double running_var = old_var;
  if (plan.training) {
    const Joined joined = plan.shape.columns ? column_statistics(plan, parts, c)
                                             : run_statistics(plan, arguments.inputs[0], c);
    mean = joined.mean;
    var = joined.m2 / joined.count;
    running_var = plan.unbiased && joined.count > 1 ? joined.m2 / (joined.count - 1) : var;
  }
  const double inv_std = 1.0 / std::sqrt(var + plan.epsilon);
  auto* workspace = static_cast<float*>(arguments.workspace);
  workspace[c] = static_cast<float>(mean);
  workspace[plan.channel_floats() + c] = static_cast<float>(
      static_cast<double>(read_one(*plan.isa, plan.in[1], arguments.inputs[1], c)) * inv_std);
  workspace[2 * plan.channel_floats() + c] =
      read_one(*plan.isa, plan.in[2], arguments.inputs[2], c);
  const double results[4] = {old_mean * plan.momentum + mean * (1.0 - plan.momentum),
                             old_var * plan.momentum + running_var * (1.0 - plan.momentum), mean,
                             inv_std};
  for (std::size_t k = 1; k < 5; ++k) {
    void* to = out_buffer(arguments, k);
    if (plan.out[k] == DType::kNone || to == nullptr) continue;
    const auto value = static_cast<float>(results[k - 1]);
    plan.isa->pack(plan.out[k], &value, at(to, c, plan.out[k]), 1);
  }
}

void apply_run(const Plan& plan, const KernelArguments& arguments, Int plane) {
  const auto* numbers = static_cast<const float*>(arguments.workspace);
  const Int c = plane % plan.shape.channels;
  const Int width = plan.channel_floats();
  const Int start = plane * plan.shape.pixels;
  const bool direct = plan.in[0] == DType::kFloat32 && plan.out[0] == DType::kFloat32;
  const Int step = direct ? plan.shape.pixels : kBlock;
  alignas(64) float room[kBlock];
  for (Int done = 0; done < plan.shape.pixels; done += step) {
    const Int n = std::min(step, plan.shape.pixels - done);
    const float* x = floats(*plan.isa, plan.in[0], arguments.inputs[0], start + done, n, room);
    float* y = float_target(plan.out[0], arguments.outputs[0], start + done, room);
    plan.isa->affine_run(x, numbers[c], numbers[width + c], numbers[2 * width + c], y, n);
    flush(*plan.isa, plan.out[0], room, arguments.outputs[0], start + done, n);
  }
}

void apply_rows(const Plan& plan, const KernelArguments& arguments, Int unit) {
  const float* mean = static_cast<const float*>(arguments.workspace) + plan.columns_at();
  const float* factor = mean + plan.column_floats();
  const float* offset = factor + plan.column_floats();
  alignas(64) float room[kRowsBlock];
  for_row_blocks(plan.shape, unit, [&](Int, Int row, Int rows, Int column, Int columns) {
    const float* x = read_rows(*plan.isa, plan.shape, plan.in[0], arguments.inputs[0], row, rows,
                               column, columns, room);
    float* y = rows_target(plan.shape, plan.out[0], arguments.outputs[0], row, columns, room);
    plan.isa->affine_rows(x, mean + column, factor + column, offset + column, y, rows, columns);
    write_rows(*plan.isa, plan.shape, plan.out[0], y, arguments.outputs[0], row, rows, column,
               columns);
  });
}

void run_plan(const Plan& plan, const KernelArguments& arguments) {
  const ChannelShape& shape = plan.shape;
  const int threads = threads_for(shape.elems(), plan.threads);
  auto* workspace = static_cast<float*>(arguments.workspace);
  float* parts = workspace + plan.parts_at();
  const Int row_units = shape.columns ? shape.chunks() * shape.tiles() : 0;
  if (plan.training && shape.columns) {
    parallel_units(row_units, threads,
                   [&](Int unit, int) { column_part(plan, arguments.inputs[0], unit, parts); });
  }
  parallel_units(shape.channels, threads,
                 [&](Int c, int) { finish_channel(plan, arguments, parts, c); });
  if (shape.elems() == 0) return;
  if (!shape.columns) {
    parallel_units(shape.n * shape.channels, threads,
                   [&](Int plane, int) { apply_run(plan, arguments, plane); });
    return;
  }
  for (Int k = 0; k < 3; ++k) {
    spread_channels(shape, workspace + k * plan.channel_floats(),
                    workspace + plan.columns_at() + k * plan.column_floats());
  }
  parallel_units(row_units, threads, [&](Int unit, int) { apply_rows(plan, arguments, unit); });
}

}  // namespace

Prepared prepare_batch_norm(const KernelRequest& request, const Isa& isa) {
  MEZZO_RETURN_IF_ERROR(expect_packed_floats(request));
  if (request.inputs[0].layout != request.outputs[0].layout) {
    return unimplemented("operand and result in different layouts");
  }
  if (request.inputs[0].elems() == 0) return unimplemented("an empty operand");
  Plan plan;
  plan.isa = &isa;
  plan.threads = std::max(request.threads, 1);
  plan.shape = ChannelShape::of(request.inputs[0]);
  plan.epsilon = request.attributes.get_float("epsilon", 1e-5);
  plan.momentum = request.attributes.get_float("momentum", 0.9);
  plan.training = request.attributes.get_int("training_mode", 0) == 1;
  plan.unbiased = request.attributes.get_int("unbiased_running_var", 0) == 1;
  for (std::size_t i = 0; i < 5; ++i) {
    plan.in[i] = in_desc(request, i).dtype;
    plan.out[i] = out_desc(request, i).dtype;
  }
  return make_kernel(isa, static_cast<std::size_t>(plan.room()) * sizeof(float),
                     [plan](const KernelArguments& arguments) { run_plan(plan, arguments); });
}

}  // namespace mezzo::kernels::cpu
