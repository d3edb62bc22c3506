// ScaledDotProductAttention and its gradient, query by query in double. Letters:
// kernels/attention_shape.h.
//
//   s = scale q k^T + bias            p = exp(s - lse), lse = log sum exp s       y = p v
//   dv = p^T dy     ds = p (dy v^T - dy y)     dq = scale ds k     dk = scale ds^T q
#include "kernels/attention_shape.h"

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
namespace {

using Int = std::int64_t;

// [B, heads, tokens, size] as an operand of this bit lies.
Dims lying(Int tokens_first, Int bit, Dims dims) {
  if ((tokens_first & bit) != 0) std::swap(dims[1], dims[2]);
  return dims;
}

// Checks what attention_shape() relies on. `first`: place of q.
Status check_attention(const Operands& operands, std::size_t first) {
  for (std::size_t i = first; i < first + 3; ++i) {
    MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(i, 4, 4));
  }
  const Int bits = operands.attributes().get_int("tokens_first", 0);
  if (bits < 0 || bits > 15) {
    return operands.error("attribute 'tokens_first' is " + std::to_string(bits) +
                          ", expected 4 bits");
  }
  const auto q = heads_first(operands.in(first), bits, attention::kQueriesSo);
  const auto k = heads_first(operands.in(first + 1), bits, attention::kKeysSo);
  const auto v = heads_first(operands.in(first + 2), bits, attention::kValuesSo);
  MEZZO_RETURN_IF_ERROR(
      operands.expect_in(first + 1, lying(bits, attention::kKeysSo, {q[0], k[1], k[2], q[3]})));
  MEZZO_RETURN_IF_ERROR(
      operands.expect_in(first + 2, lying(bits, attention::kValuesSo, {q[0], k[1], k[2], v[3]})));
  if (k[1] < 1 ? q[1] != 0 : q[1] % k[1] != 0) {
    return operands.in_error(first + 1, "expected heads that the " + std::to_string(q[1]) +
                                            " of the queries are a multiple of, got " +
                                            std::to_string(k[1]));
  }
  if (operands.in(first + 3).present() &&
      !broadcasts_to(operands.in(first + 3).dims, {q[0], q[1], q[2], k[2]})) {
    return operands.in_error(first + 3, "does not broadcast to the scores");
  }
  const double scale = operands.attributes().get_float("scale", 1.0);
  if (!std::isfinite(scale)) return operands.error("attribute 'scale' is not finite");
  return operands.flag("causal", false).status();
}

struct Attention {
  AttentionShape shape;
  std::vector<Elements> in, out;

  Int lse_place(Int b, Int h, Int t) const { return (b * shape.heads + h) * shape.queries + t; }

  // All operands as doubles in `room`; returns what is behind them.
  double* unpack(const KernelArguments& arguments, const double** data, double* room) const {
    for (std::size_t i = 0; i < in.size(); ++i) {
      data[i] = room;
      if (const void* buffer = in_buffer(arguments, i)) in[i].unpack(buffer, room);
      room += in[i].count();
    }
    return room;
  }

  Int operand_elems() const {
    Int elems = 0;
    for (const Elements& operand : in) elems += operand.count();
    return elems;
  }

  // s of a query for the keys that it sees.
  void scores(const double* q, const double* k, const double* bias, Int seen, double* s) const {
    for (Int j = 0; j < seen; ++j) {
      double sum = 0.0;
      for (Int d = 0; d < shape.size; ++d) sum += q[d] * k[j * shape.k.row + d];
      s[j] = shape.scale * sum;
      if (bias != nullptr) s[j] += bias[j * shape.bias_strides[3]];
    }
  }
};

struct AttentionForward : Attention {
  Int room_elems() const { return operand_elems() + shape.keys + shape.v_size; }

  void run(const KernelArguments& arguments) const {
    const double* data[4] = {};
    double* s = unpack(arguments, data, static_cast<double*>(arguments.workspace));
    for (Int b = 0; b < shape.batch; ++b) {
      for (Int h = 0; h < shape.heads; ++h) {
        for (Int t = 0; t < shape.queries; ++t) run_query(arguments, data, b, h, t, s);
      }
    }
  }

 private:
  void run_query(const KernelArguments& arguments, const double* const* data, Int b, Int h, Int t,
                 double* s) const {
    const Int seen = shape.seen(t), group = shape.group_of(h);
    scores(data[0] + shape.q.at(b, h, t), data[1] + shape.k.at(b, group, 0),
           shape.has_bias ? data[3] + shape.bias_offset(b, h, t) : nullptr, seen, s);
    double most = -std::numeric_limits<double>::infinity(), sum = 0.0;
    for (Int j = 0; j < seen; ++j) most = s[j] > most || std::isnan(s[j]) ? s[j] : most;
    double* row = s + shape.keys;
    std::fill_n(row, shape.v_size, 0.0);
    const bool hidden = most == -std::numeric_limits<double>::infinity();
    for (Int j = 0; j < seen && !hidden; ++j) {
      const double p = std::exp(s[j] - most);
      sum += p;
      const double* v = data[2] + shape.v.at(b, group, j);
      for (Int e = 0; e < shape.v_size; ++e) row[e] += p * v[e];
    }
    for (Int e = 0; e < shape.v_size; ++e) {
      out[0].write<double>(arguments.outputs[0], shape.y.at(b, h, t) + e,
                           hidden ? 0.0 : row[e] / sum);
    }
    if (void* lse = out_buffer(arguments, 1)) {
      out[1].write<double>(lse, lse_place(b, h, t), hidden ? most : most + std::log(sum));
    }
  }
};

