// GroupNormalization, InstanceNormalization, RMSNormalization and LRN of row-major activations.
// What a unit of work reads is unpacked to float32 once, if it is not that already; statistics are
// those of LayerNormalization.
#include <cmath>

#include "kernels/cpu/common.h"

namespace mezzo::kernels::cpu {
namespace {

Status expect_row_major(const KernelRequest& request) {
  MEZZO_RETURN_IF_ERROR(expect_packed_floats(request));
  for (const auto* side : {&request.inputs, &request.outputs}) {
    for (const TensorDesc& desc : *side) {
      if (desc.layout != Layout::kRowMajor) return unimplemented("channels-last operands");
    }
  }
  if (request.inputs[0].elems() == 0) return unimplemented("empty operands");
  return ok_status();
}

Int pixels_of(const Dims& dims) {
  Int pixels = 1;
  for (std::size_t i = 2; i < dims.size(); ++i) pixels *= dims[i];
  return pixels;
}

// A unit is a group of one image.
struct GroupPlan {
  const Isa* isa = nullptr;
  int threads = 1;
  Int images = 1, groups = 1, channels = 1, pixels = 1;  // channels of a group
  bool per_group = false;
  float epsilon = 1e-5F;
  DType x = DType::kNone, scale = DType::kNone, bias = DType::kNone, y = DType::kNone;

  Int elems() const { return channels * pixels; }
};

float number(const Isa& isa, DType dtype, const void* data, Int i) {
  float value;
  isa.unpack(dtype, at(data, i, dtype), &value, 1);
  return value;
}

void run_groups(const GroupPlan& plan, const KernelArguments& arguments) {
  const Isa& isa = *plan.isa;
  const Int units = plan.images * plan.groups;
  const Int elems = plan.elems();
  parallel_units(units, threads_for(units * elems, plan.threads), [&](Int unit, int thread) {
    float* room = thread_part(arguments.workspace, thread, padded_floats(elems));
    const Int first = unit * elems;
    const float* x = floats(isa, plan.x, arguments.inputs[0], first, elems, room);
    const Moments moments = long_moments(isa, x, elems);
    const float inv_std = 1.0F / std::sqrt(moments.m2 + plan.epsilon);
    float* y = float_target(plan.y, arguments.outputs[0], first, room);
    const Int group = unit % plan.groups;
    for (Int c = 0; c < plan.channels; ++c) {
      const Int factor = plan.per_group ? group : group * plan.channels + c;
      const float scale = number(isa, plan.scale, arguments.inputs[1], factor);
      const float bias = number(isa, plan.bias, arguments.inputs[2], factor);
      isa.affine_run(x + c * plan.pixels, moments.mean, inv_std * scale, bias, y + c * plan.pixels,
                     plan.pixels);
    }
    flush(isa, plan.y, y, arguments.outputs[0], first, elems);
  });
}

// A unit is a few rows.
struct RmsPlan {
  const Isa* isa = nullptr;
  int threads = 1;
  Int rows = 1, length = 1;
  float epsilon = 1e-5F;
  DType x = DType::kNone, scale = DType::kNone, y = DType::kNone;

  Int row_floats() const { return padded_floats(length); }
};

// Workspace: scale, then a row per thread.
void run_rms(const RmsPlan& plan, const KernelArguments& arguments) {
  constexpr Int kUnit = 4096;
  const Isa& isa = *plan.isa;
  auto* workspace = static_cast<float*>(arguments.workspace);
  const float* scale = floats(isa, plan.scale, arguments.inputs[1], 0, plan.length, workspace);
  const Int group = std::max<Int>(1, kUnit / plan.length);
  const int threads = threads_for(plan.rows * plan.length, plan.threads);
  parallel_units(ceil_div(plan.rows, group), threads, [&](Int unit, int thread) {
    float* room = workspace + (1 + thread) * plan.row_floats();
    for (Int row = unit * group; row < std::min(plan.rows, (unit + 1) * group); ++row) {
      const Int first = row * plan.length;
      const float* x = floats(isa, plan.x, arguments.inputs[0], first, plan.length, room);
      const double square = mean_square(isa, x, plan.length);
      const auto inv = static_cast<float>(1.0 / std::sqrt(square + plan.epsilon));
      float* y = float_target(plan.y, arguments.outputs[0], first, room);
      isa.normalize(x, scale, nullptr, 0.0F, inv, y, plan.length);
      flush(isa, plan.y, y, arguments.outputs[0], first, plan.length);
    }
  });
}

// A unit is a block of pixels of one image, for all channels.
struct LrnPlan {
  const Isa* isa = nullptr;
  int threads = 1;
  Int images = 1, channels = 1, pixels = 1, size = 1;
  float alpha = 0.0F, beta = 0.0F, bias = 0.0F;
  DType x = DType::kNone, y = DType::kNone;

