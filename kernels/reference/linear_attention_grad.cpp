// The gradient of LinearAttention: states are computed again and kept for all steps of a head, then
// gone through from the last to the first. Letters and forward formulas: linear_attention.cpp. With
// D = exp(g) S of the step before, c = v or beta (v - D^T k), S = D + k (outer) c:
//
//   dq = scale S dy;  dS += scale q (outer) dy
//   dk = dS c, dc = dS^T k;  with beta: e = v - D^T k, dbeta = dc e, dv = beta dc,
//                                       dk -= D dv, dS -= k (outer) dv;  else dv = dc
//   dg = sum over V of exp(g) S_before dS;  dS of the step before = exp(g) dS
//
// Everything is double; results are rounded once.
#include <algorithm>
#include <cmath>

#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/linear_attention.h"

namespace mezzo::kernels::reference {

using namespace linear_attention;

namespace {

using Int = std::int64_t;

// Operands of the gradient: dy, dpresent, then the forward ones; results by forward operand.
constexpr std::size_t kForward = 2;

struct LinearAttentionGrad : LinearAttentionShape {
  std::vector<Elements> in, out;
  std::vector<bool> there;  // operands

  Int state_elems() const { return k_size * v_size; }
  // Operands and results as doubles, the states of a head, its gradient, D, and two rows.
  Int room_elems() const {
    Int elems = (steps + 3) * state_elems() + 2 * v_size;
    for (std::size_t i = 0; i < in.size(); ++i) elems += there[i] ? in[i].count() : 0;
    for (std::size_t i = 0; i < kOperands; ++i) elems += in[kForward + i].count();
    return elems;
  }

  void run(const KernelArguments& arguments) const {
    auto* room = static_cast<double*>(arguments.workspace);
    const double* data[kForward + kOperands] = {};
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (!there[i]) continue;
      in[i].unpack(in_buffer(arguments, i), room);
      data[i] = room;
      room += in[i].count();
    }
    double* grads[kOperands] = {};
    for (std::size_t i = 0; i < kOperands; ++i) {
      if (!there[kForward + i]) continue;
      grads[i] = room;
      std::fill_n(room, in[kForward + i].count(), 0.0);
      room += in[kForward + i].count();
    }
    for (Int b = 0; b < batch; ++b) {
      for (Int head = 0; head < heads; ++head) {
        Head at{*this, data, data + kForward, grads, b, head, room};
        at.replay();
        at.go_back();
      }
    }
    for (std::size_t i = 0; i < kOperands; ++i) {
      void* to = out_buffer(arguments, i);
      if (to != nullptr) out[i].pack(grads[i], to);
    }
  }

 private:
  struct Head {
    const LinearAttentionGrad& layer;
    const double* const* upstream;  // dy, dpresent
    const double* const* in;        // forward operands
    double* const* grads;
    Int b, head;
    double* states;  // [T + 1, K, V], before step t

    Int elems() const { return layer.state_elems(); }
    double* dstate() const { return states + (layer.steps + 1) * elems(); }
    double* decayed() const { return dstate() + elems(); }
    double* correction() const { return decayed() + elems(); }
    double* dcorrection() const { return correction() + layer.v_size; }
    Int step(Int t) const { return b * layer.steps + t; }
    Int place(Int t) const { return step(t) * layer.heads + head; }
    Int beta_place(Int t) const {
      return step(t) * layer.beta_heads + (layer.beta_heads == 1 ? 0 : head);
    }
    double factor(Int t, Int i) const {
      if (layer.decay_size == 0) return 1.0;
      return std::exp(in[kDecay][place(t) * layer.decay_size + (layer.decay_size == 1 ? 0 : i)]);
    }

    // D of step t, and c before beta.
    void prepare(Int t) const {
      const Int n = layer.v_size;
      const double* before = states + t * elems();
      const double* k = in[kK] + place(t) * layer.k_size;
      std::copy_n(in[kV] + place(t) * n, n, correction());
      for (Int i = 0; i < layer.k_size; ++i) {
        const double keep = factor(t, i);
        for (Int j = 0; j < n; ++j) {
          decayed()[i * n + j] = keep * before[i * n + j];
          if (layer.beta_heads > 0) correction()[j] -= k[i] * decayed()[i * n + j];
        }
      }
    }
    double rate(Int t) const { return layer.beta_heads > 0 ? in[kBeta][beta_place(t)] : 1.0; }

    void replay() const {
      const Int first = (b * layer.heads + head) * elems();
      for (Int e = 0; e < elems(); ++e) states[e] = in[kPast] ? in[kPast][first + e] : 0.0;
      for (Int t = 0; t < layer.steps; ++t) {
        prepare(t);
        const double* k = in[kK] + place(t) * layer.k_size;
        double* after = states + (t + 1) * elems();
        for (Int e = 0; e < elems(); ++e) {
          after[e] = decayed()[e] + k[e / layer.v_size] * rate(t) * correction()[e % layer.v_size];
        }
      }
    }

    void go_back() const {
      const Int first = (b * layer.heads + head) * elems();
      for (Int e = 0; e < elems(); ++e) dstate()[e] = upstream[1] ? upstream[1][first + e] : 0.0;
      for (Int t = layer.steps - 1; t >= 0; --t) {
        read_back(t);
        update_back(t);
      }
      if (grads[kPast] != nullptr) std::copy_n(dstate(), elems(), grads[kPast] + first);
    }

