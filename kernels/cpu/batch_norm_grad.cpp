// Gradient of BatchNormalization's training form. With m numbers per channel:
//
//   dbias = sum dy, dscale = inv_std sum dy (x - mean),
//   dx = a dy + b (x - mean) + c,  a = scale inv_std,  b = -a inv_std dscale / m,
//                                  c = -a dbias / m
#include <array>

#include "kernels/cpu/batch_norm.h"

namespace mezzo::kernels::cpu {
namespace {

struct Plan {
  const Isa* isa = nullptr;
  int threads = 1;
  ChannelShape shape;
  std::array<DType, 5> in{};   // dy, x, scale, saved_mean, saved_inv_std
  std::array<DType, 3> out{};  // dx, dscale, dbias; kNone: not wanted

  // Workspace, in floats: mean, a, b, c per channel, the same per column, both sums per chunk and
  // column.
  Int channel_floats() const { return padded_floats(shape.channels); }
  Int column_floats() const { return shape.columns ? padded_floats(shape.width()) : 0; }
  Int columns_at() const { return 4 * channel_floats(); }
  Int parts_at() const { return columns_at() + 4 * column_floats(); }
  Int room() const {
    return parts_at() + (shape.columns ? 2 * shape.chunks() * column_floats() : 0);
  }
};

struct Sums {
  double dy = 0.0;
  double dy_x = 0.0;  // dy (x - mean)
};

Sums run_sums(const Plan& plan, const KernelArguments& arguments, Int channel, float mean) {
  const ChannelShape& shape = plan.shape;
  alignas(64) float dy_room[kBlock];
  alignas(64) float x_room[kBlock];
  Sums sums;
  for (Int image = 0; image < shape.n; ++image) {
    const Int start = (image * shape.channels + channel) * shape.pixels;
    for (Int done = 0; done < shape.pixels; done += kBlock) {
      const Int n = std::min(kBlock, shape.pixels - done);
      float sum_dy = 0.0F;
      float sum_dy_x = 0.0F;
      plan.isa->grad_sums_run(
          floats(*plan.isa, plan.in[0], arguments.inputs[0], start + done, n, dy_room),
          floats(*plan.isa, plan.in[1], arguments.inputs[1], start + done, n, x_room), mean, n,
          &sum_dy, &sum_dy_x);
      sums.dy += static_cast<double>(sum_dy);
      sums.dy_x += static_cast<double>(sum_dy_x);
    }
  }
  return sums;
}

// Both sums of one chunk and tile into the workspace.
void column_part(const Plan& plan, const KernelArguments& arguments, Int unit, float* parts) {
  const float* mean = static_cast<const float*>(arguments.workspace) + plan.columns_at();
  alignas(64) float dy_room[kRowsBlock];
  alignas(64) float x_room[kRowsBlock];
  alignas(64) float sums[2][kBlock];
  bool first = true;
  for_row_blocks(plan.shape, unit, [&](Int chunk, Int row, Int rows, Int column, Int columns) {
    const auto read = [&](std::size_t operand, float* room) {
      return read_rows(*plan.isa, plan.shape, plan.in[operand], arguments.inputs[operand], row,
                       rows, column, columns, room);
    };
    for (float* sum : {sums[0], sums[1]}) std::fill_n(sum, columns, 0.0F);
    plan.isa->grad_sums_rows(read(0, dy_room), read(1, x_room), mean + column, rows, columns,
                             sums[0], sums[1]);
    float* total = parts + chunk * 2 * plan.column_floats() + column;
    for (Int k = 0; k < 2; ++k, total += plan.column_floats()) {
      if (first) std::fill_n(total, columns, 0.0F);
      plan.isa->reduce_rows(ReduceOp::kSum, sums[k], 1, columns, columns, total);
    }
    first = false;
  });
}

Sums column_sums(const Plan& plan, const float* parts, Int channel) {
  const Int repeat = plan.shape.columns_per_channel();
  Sums sums;
  for (Int chunk = 0; chunk < plan.shape.chunks(); ++chunk) {
    const float* part = parts + chunk * 2 * plan.column_floats();
    for (Int column = channel * repeat; column < (channel + 1) * repeat; ++column) {
      sums.dy += static_cast<double>(part[column]);
      sums.dy_x += static_cast<double>(part[plan.column_floats() + column]);
    }
  }
  return sums;
}

void write_one(const Plan& plan, const KernelArguments& arguments, std::size_t k, Int c,
               double number) {
  void* to = out_buffer(arguments, k);
  if (plan.out[k] == DType::kNone || to == nullptr) return;
  const auto value = static_cast<float>(number);
  plan.isa->pack(plan.out[k], &value, at(to, c, plan.out[k]), 1);
}

void finish_channel(const Plan& plan, const KernelArguments& arguments, const float* parts, Int c) {
  auto* numbers = static_cast<float*>(arguments.workspace);
  const Sums sums =
      plan.shape.columns ? column_sums(plan, parts, c) : run_sums(plan, arguments, c, numbers[c]);
  const double inv_std =
      static_cast<double>(read_one(*plan.isa, plan.in[4], arguments.inputs[4], c));
  const double dscale = sums.dy_x * inv_std;
  const double a =
      static_cast<double>(read_one(*plan.isa, plan.in[2], arguments.inputs[2], c)) * inv_std;
  const auto count = static_cast<double>(plan.shape.per_channel());
  const Int width = plan.channel_floats();
  numbers[width + c] = static_cast<float>(a);
  numbers[2 * width + c] = static_cast<float>(-a * inv_std * dscale / count);
  numbers[3 * width + c] = static_cast<float>(-a * sums.dy / count);
  write_one(plan, arguments, 1, c, dscale);
  write_one(plan, arguments, 2, c, sums.dy);
}

void apply_run(const Plan& plan, const KernelArguments& arguments, Int plane) {
  const Int c = plane % plan.shape.channels;
  const Int width = plan.channel_floats();
  const float* numbers = static_cast<const float*>(arguments.workspace) + c;
  alignas(64) float dy_room[kBlock];
  alignas(64) float x_room[kBlock];
  const Int start = plane * plan.shape.pixels;
  for (Int done = 0; done < plan.shape.pixels; done += kBlock) {
    const Int n = std::min(kBlock, plan.shape.pixels - done);
    float* dx = float_target(plan.out[0], arguments.outputs[0], start + done, dy_room);
    plan.isa->grad_affine_run(
        floats(*plan.isa, plan.in[0], arguments.inputs[0], start + done, n, dy_room),
        floats(*plan.isa, plan.in[1], arguments.inputs[1], start + done, n, x_room), numbers[0],
        numbers[width], numbers[2 * width], numbers[3 * width], dx, n);
    flush(*plan.isa, plan.out[0], dx, arguments.outputs[0], start + done, n);
  }
}

void apply_rows(const Plan& plan, const KernelArguments& arguments, Int unit) {
  const Int width = plan.column_floats();
  const float* numbers = static_cast<const float*>(arguments.workspace) + plan.columns_at();
  alignas(64) float dy_room[kRowsBlock];
  alignas(64) float x_room[kRowsBlock];
  for_row_blocks(plan.shape, unit, [&](Int, Int row, Int rows, Int column, Int columns) {
    const auto read = [&](std::size_t operand, float* room) {
      return read_rows(*plan.isa, plan.shape, plan.in[operand], arguments.inputs[operand], row,
                       rows, column, columns, room);
    };
    const float* at_column = numbers + column;
    float* dx = rows_target(plan.shape, plan.out[0], arguments.outputs[0], row, columns, dy_room);
    plan.isa->grad_affine_rows(read(0, dy_room), read(1, x_room), at_column, at_column + width,
                               at_column + 2 * width, at_column + 3 * width, dx, rows, columns);
    write_rows(*plan.isa, plan.shape, plan.out[0], dx, arguments.outputs[0], row, rows, column,
               columns);
  });
}

void run_plan(const Plan& plan, const KernelArguments& arguments) {
  const ChannelShape& shape = plan.shape;
  const int threads = threads_for(shape.elems(), plan.threads);
  auto* numbers = static_cast<float*>(arguments.workspace);
  float* parts = numbers + plan.parts_at();
  float* columns = numbers + plan.columns_at();
  const Int row_units = shape.columns ? shape.chunks() * shape.tiles() : 0;
  plan.isa->unpack(plan.in[3], arguments.inputs[3], numbers, shape.channels);
  if (shape.columns) {
    spread_channels(shape, numbers, columns);
    parallel_units(row_units, threads,
                   [&](Int unit, int) { column_part(plan, arguments, unit, parts); });
  }
  parallel_units(shape.channels, threads,
                 [&](Int c, int) { finish_channel(plan, arguments, parts, c); });
  if (plan.out[0] == DType::kNone || out_buffer(arguments, 0) == nullptr) return;
  if (!shape.columns) {
    parallel_units(shape.n * shape.channels, threads,
                   [&](Int plane, int) { apply_run(plan, arguments, plane); });
    return;
  }
  for (Int k = 1; k < 4; ++k) {
    spread_channels(shape, numbers + k * plan.channel_floats(), columns + k * plan.column_floats());
  }
  parallel_units(row_units, threads, [&](Int unit, int) { apply_rows(plan, arguments, unit); });
}

}  // namespace

Prepared prepare_batch_norm_grad(const KernelRequest& request, const Isa& isa) {
  MEZZO_RETURN_IF_ERROR(expect_packed_floats(request));
  MEZZO_RETURN_IF_ERROR(expect_one_layout(request));
  if (request.inputs[0].elems() == 0) return unimplemented("an empty operand");
  Plan plan;
  plan.isa = &isa;
  plan.threads = std::max(request.threads, 1);
  plan.shape = ChannelShape::of(request.inputs[1]);
  for (std::size_t i = 0; i < 5; ++i) plan.in[i] = in_desc(request, i).dtype;
  for (std::size_t i = 0; i < 3; ++i) plan.out[i] = out_desc(request, i).dtype;
  return make_kernel(isa, static_cast<std::size_t>(plan.room()) * sizeof(float),
                     [plan](const KernelArguments& arguments) { run_plan(plan, arguments); });
}

}  // namespace mezzo::kernels::cpu