struct AttentionBackward : Attention {
  // Beside the operands: sums of dq, dk and dv, and a row of scores.
  Int room_elems() const {
    return operand_elems() + in[attention::kQ].count() + in[attention::kK].count() +
           in[attention::kV].count() + shape.keys;
  }

  void run(const KernelArguments& arguments) const {
    const double* data[7] = {};
    double* room = unpack(arguments, data, static_cast<double*>(arguments.workspace));
    double* sums[3];
    for (std::size_t i = 0; i < 3; ++i) {
      sums[i] = room;
      std::fill_n(room, in[attention::kQ + i].count(), 0.0);
      room += in[attention::kQ + i].count();
    }
    for (Int b = 0; b < shape.batch; ++b) {
      for (Int h = 0; h < shape.heads; ++h) {
        for (Int t = 0; t < shape.queries; ++t) run_query(data, sums, b, h, t, room);
      }
    }
    for (std::size_t i = 0; i < 3; ++i) out[i].pack(sums[i], arguments.outputs[i]);
  }

 private:
  void run_query(const double* const* data, double* const* sums, Int b, Int h, Int t,
                 double* s) const {
    const Int seen = shape.seen(t), group = shape.group_of(h);
    const double lse = data[attention::kLse][lse_place(b, h, t)];
    if (lse == -std::numeric_limits<double>::infinity()) return;
    const double* q = data[attention::kQ] + shape.q.at(b, h, t);
    const double* k = data[attention::kK] + shape.k.at(b, group, 0);
    const double* dy = data[attention::kDy] + shape.y.at(b, h, t);
    const double* y = data[attention::kY] + shape.y.at(b, h, t);
    scores(q, k, shape.has_bias ? data[attention::kBias] + shape.bias_offset(b, h, t) : nullptr,
           seen, s);
    double mean = 0.0;
    for (Int e = 0; e < shape.v_size; ++e) mean += dy[e] * y[e];
    for (Int j = 0; j < seen; ++j) {
      const double p = std::exp(s[j] - lse);
      const double* v = data[attention::kV] + shape.v.at(b, group, j);
      double* dv = sums[2] + shape.v.at(b, group, j);
      double dp = 0.0;
      for (Int e = 0; e < shape.v_size; ++e) {
        dp += dy[e] * v[e];
        dv[e] += p * dy[e];
      }
      const double ds = shape.scale * p * (dp - mean);
      double* dq = sums[0] + shape.q.at(b, h, t);
      double* dk = sums[1] + shape.k.at(b, group, j);
      for (Int d = 0; d < shape.size; ++d) {
        dq[d] += ds * k[j * shape.k.row + d];
        dk[d] += ds * q[d];
      }
    }
  }
};

template <typename Layer>
PreparedKernel finish(const KernelRequest& request, const Operands& operands) {
  Layer layer;
  layer.shape = attention_shape(request);
  for (std::size_t i = 0; i < operands.in_count(); ++i) layer.in.emplace_back(operands.in(i));
  for (std::size_t i = 0; i < operands.out_count(); ++i) layer.out.emplace_back(operands.out(i));
  const std::size_t bytes = doubles_bytes(layer.room_elems());
  return make_kernel(
      [layer = std::move(layer)](const KernelArguments& arguments) { layer.run(arguments); },
      bytes);
}

}  // namespace

PreparedKernel prepare_attention(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "q:f k:f v:f bias?:f -> y:f lse?:f"));
  MEZZO_RETURN_IF_ERROR(check_attention(operands, 0));
  const Int bits = request.attributes.get_int("tokens_first", 0);
  const auto q = heads_first(operands.in(0), bits, attention::kQueriesSo);
  MEZZO_RETURN_IF_ERROR(operands.expect_out(
      0, lying(bits, attention::kResultSo, {q[0], q[1], q[2], operands.in(2).dims[3]})));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(1, {q[0], q[1], q[2]}));
  return finish<AttentionForward>(request, operands);
}

PreparedKernel prepare_attention_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(
      const Operands operands,
      Operands::check(request, "dy:f q:f k:f v:f bias?:f y:f lse:f -> dq:f dk:f dv:f"));
  MEZZO_RETURN_IF_ERROR(check_attention(operands, attention::kQ));
  const Int bits = request.attributes.get_int("tokens_first", 0);
  const auto q = heads_first(operands.in(attention::kQ), bits, attention::kQueriesSo);
  const Dims y =
      lying(bits, attention::kResultSo, {q[0], q[1], q[2], operands.in(attention::kV).dims[3]});
  MEZZO_RETURN_IF_ERROR(operands.expect_in(attention::kDy, y));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(attention::kY, y));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(attention::kLse, {q[0], q[1], q[2]}));
  for (std::size_t i = 0; i < 3; ++i) {
    MEZZO_RETURN_IF_ERROR(operands.expect_out(i, operands.in(attention::kQ + i).dims));
  }
  return finish<AttentionBackward>(request, operands);
}

}  // namespace mezzo::kernels::reference
