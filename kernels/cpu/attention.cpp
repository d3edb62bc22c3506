// ScaledDotProductAttention and its gradient, a block of queries at a time: the products are those
// of the kernel table (oneDNN), over one block of queries and the keys that it may see, so that of
// scores there are never more than a block per thread. Letters: kernels/attention_shape.h.
//
//   s = scale q k^T + bias      p = softmax(s)      y = p v      lse = max s - log max p
//   dv += p^T dy    ds = p (dy v^T - sum of p dy v^T)    dq = scale ds k    dk += scale ds^T q
//
// Statistics and scores are float32; p and ds are rounded to the operands' dtype as operands of
// products. The gradient takes the softmax again rather than lse: the same numbers, without a
// logarithm between. Blocks are added up in the order of heads and queries, whatever the threads.
#include "kernels/attention_shape.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "kernels/cpu/common.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr Int kQueries = 64;  // of a block
constexpr Int kKeys = 64;     // blocks see a multiple of this
constexpr std::size_t kLine = 64;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// c = alpha a b, one or the other transposed; of rows x depth x columns.
struct ProductForm {
  Int rows = 0, depth = 0, columns = 0;
  bool trans_a = false, trans_b = false;
  double alpha = 1.0;
  DType a = DType::kFloat32, b = DType::kFloat32, c = DType::kFloat32;
};

StatusOr<std::unique_ptr<Kernel>> prepare_product(const ProductForm& form) {
  KernelRequest request;
  request.op = "MatMulT";
  request.attributes.set("trans_a", std::int64_t{form.trans_a});
  request.attributes.set("trans_b", std::int64_t{form.trans_b});
  request.attributes.set("alpha", form.alpha);
  const auto matrix = [](DType dtype, Int rows, Int columns, bool transposed) {
    return TensorDesc{dtype, transposed ? Dims{columns, rows} : Dims{rows, columns}};
  };
  request.inputs = {matrix(form.a, form.rows, form.depth, form.trans_a),
                    matrix(form.b, form.depth, form.columns, form.trans_b)};
  request.outputs = {matrix(form.c, form.rows, form.columns, false)};
  return prepare_kernel(request, Backend::kCpu);
}

// Floats that bytes take, rounded up to whole cache lines.
Int line_floats(std::size_t bytes) {
  return static_cast<Int>((bytes + kLine - 1) / kLine * (kLine / sizeof(float)));
}

struct Plan {
  const Isa* isa = nullptr;
  AttentionShape shape;
  DType dtype = DType::kFloat32;  // of all operands but the bias
  DType bias = DType::kNone;
  DType lse = DType::kNone;
  int threads = 1;
  bool grad = false;

  Int blocks() const { return ceil_div(shape.queries, kQueries); }
  Int rows(Int block) const { return std::min(kQueries, shape.queries - block * kQueries); }
  // Keys that any query of the block sees, rounded up.
  Int keys(Int block) const {
    const Int seen = shape.seen(block * kQueries + rows(block) - 1);
    return std::min(shape.keys, ceil_div(seen, kKeys) * kKeys);
  }
};

// The products of a block of so many queries and keys.
struct BlockKernels {
  std::unique_ptr<Kernel> scores, values;  // s, y
  std::unique_ptr<Kernel> dp, dq, dk, dv;

  std::size_t workspace_bytes() const {
    std::size_t bytes = 0;
    for (const Kernel* kernel :
         {scores.get(), values.get(), dp.get(), dq.get(), dk.get(), dv.get()}) {
      if (kernel != nullptr) bytes = std::max(bytes, kernel->workspace_bytes());
    }
    return bytes;
  }
};

StatusOr<BlockKernels> prepare_block(const Plan& plan, Int rows, Int keys) {
  const AttentionShape& shape = plan.shape;
  const DType t = plan.dtype;
  BlockKernels made;
  MEZZO_ASSIGN_OR_RETURN(made.scores, prepare_product({.rows = rows,
                                                       .depth = shape.size,
                                                       .columns = keys,
                                                       .trans_b = true,
                                                       .alpha = shape.scale,
                                                       .a = t,
                                                       .b = t}));
  if (!plan.grad) {
    MEZZO_ASSIGN_OR_RETURN(
        made.values,
        prepare_product(
            {.rows = rows, .depth = keys, .columns = shape.v_size, .a = t, .b = t, .c = t}));
    return made;
  }
  MEZZO_ASSIGN_OR_RETURN(
      made.dp,
      prepare_product(
          {.rows = rows, .depth = shape.v_size, .columns = keys, .trans_b = true, .a = t, .b = t}));
  MEZZO_ASSIGN_OR_RETURN(made.dq, prepare_product({.rows = rows,
                                                   .depth = keys,
                                                   .columns = shape.size,
                                                   .alpha = shape.scale,
                                                   .a = t,
                                                   .b = t,
                                                   .c = t}));
  MEZZO_ASSIGN_OR_RETURN(made.dk, prepare_product({.rows = keys,
                                                   .depth = rows,
                                                   .columns = shape.size,
                                                   .trans_a = true,
                                                   .alpha = shape.scale,
                                                   .a = t,
                                                   .b = t}));
  MEZZO_ASSIGN_OR_RETURN(
      made.dv,
      prepare_product(
          {.rows = keys, .depth = rows, .columns = shape.v_size, .trans_a = true, .a = t, .b = t}));
  return made;
}

