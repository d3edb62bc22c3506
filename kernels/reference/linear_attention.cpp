// LinearAttention: a state S [K, V] per head that every step decays, corrects and reads.
//
//   S <- exp(g) S                                   (gated, gated_delta)
//   S <- S + k (outer) v                            (linear, gated)
//   S <- S + beta k (outer) (v - S^T k)             (delta, gated_delta)
//   y = scale S^T q
//
// Letters: B batch, T time, Hq and Hk heads of the queries and of keys and values (Hq / Hk queries
// share a state), K and V sizes of their heads. q[B, T, Hq K], k[B, T, Hk K], v[B, T, Hk V],
// past?[B, Hk, K, V], decay?[B, T, Hk K or Hk], beta?[B, T, Hk or 1] -> y[B, T, Hq V],
// present?[B, Hk, K, V]. States and sums are double, results are rounded once.
#include "kernels/reference/linear_attention.h"

#include <cmath>

#include "compiler/support/text.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"

namespace mezzo::kernels::reference {

using namespace linear_attention;

namespace {

using Int = std::int64_t;

struct LinearAttention : LinearAttentionShape {
  std::vector<Elements> in;
  Elements y{TensorDesc{}}, present{TensorDesc{}};

  // Doubles of the workspace: all operands, a state, S^T k, and a row of y.
  Int room_elems() const {
    Int elems = k_size * v_size + 2 * v_size;
    for (const Elements& operand : in) elems += operand.count();
    return elems;
  }

  void run(const KernelArguments& arguments) const {
    double* room = static_cast<double*>(arguments.workspace);
    const double* data[kOperands] = {};
    for (std::size_t i = 0; i < kOperands; ++i) {
      const void* buffer = in_buffer(arguments, i);
      if (buffer == nullptr) continue;
      in[i].unpack(buffer, room);
      data[i] = room;
      room += in[i].count();
    }
    for (Int b = 0; b < batch; ++b) {
      for (Int head = 0; head < heads; ++head) run_head(arguments, data, b, head, room);
    }
  }

 private:
  void run_head(const KernelArguments& arguments, const double* const* data, Int b, Int head,
                double* state) const {
    const Int elems = k_size * v_size;
    const Int first = (b * heads + head) * elems;
    for (Int i = 0; i < elems; ++i)
      state[i] = data[kPast] != nullptr ? data[kPast][first + i] : 0.0;
    double* correction = state + elems;
    double* row = correction + v_size;
    for (Int t = 0; t < steps; ++t) {
      const Int step = b * steps + t;
      const double* k = data[kK] + (step * heads + head) * k_size;
      const double* v = data[kV] + (step * heads + head) * v_size;
      if (decay_size > 0) decay(data[kDecay] + (step * heads + head) * decay_size, state);
      for (Int j = 0; j < v_size; ++j) correction[j] = v[j];
      if (beta_heads > 0) {
        const double rate = data[kBeta][step * beta_heads + (beta_heads == 1 ? 0 : head)];
        for (Int i = 0; i < k_size; ++i) {
          for (Int j = 0; j < v_size; ++j) correction[j] -= k[i] * state[i * v_size + j];
        }
        for (Int j = 0; j < v_size; ++j) correction[j] *= rate;
      }
      for (Int i = 0; i < k_size; ++i) {
        for (Int j = 0; j < v_size; ++j) state[i * v_size + j] += k[i] * correction[j];
      }
      const Int group = q_heads / heads;
      for (Int g = 0; g < group; ++g) {
        read_state(arguments, data[kQ], step * q_heads + head * group + g, state, row);
      }
    }
    if (void* result = out_buffer(arguments, 1)) {
      for (Int i = 0; i < elems; ++i) present.write<double>(result, first + i, state[i]);
    }
  }

  void decay(const double* g, double* state) const {
    for (Int i = 0; i < k_size; ++i) {
      const double factor = std::exp(g[decay_size == 1 ? 0 : i]);
      for (Int j = 0; j < v_size; ++j) state[i * v_size + j] *= factor;
    }
  }