    // Through y = scale S^T q of all queries of this head.
    void read_back(Int t) const {
      if (upstream[0] == nullptr) return;
      const Int n = layer.v_size, group = layer.q_heads / layer.heads;
      const double* after = states + (t + 1) * elems();
      for (Int g = 0; g < group; ++g) {
        const Int query = step(t) * layer.q_heads + head * group + g;
        const double* q = in[kQ] + query * layer.k_size;
        const double* dy = upstream[0] + query * n;
        double* dq = grads[kQ] + query * layer.k_size;
        for (Int i = 0; i < layer.k_size; ++i) {
          for (Int j = 0; j < n; ++j) {
            dq[i] += layer.scale * after[i * n + j] * dy[j];
            dstate()[i * n + j] += layer.scale * q[i] * dy[j];
          }
        }
      }
    }

    // Through S = D + k (outer) c, then through c and D.
    void update_back(Int t) const {
      const Int n = layer.v_size;
      prepare(t);
      const double* k = in[kK] + place(t) * layer.k_size;
      double* dk = grads[kK] + place(t) * layer.k_size;
      double* dv = grads[kV] + place(t) * n;
      std::fill_n(dcorrection(), n, 0.0);
      for (Int i = 0; i < layer.k_size; ++i) {
        for (Int j = 0; j < n; ++j) {
          dk[i] += dstate()[i * n + j] * rate(t) * correction()[j];
          dcorrection()[j] += k[i] * dstate()[i * n + j];
        }
      }
      for (Int j = 0; j < n; ++j) dv[j] += rate(t) * dcorrection()[j];
      if (layer.beta_heads > 0) {
        double& dbeta = grads[kBeta][beta_place(t)];
        for (Int j = 0; j < n; ++j) dbeta += dcorrection()[j] * correction()[j];
        for (Int i = 0; i < layer.k_size; ++i) {
          for (Int j = 0; j < n; ++j) {
            const double back = rate(t) * dcorrection()[j];
            dk[i] -= decayed()[i * n + j] * back;
            dstate()[i * n + j] -= k[i] * back;
          }
        }
      }
      if (layer.decay_size == 0) return;
      for (Int i = 0; i < layer.k_size; ++i) {
        double& dg = grads[kDecay][place(t) * layer.decay_size + (layer.decay_size == 1 ? 0 : i)];
        for (Int j = 0; j < n; ++j) {
          dg += dstate()[i * n + j] * decayed()[i * n + j];
          dstate()[i * n + j] *= factor(t, i);
        }
      }
    }
  };
};

}  // namespace

PreparedKernel prepare_linear_attention_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(
      const Operands operands,
      Operands::check(request,
                      "dy?:f dpresent?:f q:f k:f v:f past?:f decay?:f beta?:f -> dq?:f dk?:f "
                      "dv?:f dpast?:f ddecay?:f dbeta?:f"));
  KernelRequest forward;
  forward.op = "LinearAttention";
  forward.attributes = request.attributes;
  forward.inputs.assign(request.inputs.begin() + kForward, request.inputs.end());
  TensorDesc y = operands.in(0);
  if (!y.present()) {  // only the state was used: any floating dtype will do
    const std::int64_t heads = std::max<Int>(1, request.attributes.get_int("kv_num_heads", 1));
    const Dims& q = operands.in(kForward + kQ).dims;
    const Dims& v = operands.in(kForward + kV).dims;
    if (q.size() != 3 || v.size() != 3) return operands.error("expected operands of rank 3");
    const Int width = v[2] / heads, q_heads = request.attributes.get_int("q_num_heads", 0);
    if (q_heads < 1 || q_heads > kMaxElems / std::max<Int>(width, 1)) {
      return operands.error("attribute 'q_num_heads' is " + std::to_string(q_heads));
    }
    y.dtype = DType::kFloat32;
    y.dims = {q[0], q[1], q_heads * width};
  }
  forward.outputs = {y, operands.in(1)};
  MEZZO_ASSIGN_OR_RETURN(
      const Operands forward_operands,
      Operands::check(forward, "q:f k:f v:f past?:f decay?:f beta?:f -> y:f present?:f"));
  LinearAttentionGrad layer;
  MEZZO_ASSIGN_OR_RETURN(static_cast<LinearAttentionShape&>(layer),
                         read_linear_attention(forward_operands));
  for (std::size_t i = 0; i < kForward + kOperands; ++i) {
    layer.in.emplace_back(operands.in(i));
    layer.there.push_back(operands.in(i).present());
  }
  for (std::size_t i = 0; i < kOperands; ++i) {
    layer.out.emplace_back(operands.out(i));
    if (!operands.out(i).present()) continue;
    if (!layer.there[kForward + i]) return operands.out_error(i, "there is no such operand");
    MEZZO_RETURN_IF_ERROR(operands.expect_out(i, operands.in(kForward + i).dims));
  }
  const std::size_t bytes = doubles_bytes(layer.room_elems());
  return make_kernel(
      [layer = std::move(layer)](const KernelArguments& arguments) { layer.run(arguments); },
      bytes);
}

}  // namespace mezzo::kernels::reference
