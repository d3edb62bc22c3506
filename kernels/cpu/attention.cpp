// ScaledDotProductAttention and its gradient, a block of queries at a time: the products are those
// of the kernel table (oneDNN), over one block of queries and the keys that it may see, so that of
// scores there are never more than a block per thread. Letters: kernels/attention_shape.h.
//
// Operands whose tokens lie apart (attribute tokens_first) are brought together, a block of queries
// or the keys of a group at a time.
//
//   s = scale q k^T + bias      p = softmax(s)      y = p v      lse = max s - log max p
//   dv += p^T dy    ds = p (dy v^T - sum of p dy v^T)    dq = scale ds k    dk += scale ds^T q
//
// Statistics and scores are float32; p and ds are rounded to the operands' dtype as operands of
// products. The gradient takes the softmax again rather than lse: the same numbers, without a
// logarithm between. Blocks are added up in the order of heads and queries, whatever the threads.
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "kernels/cpu/attention_plan.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr std::size_t kLine = 64;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Floats that bytes take, rounded up to whole cache lines.
Int line_floats(std::size_t bytes) {
  return static_cast<Int>((bytes + kLine - 1) / kLine * (kLine / sizeof(float)));
}

// What one thread works with; one thread at a time runs a kernel, so each has its own.
using ThreadKernels = std::map<std::pair<Int, Int>, BlockKernels>;

class Attention {
 public:
  static StatusOr<Attention> make(const AttentionPlan& plan) {
    Attention attention;
    attention.plan_ = plan;
    for (int thread = 0; thread < plan.threads; ++thread) {
      ThreadKernels& kernels = attention.kernels_.emplace_back();
      for (Int block = 0; block < plan.blocks(); ++block) {
        const std::pair sizes(plan.rows(block), plan.keys(block));
        if (sizes.second == 0 || kernels.count(sizes) > 0) continue;
        MEZZO_ASSIGN_OR_RETURN(kernels[sizes], prepare_block(plan, sizes.first, sizes.second));
        attention.product_floats_ =
            std::max(attention.product_floats_, line_floats(kernels[sizes].workspace_bytes()));
      }
    }
    return attention;
  }

  std::size_t workspace_bytes() const {
    return static_cast<std::size_t>(thread_floats() * plan_.threads) * sizeof(float);
  }

  Status run(const KernelArguments& arguments) const {
    const AttentionShape& shape = plan_.shape;
    std::vector<Status> faults(static_cast<std::size_t>(plan_.threads), ok_status());
    const Int units = shape.batch * (plan_.grad ? shape.groups : shape.heads * plan_.blocks());
    parallel_units(units, plan_.threads, [&](Int unit, int thread) {
      Status& fault = faults[static_cast<std::size_t>(thread)];
      if (!fault.ok()) return;
      Room room(*this, arguments, thread);
      fault = plan_.grad ? run_group(arguments, unit, room)
                         : run_block(arguments, unit / plan_.blocks(), unit % plan_.blocks(), room);
    });
    for (const Status& fault : faults) MEZZO_RETURN_IF_ERROR(fault);
    return ok_status();
  }

 private:
  Int score_floats() const { return padded_floats(kQueries * plan_.shape.keys); }
  Int low_floats() const {
    return plan_.dtype == DType::kFloat32 ? 0 : padded_floats(score_floats() / 2);
  }
  Int k_floats() const { return padded_floats(plan_.shape.keys * plan_.shape.size); }
  Int v_floats() const { return padded_floats(plan_.shape.keys * plan_.shape.v_size); }
  // `rows` of `width` elements of operands, where they have to be brought together.
  Int dense_floats(Int rows, Int width) const {
    return padded_floats(ceil_div(rows * width * elem_bytes(plan_.dtype), Int{sizeof(float)}));
  }
  Int gathered_floats() const {
    const AttentionShape& shape = plan_.shape;
    return dense_floats(kQueries, shape.size) + 2 * dense_floats(kQueries, shape.v_size) +
           dense_floats(kQueries, shape.size) + dense_floats(shape.keys, shape.size) +
           dense_floats(shape.keys, shape.v_size);
  }
  Int thread_floats() const {
    const Int backward = score_floats() + 2 * (k_floats() + v_floats());
    return score_floats() + low_floats() + padded_floats(plan_.shape.keys) + product_floats_ +
           gathered_floats() + (plan_.grad ? backward : 0);
  }

