// LayerNormalization over the dims from `axis` on, and its gradient. Letters: R rows, D elements
// per row. Rows are unpacked into the workspace, worked on there in float32 and rounded once; the
// formulas stand in layer_norm_isa.cpp.
//
// dscale and dbias are summed over fixed chunks of rows, then over the chunks in order.
#include <cmath>

#include "kernels/cpu/common.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr Int kUnit = 4096;
constexpr Int kMostChunks = 16;
constexpr Int kChunkElems = 16384;

struct Plan {
  const Isa* isa = nullptr;
  int threads = 1;
  Int rows = 1, length = 1;
  float epsilon = 1e-5F;
  DType x = DType::kNone, scale = DType::kNone, bias = DType::kNone;
  DType y = DType::kNone;  // or dx
  DType dy = DType::kNone;
  DType mean = DType::kNone, inv_std = DType::kNone;
  DType dscale = DType::kNone, dbias = DType::kNone;

  Int row_floats() const { return padded_floats(length); }
  // Gradient: parts of dscale and dbias.
  Int chunks() const { return std::clamp<Int>(rows * length / kChunkElems, 1, kMostChunks); }
};

Status read_shape(const KernelRequest& request, Plan& plan) {
  const Dims& dims = request.inputs[0].dims;
  for (const auto* side : {&request.inputs, &request.outputs}) {
    for (const TensorDesc& desc : *side) {
      if (desc.layout != Layout::kRowMajor) return unimplemented("channels-last operands");
    }
  }
  Int axis = request.attributes.get_int("axis", -1);
  if (axis < 0) axis += static_cast<Int>(dims.size());
  for (std::size_t dim = 0; dim < dims.size(); ++dim) {
    (static_cast<Int>(dim) < axis ? plan.rows : plan.length) *= dims[dim];
  }
  if (plan.rows * plan.length == 0) return unimplemented("empty operands");
  return ok_status();
}

// Scale and bias of the forward pass may be broadcast in ONNX.
Status expect_whole(const KernelRequest& request, const Plan& plan) {
  for (const std::size_t i : {1, 2}) {
    const TensorDesc& desc = in_desc(request, i);
    if (desc.present() && desc.elems() != plan.length) {
      return unimplemented("a scale or bias that is broadcast");
    }
  }
  return ok_status();
}

// Workspace: scale, bias, then a row per thread.
void run_forward(const Plan& plan, const KernelArguments& arguments) {
  auto* workspace = static_cast<float*>(arguments.workspace);
  const Isa& isa = *plan.isa;
  const float* scale = floats(isa, plan.scale, arguments.inputs[1], 0, plan.length, workspace);
  const float* bias = nullptr;
  if (plan.bias != DType::kNone) {
    bias =
        floats(isa, plan.bias, arguments.inputs[2], 0, plan.length, workspace + plan.row_floats());
  }
  const Int group = std::max<Int>(1, kUnit / plan.length);
  const int threads = threads_for(plan.rows * plan.length, plan.threads);
  parallel_units(ceil_div(plan.rows, group), threads, [&](Int unit, int thread) {
    float* room = workspace + (2 + thread) * plan.row_floats();
    for (Int row = unit * group; row < std::min(plan.rows, (unit + 1) * group); ++row) {
      const Int first = row * plan.length;
      const float* x = floats(isa, plan.x, arguments.inputs[0], first, plan.length, room);
      const Moments moments = long_moments(isa, x, plan.length);
      const float inv_std = 1.0F / std::sqrt(moments.m2 + plan.epsilon);
      float* y = float_target(plan.y, arguments.outputs[0], first, room);
      isa.normalize(x, scale, bias, moments.mean, inv_std, y, plan.length);
      flush(isa, plan.y, room, arguments.outputs[0], first, plan.length);
      if (plan.mean != DType::kNone) {
        isa.pack(plan.mean, &moments.mean, at(arguments.outputs[1], row, plan.mean), 1);
      }
      if (plan.inv_std != DType::kNone) {
        isa.pack(plan.inv_std, &inv_std, at(arguments.outputs[2], row, plan.inv_std), 1);
      }
    }
  });
}

// Adds the chunks' rows of `part` up and writes them.
void write_sum(const Plan& plan, const float* part, DType dtype, void* to) {
  if (dtype == DType::kNone || to == nullptr) return;
  alignas(64) float sum[kBlock];
  for (Int first = 0; first < plan.length; first += kBlock) {
    const Int n = std::min(kBlock, plan.length - first);
    std::fill_n(sum, n, 0.0F);
    plan.isa->reduce_rows(ReduceOp::kSum, part + first, plan.chunks(), n, 2 * plan.row_floats(),
                          sum);
    plan.isa->pack(dtype, sum, at(to, first, dtype), n);
  }
}