  // y of one query: number `place` of all heads and steps.
  void read_state(const KernelArguments& arguments, const double* queries, Int place,
                  const double* state, double* row) const {
    const double* q = queries + place * k_size;
    for (Int j = 0; j < v_size; ++j) row[j] = 0.0;
    for (Int i = 0; i < k_size; ++i) {
      for (Int j = 0; j < v_size; ++j) row[j] += q[i] * state[i * v_size + j];
    }
    for (Int j = 0; j < v_size; ++j) {
      y.write<double>(arguments.outputs[0], place * v_size + j, scale * row[j]);
    }
  }
};

// Which operands the update rule asks for.
Status check_rule(const Operands& operands) {
  const std::string rule = operands.attributes().get_string("update_rule", "gated_delta");
  const bool gates = rule == "gated" || rule == "gated_delta";
  const bool corrects = rule == "delta" || rule == "gated_delta";
  if (!gates && !corrects && rule != "linear") {
    return operands.error("attribute 'update_rule' is '" + rule +
                          "', expected linear, gated, delta or gated_delta");
  }
  if (gates != operands.in(kDecay).present() || corrects != operands.in(kBeta).present()) {
    return operands.error("update_rule '" + rule + "' takes " + (gates ? "decay" : "no decay") +
                          " and " + (corrects ? "beta" : "no beta"));
  }
  return ok_status();
}

}  // namespace

StatusOr<LinearAttentionShape> read_linear_attention(const Operands& operands) {
  for (std::size_t i = 0; i < kOperands; ++i) {
    const std::size_t rank = i == kPast ? 4 : 3;
    if (operands.in(i).present()) MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(i, rank, rank));
  }
  LinearAttentionShape layer;
  layer.q_heads = operands.attributes().get_int("q_num_heads", 0);
  layer.heads = operands.attributes().get_int("kv_num_heads", 0);
  const Dims& q = operands.in(kQ).dims;
  const Dims& v = operands.in(kV).dims;
  if (layer.heads < 1 || layer.q_heads < 1 || layer.q_heads % layer.heads != 0 ||
      q[2] % layer.q_heads != 0 || v[2] % layer.heads != 0) {
    return operands.error("attributes 'q_num_heads' and 'kv_num_heads' are " +
                          std::to_string(layer.q_heads) + " and " + std::to_string(layer.heads) +
                          " for queries " + format_dims(q) + " and values " + format_dims(v));
  }
  layer.batch = q[0];
  layer.steps = q[1];
  layer.k_size = q[2] / layer.q_heads;
  layer.v_size = v[2] / layer.heads;
  const Dims state = {layer.batch, layer.heads, layer.k_size, layer.v_size};
  MEZZO_RETURN_IF_ERROR(
      operands.expect_in(kK, {layer.batch, layer.steps, layer.heads * layer.k_size}));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(kV, {layer.batch, layer.steps, v[2]}));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(kPast, state));
  MEZZO_RETURN_IF_ERROR(
      operands.expect_out(0, {layer.batch, layer.steps, layer.q_heads * layer.v_size}));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(1, state));
  MEZZO_RETURN_IF_ERROR(check_rule(operands));
  if (operands.in(kDecay).present()) {
    const Int last = operands.in(kDecay).dims[2];
    layer.decay_size = last == layer.heads ? 1 : layer.k_size;
    MEZZO_RETURN_IF_ERROR(
        operands.expect_in(kDecay, {layer.batch, layer.steps, layer.heads * layer.decay_size}));
  }
  if (operands.in(kBeta).present()) {
    layer.beta_heads = operands.in(kBeta).dims[2] == 1 ? 1 : layer.heads;
    MEZZO_RETURN_IF_ERROR(operands.expect_in(kBeta, {layer.batch, layer.steps, layer.beta_heads}));
  }
  const double given = operands.attributes().get_float("scale", 0.0);
  layer.scale = given != 0.0 ? given : 1.0 / std::sqrt(static_cast<double>(layer.k_size));
  // The state's size is a product of two operands' dims, which may be large where a third is 0.
  if (static_cast<double>(layer.k_size) * static_cast<double>(layer.v_size) *
          static_cast<double>(layer.steps + 1) >
      static_cast<double>(kMaxElems)) {
    return unimplemented("a state of more elements than fit in memory");
  }
  return layer;
}

PreparedKernel prepare_linear_attention(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(
      const Operands operands,
      Operands::check(request, "q:f k:f v:f past?:f decay?:f beta?:f -> y:f present?:f"));
  LinearAttention layer;
  MEZZO_ASSIGN_OR_RETURN(static_cast<LinearAttentionShape&>(layer),
                         read_linear_attention(operands));
  for (std::size_t i = 0; i < kOperands; ++i) layer.in.emplace_back(operands.in(i));
  layer.y = Elements(operands.out(0));
  layer.present = Elements(operands.out(1));
  const std::size_t bytes = doubles_bytes(layer.room_elems());
  return make_kernel(
      [layer = std::move(layer)](const KernelArguments& arguments) { layer.run(arguments); },
      bytes);
}

}  // namespace mezzo::kernels::reference