  // The parts of a thread's workspace.
  struct Room {
    Room(const Attention& attention, const KernelArguments& arguments, int thread)
        : kernels(&attention.kernels_[static_cast<std::size_t>(thread)]) {
      const AttentionShape& shape = attention.plan_.shape;
      float* next = thread_part(arguments.workspace, thread, attention.thread_floats());
      const auto take = [&](Int floats) {
        float* part = next;
        next += floats;
        return part;
      };
      scores = take(attention.score_floats());
      low = take(attention.low_floats());
      bias = take(padded_floats(shape.keys));
      product = take(attention.product_floats_);
      q = take(attention.dense_floats(kQueries, shape.size));
      dq = take(attention.dense_floats(kQueries, shape.size));
      dy = take(attention.dense_floats(kQueries, shape.v_size));
      y = take(attention.dense_floats(kQueries, shape.v_size));
      k = take(attention.dense_floats(shape.keys, shape.size));
      v = take(attention.dense_floats(shape.keys, shape.v_size));
      if (!attention.plan_.grad) return;
      dp = take(attention.score_floats());
      dk = take(attention.k_floats());
      dv = take(attention.v_floats());
      part = take(attention.k_floats() + attention.v_floats());
    }
    const ThreadKernels* kernels;
    float *scores, *low, *bias, *product;
    float *q, *dq, *dy, *y, *k, *v;
    float *dp = nullptr, *dk = nullptr, *dv = nullptr, *part = nullptr;
  };

  static Status multiply(Kernel& kernel, const void* a, const void* b, void* c, Room& room) {
    const void* inputs[] = {a, b};
    void* outputs[] = {c};
    return kernel.run({inputs, outputs, room.product});
  }

  // Rows of `width` elements, `step` apart from element `first` on: where they lie if they follow
  // each other, else together in `room`.
  const void* gathered(const void* data, Int first, Int step, Int rows, Int width,
                       float* room) const {
    if (step == width) return at(data, first, plan_.dtype);
    const auto bytes = static_cast<std::size_t>(width * elem_bytes(plan_.dtype));
    for (Int i = 0; i < rows; ++i) {
      std::memcpy(reinterpret_cast<char*>(room) + static_cast<std::size_t>(i) * bytes,
                  at(data, first + i * step, plan_.dtype), bytes);
    }
    return room;
  }
  // Where a product is to write such rows ...
  void* target(void* data, Int first, Int step, Int width, float* room) const {
    return step == width ? static_cast<void*>(at(data, first, plan_.dtype)) : room;
  }
  // ... and what follows.
  void scatter(const float* room, Int rows, Int width, void* data, Int first, Int step) const {
    if (step == width) return;
    const auto bytes = static_cast<std::size_t>(width * elem_bytes(plan_.dtype));
    for (Int i = 0; i < rows; ++i) {
      std::memcpy(at(data, first + i * step, plan_.dtype),
                  reinterpret_cast<const char*>(room) + static_cast<std::size_t>(i) * bytes, bytes);
    }
  }

  // Rows of scores [rows][keys] as operands of a product.
  const void* rounded(const float* scores, Int elems, Room& room) const {
    if (plan_.dtype == DType::kFloat32) return scores;
    plan_.isa->pack(plan_.dtype, scores, room.low, elems);
    return room.low;
  }

  // The scores of query t become probabilities, 0 for keys that it does not see. Returns its lse.
  float normalize(const KernelArguments& arguments, Int b, Int head, Int t, Int keys, float* scores,
                  Room& room) const {
    const AttentionShape& shape = plan_.shape;
    const Int seen = shape.seen(t);
    if (shape.has_bias) add_bias(arguments, shape.bias_offset(b, head, t), seen, scores, room);
    std::fill(scores + seen, scores + keys, 0.0F);
    const float most =
        seen == 0 ? kMinusInfinity : plan_.isa->reduce_run(ReduceOp::kMax, scores, seen);
    if (most == kMinusInfinity) {
      std::fill(scores, scores + seen, 0.0F);
      return most;
    }
    plan_.isa->softmax(scores, scores, seen, 1, /*log=*/false);
    return most - std::log(plan_.isa->reduce_run(ReduceOp::kMax, scores, seen));
  }

  void add_bias(const KernelArguments& arguments, Int offset, Int seen, float* scores,
                Room& room) const {
    const void* bias = arguments.inputs[plan_.grad ? std::size_t{attention::kBias} : 3];
    if (plan_.shape.bias_strides[3] == 0) {
      float value = 0.0F;
      plan_.isa->unpack(plan_.bias, at(bias, offset, plan_.bias), &value, 1);
      for (Int s = 0; s < seen; ++s) scores[s] += value;
      return;
    }
    const float* row = floats(*plan_.isa, plan_.bias, bias, offset, seen, room.bias);
    const float* sides[] = {scores, row};
    plan_.isa->elementwise(ElementwiseOp::kAdd)(sides, scores, seen, nullptr);
  }