  Int width() const { return std::min(kBlock, padded_floats(pixels)); }
};

// base = x / base^beta. The usual 3/4 takes two square roots, a fifth of the time of a power.
void divide_by_power(const LrnPlan& plan, const float* x, float* base, Int n) {
  const Isa& isa = *plan.isa;
  alignas(64) float room[kBlock];
  const float* first[2] = {base, room};
  if (plan.beta == 0.75F) {
    const ElementwiseLoop root = isa.elementwise(ElementwiseOp::kSqrt);
    root(first, base, n, nullptr);
    root(first, room, n, nullptr);
    isa.elementwise(ElementwiseOp::kMul)(first, base, n, nullptr);
  } else {
    std::fill_n(room, n, plan.beta);
    isa.elementwise(ElementwiseOp::kPow)(first, base, n, nullptr);
  }
  const float* quotient[2] = {x, base};
  isa.elementwise(ElementwiseOp::kDiv)(quotient, base, n, nullptr);
}

// Workspace per thread: x of a block for all channels, [channels][width].
void run_lrn(const LrnPlan& plan, const KernelArguments& arguments) {
  const Isa& isa = *plan.isa;
  const Int blocks = ceil_div(plan.pixels, plan.width());
  const Int units = plan.images * blocks;
  const int threads = threads_for(plan.images * plan.channels * plan.pixels, plan.threads);
  parallel_units(units, threads, [&](Int unit, int thread) {
    const Int width = plan.width();
    float* x = thread_part(arguments.workspace, thread, plan.channels * width);
    const Int pixel = unit % blocks * width;
    const Int count = std::min(width, plan.pixels - pixel);
    const Int first = unit / blocks * plan.channels * plan.pixels + pixel;
    for (Int c = 0; c < plan.channels; ++c) {
      isa.unpack(plan.x, at(arguments.inputs[0], first + c * plan.pixels, plan.x), x + c * width,
                 count);
    }
    alignas(64) float base[kBlock];
    const float factor = plan.alpha / static_cast<float>(plan.size);
    for (Int c = 0; c < plan.channels; ++c) {
      const Int from = std::max<Int>(0, c - (plan.size - 1) / 2);
      const Int to = std::min(plan.channels - 1, c + plan.size / 2);
      std::fill_n(base, count, 0.0F);
      isa.reduce_rows(ReduceOp::kSumSquare, x + from * width, to - from + 1, count, width, base);
      for (Int i = 0; i < count; ++i) base[i] = plan.bias + factor * base[i];
      divide_by_power(plan, x + c * width, base, count);
      isa.pack(plan.y, base, at(arguments.outputs[0], first + c * plan.pixels, plan.y), count);
    }
  });
}

}  // namespace

Prepared prepare_group_norm(const KernelRequest& request, const Isa& isa) {
  MEZZO_RETURN_IF_ERROR(expect_row_major(request));
  const Dims& dims = request.inputs[0].dims;
  GroupPlan plan;
  plan.isa = &isa;
  plan.threads = std::max(request.threads, 1);
  plan.images = dims[0];
  plan.groups =
      request.op == "InstanceNormalization" ? dims[1] : request.attributes.get_int("num_groups", 1);
  plan.channels = dims[1] / plan.groups;
  plan.pixels = pixels_of(dims);
  plan.per_group = request.inputs[1].elems() != dims[1];
  plan.epsilon = static_cast<float>(request.attributes.get_float("epsilon", 1e-5));
  plan.x = request.inputs[0].dtype;
  plan.scale = request.inputs[1].dtype;
  plan.bias = request.inputs[2].dtype;
  plan.y = request.outputs[0].dtype;
  plan.threads = static_cast<int>(std::min<Int>(plan.threads, plan.images * plan.groups));
  const bool direct = plan.x == DType::kFloat32 && plan.y == DType::kFloat32;
  const Int room = direct ? 0 : padded_floats(plan.elems()) * plan.threads;
  return make_kernel(isa, static_cast<std::size_t>(room) * sizeof(float),
                     [plan](const KernelArguments& arguments) { run_groups(plan, arguments); });
}

Prepared prepare_rms_norm(const KernelRequest& request, const Isa& isa) {
  MEZZO_RETURN_IF_ERROR(expect_row_major(request));
  const Dims& dims = request.inputs[0].dims;
  RmsPlan plan;
  plan.isa = &isa;
  plan.threads = std::max(request.threads, 1);
  Int axis = request.attributes.get_int("axis", -1);
  if (axis < 0) axis += static_cast<Int>(dims.size());
  for (std::size_t dim = 0; dim < dims.size(); ++dim) {
    (static_cast<Int>(dim) < axis ? plan.rows : plan.length) *= dims[dim];
  }
  if (request.inputs[1].elems() != plan.length) return unimplemented("a scale that is broadcast");
  plan.epsilon = static_cast<float>(request.attributes.get_float("epsilon", 1e-5));
  plan.x = request.inputs[0].dtype;
  plan.scale = request.inputs[1].dtype;
  plan.y = request.outputs[0].dtype;
  const Int room = (1 + plan.threads) * plan.row_floats();
  return make_kernel(isa, static_cast<std::size_t>(room) * sizeof(float),
                     [plan](const KernelArguments& arguments) { run_rms(plan, arguments); });
}

Prepared prepare_lrn(const KernelRequest& request, const Isa& isa) {
  MEZZO_RETURN_IF_ERROR(expect_row_major(request));
  const Dims& dims = request.inputs[0].dims;
  LrnPlan plan;
  plan.isa = &isa;
  plan.threads = std::max(request.threads, 1);
  plan.images = dims[0];
  plan.channels = dims[1];
  plan.pixels = pixels_of(dims);
  plan.size = request.attributes.get_int("size", 1);
  plan.alpha = static_cast<float>(request.attributes.get_float("alpha", 1e-4));
  plan.beta = static_cast<float>(request.attributes.get_float("beta", 0.75));
  plan.bias = static_cast<float>(request.attributes.get_float("bias", 1.0));
  plan.x = request.inputs[0].dtype;
  plan.y = request.outputs[0].dtype;
  const Int room = plan.channels * plan.width() * plan.threads;
  return make_kernel(isa, static_cast<std::size_t>(room) * sizeof(float),
                     [plan](const KernelArguments& arguments) { run_lrn(plan, arguments); });
}

}  // namespace mezzo::kernels::cpu
