// Plans memory: gives every tensor of a plan an arena and an offset.
//
// 1. Tensors that share bytes (aliases) form one buffer.
// 2. A result takes over the buffer of an operand that dies in the same step, where the kernel
//    may run in place.
// 3. Inputs, parameters, states, constants and gradients live through all steps: laid end to end.
// 4. Activations are placed largest first at the lowest offset that is free throughout their life
//    (greedy by size; Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
//    Inference", 2020, section 5). The timeline is forward, backward, evaluate in a row.
//
// live_bytes is the largest sum of bytes that are alive together: no placement can need less.

#include "passes/memory/plan_memory.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <vector>

#include "compiler/support/dtype.h"
#include "kernels/kernel.h"

namespace mezzo::passes {
namespace {

constexpr std::uint64_t kAlignment = 64;  // a cache line, and the widest vector register

struct ArenaKind {
  const char* name;
  bool shared;  // buffers with disjoint lives may overlap
};
constexpr std::array<ArenaKind, 6> kArenas = {{{"activations", true},
                                               {"inputs", false},
                                               {"parameters", false},
                                               {"states", false},
                                               {"constants", false},
                                               {"gradients", false}}};

constexpr int kConstantArena = 4;  // of it, what is in the weights file is mapped, not placed

int arena_of(proto::Role role) {
  switch (role) {
    case proto::ROLE_INPUT: return 1;
    case proto::ROLE_MASTER: return 2;
    case proto::ROLE_LOW_COPY: return 2;
    case proto::ROLE_STATE: return 3;
    case proto::ROLE_CONSTANT: return 4;
    case proto::ROLE_GRADIENT: return 5;
    default: return 0;
  }
}

struct Buffer {
  std::uint64_t bytes = 0;
  int first = std::numeric_limits<int>::max();  // step that defines it
  int last = -1;                                // step that reads it last
  int arena = 0;
  std::uint64_t offset = 0;
};

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

class MemoryPlanner {
 public:
  MemoryPlanner(PlanDraft& draft, const MemoryOptions& options)
      : draft_(draft), plan_(draft.plan), options_(options) {}

  Status run() {
    join_aliases();
    measure_lives();
    if (options_.in_place) reuse_in_place();
    make_arenas();
    place_persistent();
    place_activations();
    write_back();
    return ok_status();
  }

 private:
  int root(int tensor) {
    while (parent_[tensor] != tensor) tensor = parent_[tensor] = parent_[parent_[tensor]];
    return tensor;
  }
  Buffer& buffer(int tensor) { return buffers_[root(tensor)]; }

  std::uint64_t tensor_bytes(int index) const {
    const proto::Tensor& tensor = plan_.tensors(index);
    const auto elems = std::accumulate(tensor.dims().begin(), tensor.dims().end(), std::int64_t{1},
                                       std::multiplies<>());
    return dtype_bytes(static_cast<DType>(tensor.dtype()), elems);
  }

  // Equal dims, layout and element size: where an element is read, its result is written.
  bool same_shape(int a, int b) const {
    const proto::Tensor &x = plan_.tensors(a), &y = plan_.tensors(b);
    return x.layout() == y.layout() &&
           std::equal(x.dims().begin(), x.dims().end(), y.dims().begin(), y.dims().end()) &&
           dtype_bits(static_cast<DType>(x.dtype())) == dtype_bits(static_cast<DType>(y.dtype()));
  }

  // Buffers are indexed by their root tensor; joining keeps the larger size and the stricter arena.
  void join(int from, int into) {
    const int a = root(from), b = root(into);
    if (a == b) return;
    parent_[a] = b;
    Buffer& kept = buffers_[b];
    const Buffer& gone = buffers_[a];
    kept.bytes = std::max(kept.bytes, gone.bytes);
    kept.first = std::min(kept.first, gone.first);
    kept.last = std::max(kept.last, gone.last);
    kept.arena = std::max(kept.arena, gone.arena);
  }

  void join_aliases() {
    const int count = plan_.tensors_size();
    parent_.resize(count);
    std::iota(parent_.begin(), parent_.end(), 0);
    buffers_.resize(count);
    for (int i = 0; i < count; ++i) {
      buffers_[i].bytes = tensor_bytes(i);
      buffers_[i].arena = arena_of(plan_.tensors(i).role());
    }
    for (int i = 0; i < count; ++i) {
      // An alias of a constant or parameter is that; one of an activation keeps its own role, which
      // may be gradient.
      if (draft_.alias_of[i] >= 0) join(i, draft_.alias_of[i]);
    }
  }

  void touch(int tensor, int step) {
    if (tensor < 0) return;
    Buffer& touched = buffer(tensor);
    touched.first = std::min(touched.first, step);
    touched.last = std::max(touched.last, step);
  }

