#include "kernels/onednn/statistics.h"

#include <cmath>

namespace mezzo::kernels::onednn {
namespace {

Operand as_vector(const Operand& operand, DType dtype, std::int64_t elems) {
  return {operand.buffer, dense_desc({elems}, dtype, Layout::kRowMajor)};
}

}  // namespace

MemoryDesc vector_desc(std::int64_t elems) {
  return dense_desc({elems}, DType::kFloat32, Layout::kRowMajor);
}

StatusOr<Operand> vector_input(SequenceBuilder& builder, const KernelRequest& request,
                               std::size_t i, std::int64_t elems) {
  const TensorDesc& desc = request.inputs[i];
  if (desc.elems() != elems) {
    return invalid_argument("operand " + std::to_string(i) + ": expected " + std::to_string(elems) +
                            " elements, got " + std::to_string(desc.elems()));
  }
  return builder.as(as_vector(builder.input(i), desc.dtype, elems), vector_desc(elems));
}

Operand vector_place(SequenceBuilder& builder, const KernelRequest& request, std::size_t i,
                     std::int64_t elems) {
  if (!wants(request, i)) return builder.temporary(vector_desc(elems));
  return builder.place_for(as_vector(builder.output(i), request.outputs[i].dtype, elems),
                           vector_desc(elems));
}

Status store_vector(SequenceBuilder& builder, const KernelRequest& request, const Operand& from,
                    std::size_t i, std::int64_t elems) {
  if (!wants(request, i)) return ok_status();
  if (request.outputs[i].elems() != elems) {
    return invalid_argument("result " + std::to_string(i) + ": expected " + std::to_string(elems) +
                            " elements, got " + std::to_string(request.outputs[i].elems()));
  }
  return builder.store(from, as_vector(builder.output(i), request.outputs[i].dtype, elems));
}

void add_inv_std(SequenceBuilder& builder, const Operand& variance, const Operand& inv_std,
                 std::int64_t elems, float epsilon) {
  builder.add({variance.buffer, inv_std.buffer}, [=](std::span<void* const> at) {
    const auto* from = static_cast<const float*>(at[0]);
    auto* to = static_cast<float*>(at[1]);
    for (std::int64_t i = 0; i < elems; ++i) to[i] = 1.0F / std::sqrt(from[i] + epsilon);
    return ok_status();
  });
}

void add_variance(SequenceBuilder& builder, const Operand& inv_std, const Operand& variance,
                  std::int64_t elems) {
  builder.add({inv_std.buffer, variance.buffer}, [=](std::span<void* const> at) {
    const auto* from = static_cast<const float*>(at[0]);
    auto* to = static_cast<float*>(at[1]);
    for (std::int64_t i = 0; i < elems; ++i) to[i] = 1.0F / (from[i] * from[i]);
    return ok_status();
  });
}

void add_running(SequenceBuilder& builder, const Operand& old, const Operand& batch,
                 const Operand& to, std::int64_t elems, float share, float batch_share) {
  builder.add({old.buffer, batch.buffer, to.buffer}, [=](std::span<void* const> at) {
    const auto* before = static_cast<const float*>(at[0]);
    const auto* now = static_cast<const float*>(at[1]);
    auto* after = static_cast<float*>(at[2]);
    for (std::int64_t i = 0; i < elems; ++i) {
      after[i] = before[i] * share + now[i] * batch_share;
    }
    return ok_status();
  });
}

bool wants(const KernelRequest& request, std::size_t i) {
  return i < request.outputs.size() && request.outputs[i].present();
}

}  // namespace mezzo::kernels::onednn