  Status run_block(const KernelArguments& arguments, Int place, Int block, Room& room) const {
    const AttentionShape& shape = plan_.shape;
    const Int b = place / shape.heads, head = place % shape.heads, group = shape.group_of(head);
    const Int rows = plan_.rows(block), keys = plan_.keys(block), first = block * kQueries;
    const Int query = place * shape.queries + first;  // of lse
    const Int result = shape.y.at(b, head, first);
    if (keys == 0) {
      for (Int i = 0; i < rows; ++i) {
        clear(arguments.outputs[0], result + i * shape.y.row, shape.v_size);
        write_lse(arguments, query + i, kMinusInfinity);
      }
      return ok_status();
    }
    const BlockKernels& kernels = room.kernels->at({rows, keys});
    const void* q = gathered(arguments.inputs[0], shape.q.at(b, head, first), shape.q.row, rows,
                             shape.size, room.q);
    const void* k = gathered(arguments.inputs[1], shape.k.at(b, group, 0), shape.k.row, keys,
                             shape.size, room.k);
    MEZZO_RETURN_IF_ERROR(multiply(*kernels.scores, q, k, room.scores, room));
    for (Int i = 0; i < rows; ++i) {
      const float lse =
          normalize(arguments, b, head, first + i, keys, room.scores + i * keys, room);
      write_lse(arguments, query + i, lse);
    }
    const void* v = gathered(arguments.inputs[2], shape.v.at(b, group, 0), shape.v.row, keys,
                             shape.v_size, room.v);
    void* y = target(arguments.outputs[0], result, shape.y.row, shape.v_size, room.y);
    MEZZO_RETURN_IF_ERROR(
        multiply(*kernels.values, rounded(room.scores, rows * keys, room), v, y, room));
    scatter(room.y, rows, shape.v_size, arguments.outputs[0], result, shape.y.row);
    return ok_status();
  }

  void clear(void* data, Int first, Int elems) const {
    std::memset(at(data, first, plan_.dtype), 0,
                static_cast<std::size_t>(elems * elem_bytes(plan_.dtype)));
  }

  void write_lse(const KernelArguments& arguments, Int place, float lse) const {
    if (void* buffer = out_buffer(arguments, 1))
      plan_.isa->pack(plan_.lse, &lse, at(buffer, place, plan_.lse), 1);
  }

  // All heads of queries that share these keys.
  Status run_group(const KernelArguments& arguments, Int place, Room& room) const {
    const AttentionShape& shape = plan_.shape;
    const Int b = place / shape.groups, group = place % shape.groups;
    const Int shared = shape.heads / shape.groups;
    std::fill_n(room.dk, shape.keys * shape.size, 0.0F);
    std::fill_n(room.dv, shape.keys * shape.v_size, 0.0F);
    const Int key = shape.k.at(b, group, 0), value = shape.v.at(b, group, 0);
    const void* k =
        gathered(arguments.inputs[attention::kK], key, shape.k.row, shape.keys, shape.size, room.k);
    const void* v = gathered(arguments.inputs[attention::kV], value, shape.v.row, shape.keys,
                             shape.v_size, room.v);
    for (Int head = group * shared; head < (group + 1) * shared; ++head) {
      for (Int block = 0; block < plan_.blocks(); ++block) {
        MEZZO_RETURN_IF_ERROR(run_block_grad(arguments, b, head, block, k, v, room));
      }
    }
    write_rows(room.dk, shape.keys, shape.size, arguments.outputs[1], key, shape.k.row);
    write_rows(room.dv, shape.keys, shape.v_size, arguments.outputs[2], value, shape.v.row);
    return ok_status();
  }

  void write_rows(const float* values, Int rows, Int width, void* data, Int first, Int step) const {
    if (step == width) {
      plan_.isa->pack(plan_.dtype, values, at(data, first, plan_.dtype), rows * width);
      return;
    }
    for (Int i = 0; i < rows; ++i)
      plan_.isa->pack(plan_.dtype, values + i * width, at(data, first + i * step, plan_.dtype),
                      width);
  }