  void measure_lives() {
    int step = 0, training_end = 0;
    for (const proto::Phase& phase : plan_.phases()) {
      for (const proto::Step& s : phase.steps()) {
        for (int input : s.inputs()) touch(input, step);
        for (int output : s.outputs()) touch(output, step);
        ++step;
      }
      if (phase.kind() != proto::PHASE_EVALUATE) training_end = step;
      ++step;  // the end of the phase, when the runtime reads its results
    }
    // What the runtime reads after a phase lives to its end.
    for (const proto::Port& port : plan_.outputs()) {
      touch(port.tensor(), training_end);
      touch(port.evaluate_tensor(), step);
    }
    for (const proto::State& state : plan_.states()) touch(state.next(), training_end);
    if (plan_.has_training()) {
      touch(plan_.training().loss(), training_end);
      touch(plan_.training().evaluate_loss(), step);
    }
  }

  void reuse_in_place() {
    int step = 0;
    for (const proto::Phase& phase : plan_.phases()) {
      for (const proto::Step& s : phase.steps()) {
        for (int o = 0; o < s.outputs_size(); ++o) try_in_place(s, o, step);
        ++step;
      }
      ++step;  // as in measure_lives()
    }
  }

  // Lets output `o` of a step take over a dying operand of equal size.
  void try_in_place(const proto::Step& s, int o, int step) {
    const int output = s.outputs(o);
    if (output < 0 || buffer(output).first != step) return;
    for (int i = 0; i < s.inputs_size(); ++i) {
      const int input = s.inputs(i);
      if (input < 0 || !kernels::may_run_in_place(s.op(), i, o)) continue;
      const Buffer& dying = buffer(input);
      const auto same_buffer = [&](int other) { return other >= 0 && root(other) == root(input); };
      if (dying.arena != 0 || dying.last != step || dying.bytes != buffer(output).bytes ||
          !same_shape(input, output) || root(input) == root(output) ||
          std::count_if(s.inputs().begin(), s.inputs().end(), same_buffer) != 1) {
        continue;
      }
      join(input, output);
      return;
    }
  }

  void make_arenas() {
    plan_.clear_arenas();
    for (const ArenaKind& kind : kArenas) plan_.add_arenas()->set_name(kind.name);
  }

  void place_persistent() {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      Buffer& b = buffers_[i];
      if (root(static_cast<int>(i)) != static_cast<int>(i) || kArenas[b.arena].shared) continue;
      if (b.arena == kConstantArena && draft_.weights.count(static_cast<int>(i)) > 0) continue;
      proto::Arena* arena = plan_.mutable_arenas(b.arena);
      b.offset = arena->bytes();
      arena->set_bytes(b.offset + aligned(b.bytes));
      arena->set_live_bytes(arena->bytes());
    }
  }

  void place_activations() {
    std::vector<int> order;
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const int index = static_cast<int>(i);
      if (root(index) == index && kArenas[buffers_[i].arena].shared && buffers_[i].last >= 0)
        order.push_back(index);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return buffers_[a].bytes > buffers_[b].bytes; });
    std::vector<const Buffer*> placed;  // by offset
    std::uint64_t end = 0;
    for (const int index : order) {
      Buffer& b = buffers_[index];
      b.offset = lowest_free_offset(b, placed, end);
      const auto at =
          std::upper_bound(placed.begin(), placed.end(), &b,
                           [](const Buffer* x, const Buffer* y) { return x->offset < y->offset; });
      placed.insert(at, &b);
      end = std::max(end, b.offset + aligned(b.bytes));
    }
    plan_.mutable_arenas(0)->set_bytes(end);
    plan_.mutable_arenas(0)->set_live_bytes(largest_live_sum(order));
  }

  std::uint64_t lowest_free_offset(const Buffer& b, const std::vector<const Buffer*>& placed,
                                   std::uint64_t end) const {
    if (!options_.reuse) return end;
    std::uint64_t offset = 0;
    for (const Buffer* other : placed) {
      if (other->last < b.first || b.last < other->first) continue;
      if (other->offset >= offset + aligned(b.bytes)) break;
      offset = std::max(offset, other->offset + aligned(other->bytes));
    }
    return offset;
  }

  std::uint64_t largest_live_sum(const std::vector<int>& order) const {
    int steps = 0;
    for (const int index : order) steps = std::max(steps, buffers_[index].last + 1);
    std::vector<std::int64_t> change(static_cast<std::size_t>(steps) + 1, 0);
    for (const int index : order) {
      const Buffer& b = buffers_[index];
      change[b.first] += static_cast<std::int64_t>(aligned(b.bytes));
      change[b.last + 1] -= static_cast<std::int64_t>(aligned(b.bytes));
    }
    std::int64_t sum = 0, largest = 0;
    for (const std::int64_t c : change) largest = std::max(largest, sum += c);
    return static_cast<std::uint64_t>(largest);
  }

  void write_back() {
    for (int i = 0; i < plan_.tensors_size(); ++i) {
      plan_.mutable_tensors(i)->set_arena(buffer(i).arena);
      plan_.mutable_tensors(i)->set_offset(buffer(i).offset);
    }
  }

  PlanDraft& draft_;
  proto::Plan& plan_;
  MemoryOptions options_;
  std::vector<int> parent_;
  std::vector<Buffer> buffers_;
};

}  // namespace

Status plan_memory(PlanDraft& draft, const MemoryOptions& options) {
  return MemoryPlanner(draft, options).run();
}

}  // namespace mezzo::passes