// What one thread works with; one thread at a time runs a kernel, so each has its own.
using ThreadKernels = std::map<std::pair<Int, Int>, BlockKernels>;

class Attention {
 public:
  static StatusOr<Attention> make(const Plan& plan) {
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
  Int thread_floats() const {
    const Int backward = score_floats() + 2 * (k_floats() + v_floats());
    return score_floats() + low_floats() + padded_floats(plan_.shape.keys) + product_floats_ +
           (plan_.grad ? backward : 0);
  }

  // The parts of a thread's workspace.
  struct Room {
    Room(const Attention& attention, const KernelArguments& arguments, int thread)
        : kernels(&attention.kernels_[static_cast<std::size_t>(thread)]) {
      float* next = thread_part(arguments.workspace, thread, attention.thread_floats());
      const auto take = [&](Int floats) {
        float* part = next;
        next += floats;
        return part;
      };
      scores = take(attention.score_floats());
      low = take(attention.low_floats());
      bias = take(padded_floats(attention.plan_.shape.keys));
      product = take(attention.product_floats_);
      if (!attention.plan_.grad) return;
      dp = take(attention.score_floats());
      dk = take(attention.k_floats());
      dv = take(attention.v_floats());
      part = take(attention.k_floats() + attention.v_floats());
    }
    const ThreadKernels* kernels;
    float *scores, *low, *bias, *product;
    float *dp = nullptr, *dk = nullptr, *dv = nullptr, *part = nullptr;
  };

  static Status multiply(Kernel& kernel, const void* a, const void* b, void* c, Room& room) {
    const void* inputs[] = {a, b};
    void* outputs[] = {c};
    return kernel.run({inputs, outputs, room.product});
  }

  const void* operand(const KernelArguments& arguments, std::size_t i, Int first) const {
    return at(arguments.inputs[i], first, plan_.dtype);
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
    const Int b = place / shape.heads, head = place % shape.heads;
    const Int rows = plan_.rows(block), keys = plan_.keys(block), first = block * kQueries;
    const Int query = place * shape.queries + first;
    const Int key = (b * shape.groups + shape.group_of(head)) * shape.keys;
    void* y = at(arguments.outputs[0], query * shape.v_size, plan_.dtype);
    if (keys == 0) {
      std::memset(y, 0, static_cast<std::size_t>(rows * shape.v_size * elem_bytes(plan_.dtype)));
      for (Int i = 0; i < rows; ++i) write_lse(arguments, query + i, kMinusInfinity);
      return ok_status();
    }
    const BlockKernels& kernels = room.kernels->at({rows, keys});
    MEZZO_RETURN_IF_ERROR(multiply(*kernels.scores, operand(arguments, 0, query * shape.size),
                                   operand(arguments, 1, key * shape.size), room.scores, room));
    for (Int i = 0; i < rows; ++i) {
      const float lse =
          normalize(arguments, b, head, first + i, keys, room.scores + i * keys, room);
      write_lse(arguments, query + i, lse);
    }
    return multiply(*kernels.values, rounded(room.scores, rows * keys, room),
                    operand(arguments, 2, key * shape.v_size), y, room);
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
    for (Int head = group * shared; head < (group + 1) * shared; ++head) {
      for (Int block = 0; block < plan_.blocks(); ++block) {
        MEZZO_RETURN_IF_ERROR(run_block_grad(arguments, b, head, block, room));
      }
    }
    const Int key = place * shape.keys;
    plan_.isa->pack(plan_.dtype, room.dk, at(arguments.outputs[1], key * shape.size, plan_.dtype),
                    shape.keys * shape.size);
    plan_.isa->pack(plan_.dtype, room.dv, at(arguments.outputs[2], key * shape.v_size, plan_.dtype),
                    shape.keys * shape.v_size);
    return ok_status();
  }

  Status run_block_grad(const KernelArguments& arguments, Int b, Int head, Int block,
                        Room& room) const {
    const AttentionShape& shape = plan_.shape;
    const Int rows = plan_.rows(block), keys = plan_.keys(block), first = block * kQueries;
    const Int query = (b * shape.heads + head) * shape.queries + first;
    const Int key = (b * shape.groups + shape.group_of(head)) * shape.keys;
    void* dq = at(arguments.outputs[0], query * shape.size, plan_.dtype);
    if (keys == 0) {
      std::memset(dq, 0, static_cast<std::size_t>(rows * shape.size * elem_bytes(plan_.dtype)));
      return ok_status();
    }
    const BlockKernels& kernels = room.kernels->at({rows, keys});
    const void* q = operand(arguments, attention::kQ, query * shape.size);
    const void* k = operand(arguments, attention::kK, key * shape.size);
    const void* v = operand(arguments, attention::kV, key * shape.v_size);
    const void* dy = operand(arguments, attention::kDy, query * shape.v_size);
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
    MEZZO_RETURN_IF_ERROR(multiply(*kernels.dk, ds, q, room.part, room));
    add(room.part, keys * shape.size, room.dk);
    return ok_status();
  }

  void add(const float* part, Int n, float* sum) const {
    const float* sides[] = {sum, part};
    plan_.isa->elementwise(ElementwiseOp::kAdd)(sides, sum, n, nullptr);
  }

  Plan plan_;
  std::vector<ThreadKernels> kernels_;
  Int product_floats_ = 0;
};

}  // namespace

Prepared prepare_attention(const KernelRequest& request, const Isa& isa) {
  Plan plan;
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