// Workspace: scale, then dscale and dbias of every chunk, then three rows per thread.
void run_backward(const Plan& plan, const KernelArguments& arguments) {
  auto* workspace = static_cast<float*>(arguments.workspace);
  const Isa& isa = *plan.isa;
  const Int width = plan.row_floats();
  const auto& in = arguments.inputs;
  const float* scale = floats(isa, plan.scale, in[2], 0, plan.length, workspace);
  float* sums = workspace + width;
  float* rooms = sums + plan.chunks() * 2 * width;
  const int threads = threads_for(plan.rows * plan.length, plan.threads);
  parallel_units(plan.chunks(), threads, [&](Int chunk, int thread) {
    float* dscale = sums + chunk * 2 * width;
    float* dbias = dscale + width;
    std::fill_n(dscale, 2 * width, 0.0F);
    float* room = rooms + thread * 3 * width;
    const Int end = plan.rows * (chunk + 1) / plan.chunks();
    for (Int row = plan.rows * chunk / plan.chunks(); row < end; ++row) {
      const Int first = row * plan.length;
      const float* dy = floats(isa, plan.dy, in[0], first, plan.length, room);
      const float* x = floats(isa, plan.x, in[1], first, plan.length, room + width);
      float mean;
      float inv_std;
      isa.unpack(plan.mean, at(in[3], row, plan.mean), &mean, 1);
      isa.unpack(plan.inv_std, at(in[4], row, plan.inv_std), &inv_std, 1);
      void* out = out_buffer(arguments, 0);
      const bool wanted = plan.y != DType::kNone && out != nullptr;
      float* dx = wanted ? float_target(plan.y, out, first, room + 2 * width) : room + 2 * width;
      isa.layer_norm_grad(dy, x, scale, mean, inv_std, dx, dscale, dbias, plan.length);
      if (wanted) flush(isa, plan.y, dx, out, first, plan.length);
    }
  });
  write_sum(plan, sums, plan.dscale, out_buffer(arguments, 1));
  write_sum(plan, sums + width, plan.dbias, out_buffer(arguments, 2));
}

}  // namespace

Prepared prepare_layer_norm(const KernelRequest& request, const Isa& isa) {
  MEZZO_RETURN_IF_ERROR(expect_packed_floats(request));
  Plan plan;
  plan.isa = &isa;
  plan.threads = std::max(request.threads, 1);
  MEZZO_RETURN_IF_ERROR(read_shape(request, plan));
  MEZZO_RETURN_IF_ERROR(expect_whole(request, plan));
  plan.epsilon = static_cast<float>(request.attributes.get_float("epsilon", 1e-5));
  plan.x = request.inputs[0].dtype;
  plan.scale = request.inputs[1].dtype;
  plan.bias = in_desc(request, 2).dtype;
  plan.y = request.outputs[0].dtype;
  plan.mean = out_desc(request, 1).dtype;
  plan.inv_std = out_desc(request, 2).dtype;
  const Int room = (2 + plan.threads) * plan.row_floats();
  return make_kernel(isa, static_cast<std::size_t>(room) * sizeof(float),
                     [plan](const KernelArguments& arguments) { run_forward(plan, arguments); });
}

Prepared prepare_layer_norm_grad(const KernelRequest& request, const Isa& isa) {
  MEZZO_RETURN_IF_ERROR(expect_packed_floats(request));
  Plan plan;
  plan.isa = &isa;
  plan.threads = std::max(request.threads, 1);
  MEZZO_RETURN_IF_ERROR(read_shape(request, plan));
  plan.dy = request.inputs[0].dtype;
  plan.x = request.inputs[1].dtype;
  plan.scale = request.inputs[2].dtype;
  plan.mean = request.inputs[3].dtype;
  plan.inv_std = request.inputs[4].dtype;
  plan.y = out_desc(request, 0).dtype;
  plan.dscale = out_desc(request, 1).dtype;
  plan.dbias = out_desc(request, 2).dtype;
  const Int room = (1 + 2 * plan.chunks() + 3 * plan.threads) * plan.row_floats();
  return make_kernel(isa, static_cast<std::size_t>(room) * sizeof(float),
                     [plan](const KernelArguments& arguments) { run_backward(plan, arguments); });
}

}  // namespace mezzo::kernels::cpu