  Status run_block_grad(const KernelArguments& arguments, Int b, Int head, Int block, const void* k,
                        const void* v, Room& room) const {
    const AttentionShape& shape = plan_.shape;
    const Int rows = plan_.rows(block), keys = plan_.keys(block), first = block * kQueries;
    const Int query = shape.q.at(b, head, first);
    if (keys == 0) {
      for (Int i = 0; i < rows; ++i)
        clear(arguments.outputs[0], query + i * shape.q.row, shape.size);
      return ok_status();
    }
    const BlockKernels& kernels = room.kernels->at({rows, keys});
    const void* q =
        gathered(arguments.inputs[attention::kQ], query, shape.q.row, rows, shape.size, room.q);
    const void* dy = gathered(arguments.inputs[attention::kDy], shape.y.at(b, head, first),
                              shape.y.row, rows, shape.v_size, room.dy);
    void* dq = target(arguments.outputs[0], query, shape.q.row, shape.size, room.dq);
    MEZZO_RETURN_IF_ERROR(multiply(*kernels.scores, q, k, room.scores, room));
    MEZZO_RETURN_IF_ERROR(multiply(*kernels.dp, dy, v, room.dp, room));
    for (Int i = 0; i < rows; ++i)
      normalize(arguments, b, head, first + i, keys, room.scores + i * keys, room);
    const void* p = rounded(room.scores, rows * keys, room);
    MEZZO_RETURN_IF_ERROR(multiply(*kernels.dv, p, dy, room.part, room));
    add(room.part, keys * shape.v_size, room.dv);
    for (Int i = 0; i < rows; ++i) {
      const Int seen = shape.seen(first + i);
      float* line = room.dp + i * keys;
      if (seen > 0) plan_.isa->softmax_grad(line, room.scores + i * keys, seen, 1, /*log=*/false);
      std::fill(line + seen, line + keys, 0.0F);
    }
    const void* ds = rounded(room.dp, rows * keys, room);
    MEZZO_RETURN_IF_ERROR(multiply(*kernels.dq, ds, k, dq, room));
    scatter(room.dq, rows, shape.size, arguments.outputs[0], query, shape.q.row);
    MEZZO_RETURN_IF_ERROR(multiply(*kernels.dk, ds, q, room.part, room));
    add(room.part, keys * shape.size, room.dk);
    return ok_status();
  }

  void add(const float* part, Int n, float* sum) const {
    const float* sides[] = {sum, part};
    plan_.isa->elementwise(ElementwiseOp::kAdd)(sides, sum, n, nullptr);
  }

  AttentionPlan plan_;
  std::vector<ThreadKernels> kernels_;
  Int product_floats_ = 0;
};

}  // namespace

Prepared prepare_attention(const KernelRequest& request, const Isa& isa) {
  AttentionPlan plan;
  plan.isa = &isa;
  plan.grad = request.op.ends_with("Grad");
  plan.shape = attention_shape(request);
  const std::size_t bias = plan.grad ? std::size_t{attention::kBias} : 3;
  plan.dtype = request.inputs[0].dtype;
  plan.bias = in_desc(request, bias).dtype;
  plan.lse = plan.grad ? DType::kNone : out_desc(request, 1).dtype;
  MEZZO_RETURN_IF_ERROR(expect_packed_floats(request));
  for (const auto* side : {&request.inputs, &request.outputs}) {
    for (std::size_t i = 0; i < side->size(); ++i) {
      const TensorDesc& desc = (*side)[i];
      if (!desc.present()) continue;
      if (desc.layout != Layout::kRowMajor) return unimplemented("channels-last operands");
      if (desc.elems() == 0) return unimplemented("empty operands");
      const bool apart = desc.dims.size() == 3 || (side == &request.inputs && i == bias);
      if (!apart && desc.dtype != plan.dtype) return unimplemented("operands of different dtypes");
    }
  }
  const Int units =
      plan.shape.batch * (plan.grad ? plan.shape.groups : plan.shape.heads * plan.blocks());
  const Int work = plan.shape.batch * plan.shape.heads * plan.shape.queries;
  plan.threads = static_cast<int>(std::min<Int>(
      threads_for(work * (plan.shape.size + plan.shape.keys), request.threads), units));
  MEZZO_ASSIGN_OR_RETURN(Attention attention, Attention::make(plan));
  const std::size_t bytes = attention.workspace_bytes();
  return make_kernel(isa, bytes,
                     [attention = std::move(attention)](const KernelArguments& arguments) {
                       return attention.run(arguments);
                     });
}

}  // namespace mezzo::kernels::cpu
