#include "kernels/onednn/sequence.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>

#include "kernels/onednn/convert.h"

namespace mezzo::kernels::onednn {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t align(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

class PrimitiveStep final : public Step {
 public:
  struct Argument {
    int number;
    dnnl::memory memory;
    Buffer buffer;
    void* address = nullptr;  // what `memory` points to
  };

  PrimitiveStep(const dnnl::primitive& primitive, std::vector<Argument> arguments)
      : primitive_(primitive), arguments_(std::move(arguments)) {
    for (const Argument& argument : arguments_) {
      library_arguments_.push_back({argument.number, argument.memory.get()});
    }
  }

  Status run(const Addresses& addresses, dnnl_stream_t stream) override {
    for (Argument& argument : arguments_) {
      void* const address = addresses.of(argument.buffer);
      if (address == argument.address) continue;
      MEZZO_RETURN_IF_ERROR(check(dnnl_memory_set_data_handle(argument.memory.get(), address)));
      argument.address = address;
    }
    return check(dnnl_primitive_execute(primitive_.get(), stream,
                                        static_cast<int>(library_arguments_.size()),
                                        library_arguments_.data()));
  }

 private:
  dnnl::primitive primitive_;
  std::vector<Argument> arguments_;
  std::vector<dnnl_exec_arg_t> library_arguments_;
};

class CallStep final : public Step {
 public:
  CallStep(std::vector<Buffer> buffers, SequenceBuilder::Call call)
      : buffers_(std::move(buffers)), addresses_(buffers_.size()), call_(std::move(call)) {}

  Status run(const Addresses& addresses, dnnl_stream_t) override {
    for (std::size_t i = 0; i < buffers_.size(); ++i) addresses_[i] = addresses.of(buffers_[i]);
    return call_(addresses_);
  }

 private:
  std::vector<Buffer> buffers_;
  std::vector<void*> addresses_;
  SequenceBuilder::Call call_;
};

class SequenceKernel final : public Kernel {
 public:
  SequenceKernel(std::vector<std::unique_ptr<Step>> steps, std::vector<std::size_t> offsets,
                 std::vector<HeldMemory> held, std::size_t workspace_bytes, int threads,
                 dnnl::stream stream, std::string implementation)
      : steps_(std::move(steps)),
        offsets_(std::move(offsets)),
        held_(std::move(held)),
        workspace_bytes_(workspace_bytes),
        threads_(threads),
        stream_(std::move(stream)),
        implementation_(std::move(implementation)) {}

  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  std::size_t held_bytes() const override {
    std::size_t bytes = 0;
    for (const HeldMemory& memory : held_) bytes += memory.bytes();
    return bytes;
  }
  std::string_view implementation() const override { return implementation_; }

  Status run(const KernelArguments& arguments) override {
    const ThreadScope scope(threads_);
    const Addresses addresses(arguments, offsets_, held_);
    for (const auto& step : steps_) MEZZO_RETURN_IF_ERROR(step->run(addresses, stream_.get()));
    return ok_status();
  }

 private:
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<std::size_t> offsets_;
  std::vector<HeldMemory> held_;
  std::size_t workspace_bytes_;
  int threads_;
  dnnl::stream stream_;
  std::string implementation_;
};

Operand described(Buffer::Place place, std::size_t i, const TensorDesc& desc) {
  const Dims dims = desc.dims.empty() ? Dims{1} : desc.dims;  // the library knows no scalars
  return {{place, i}, dense_desc(dims, desc.dtype, desc.layout)};
}

}  // namespace

void HeldMemory::Free::operator()(std::byte* data) const {
  ::operator delete[](data, std::align_val_t{kAlignment});
}

StatusOr<HeldMemory> HeldMemory::allocate(std::size_t bytes) {
  HeldMemory memory;
  memory.bytes_ = align(bytes);
  memory.data_.reset(static_cast<std::byte*>(
      ::operator new[](memory.bytes_, std::align_val_t{kAlignment}, std::nothrow)));
  if (!memory.data_) {
    return invalid_argument("no memory for " + std::to_string(bytes) + " bytes of weights");
  }
  std::memset(memory.data(), 0, memory.bytes());
  return memory;
}

void* Addresses::of(const Buffer& buffer) const {
  switch (buffer.place) {
    case Buffer::Place::kInput:
      return const_cast<void*>(arguments_.inputs[buffer.index]);  // the library wants it so
    case Buffer::Place::kOutput: return arguments_.outputs[buffer.index];
    case Buffer::Place::kTemporary:
      return static_cast<std::byte*>(arguments_.workspace) + offsets_[buffer.index];
    case Buffer::Place::kHeld: return held_[buffer.index].data();
  }
  return nullptr;
}

Operand SequenceBuilder::input(std::size_t i) const {
  return described(Buffer::Place::kInput, i, request_.inputs[i]);
}

Operand SequenceBuilder::output(std::size_t i) const {
  return described(Buffer::Place::kOutput, i, request_.outputs[i]);
}

Operand SequenceBuilder::temporary(const MemoryDesc& desc) {
  temporaries_.push_back({.bytes = align(desc.get_size())});
  return {{Buffer::Place::kTemporary, temporaries_.size() - 1}, desc};
}

StatusOr<Operand> SequenceBuilder::as(const Operand& from, const MemoryDesc& wanted) {
  if (same_places(from.desc, wanted)) return Operand{from.buffer, wanted};
  if (from.buffer.place == Buffer::Place::kInput) {
    const void* bytes = request_.constant(from.buffer.index);
    if (bytes != nullptr) return pack(from, wanted, bytes);
  }
  const Operand to = temporary(wanted);
  MEZZO_RETURN_IF_ERROR(store(from, to));
  return to;
}

// Runs the steps that store() would add, here and now.
StatusOr<Operand> SequenceBuilder::pack(const Operand& from, const MemoryDesc& wanted,
                                        const void* bytes) {
  MEZZO_ASSIGN_OR_RETURN(HeldMemory memory, HeldMemory::allocate(wanted.get_size()));
  KernelRequest request;
  request.threads = request_.threads;
  SequenceBuilder packer(request);
  MEZZO_RETURN_IF_ERROR(
      packer.store({{Buffer::Place::kInput, 0}, from.desc}, {{Buffer::Place::kOutput, 0}, wanted}));
  MEZZO_ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel, packer.finish("pack"));
  MEZZO_ASSIGN_OR_RETURN(const HeldMemory workspace,
                         HeldMemory::allocate(kernel->workspace_bytes()));
  const void* const inputs[] = {bytes};
  void* const outputs[] = {memory.data()};
  MEZZO_RETURN_IF_ERROR(kernel->run({inputs, outputs, workspace.data()}));
  held_.push_back(std::move(memory));
  return Operand{{Buffer::Place::kHeld, held_.size() - 1}, wanted};
}

Operand SequenceBuilder::place_for(const Operand& result, const MemoryDesc& computed) {
  if (same_places(result.desc, computed)) return {result.buffer, computed};
  return temporary(computed);
}

Status SequenceBuilder::store(const Operand& from, const Operand& to) {
  if (from.buffer == to.buffer) return ok_status();
  // The library's float16 reorders are slow: float16 passes through float32 in its own layout.
  const auto in_float32 = [](const MemoryDesc& desc) {
    return MemoryDesc(desc.get_dims(), dnnl::memory::data_type::f32, desc.get_strides());
  };
  if (dtype_of(from.desc) == DType::kFloat16) {
    const MemoryDesc wide_desc = in_float32(from.desc);
    const bool direct = same_places(wide_desc, to.desc);
    const Operand wide = direct ? to : temporary(wide_desc);
    cast_f16(from, wide);
    return direct ? ok_status() : store(wide, to);
  }
  if (dtype_of(to.desc) == DType::kFloat16) {
    MEZZO_ASSIGN_OR_RETURN(const Operand wide, as(from, in_float32(to.desc)));
    cast_f16(wide, to);
    return ok_status();
  }
  return reorder(from, to);
}

Status SequenceBuilder::reorder(const Operand& from, const Operand& to) {
  MEZZO_ASSIGN_OR_RETURN(const dnnl::engine engine, cpu_engine());
  const ThreadScope scope(request_.threads);
  using Desc = dnnl::reorder::primitive_desc;
  MEZZO_ASSIGN_OR_RETURN(const Desc desc, attempt([&] {
                           return Desc(engine, from.desc, engine, to.desc, base_attributes());
                         }));
  MEZZO_ASSIGN_OR_RETURN(const dnnl::reorder primitive,
                         attempt([&] { return dnnl::reorder(desc); }));
  return add(desc, primitive, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

void SequenceBuilder::cast_f16(const Operand& from, const Operand& to) {
  const bool widens = dtype_of(from.desc) == DType::kFloat16;
  std::int64_t elems = 1;
  for (const std::int64_t dim : from.desc.get_dims()) elems *= dim;
  const int threads = std::max(request_.threads, 1);
  add({from.buffer, to.buffer}, [=](std::span<void* const> at) {
    if (widens) {
      f16_to_float(static_cast<const std::uint16_t*>(at[0]), static_cast<float*>(at[1]), elems,
                   threads);
    } else {
      float_to_f16(static_cast<const float*>(at[0]), static_cast<std::uint16_t*>(at[1]), elems,
                   threads);
    }
    return ok_status();
  });
}

Status SequenceBuilder::add(const dnnl::primitive_desc_base& desc, const dnnl::primitive& primitive,
                            const std::vector<std::pair<int, Operand>>& arguments) {
  MEZZO_ASSIGN_OR_RETURN(const dnnl::engine engine, cpu_engine());
  std::vector<std::pair<int, Operand>> all = arguments;
  if (const MemoryDesc scratchpad = desc.scratchpad_desc(); scratchpad.get_size() > 0) {
    all.emplace_back(DNNL_ARG_SCRATCHPAD, temporary(scratchpad));
  }
  std::vector<PrimitiveStep::Argument> bound;
  for (const auto& [number, operand] : all) {
    use(operand.buffer);
    MEZZO_ASSIGN_OR_RETURN(dnnl::memory memory, attempt([&wanted = operand.desc, &engine] {
                             return dnnl::memory(wanted, engine, DNNL_MEMORY_NONE);
                           }));
    bound.push_back({number, std::move(memory), operand.buffer});
  }
  steps_.push_back(std::make_unique<PrimitiveStep>(primitive, std::move(bound)));
  return ok_status();
}

void SequenceBuilder::add(const std::vector<Buffer>& buffers, Call call) {
  for (const Buffer& buffer : buffers) use(buffer);
  steps_.push_back(std::make_unique<CallStep>(buffers, std::move(call)));
}

void SequenceBuilder::use(const Buffer& buffer) {
  if (buffer.place != Buffer::Place::kTemporary) return;
  Temporary& temporary = temporaries_[buffer.index];
  temporary.first_step = std::min(temporary.first_step, steps_.size());
  temporary.last_step = std::max(temporary.last_step, steps_.size());
}

// First fit, largest first: each temporary takes the lowest place that is free during its life.
std::size_t SequenceBuilder::plan_workspace(std::vector<std::size_t>& offsets) const {
  offsets.assign(temporaries_.size(), 0);
  std::vector<std::size_t> order(temporaries_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return temporaries_[a].bytes > temporaries_[b].bytes;
  });
  std::size_t total = 0;
  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t id : order) {
    const Temporary& life = temporaries_[id];
    std::size_t offset = 0;
    for (const std::size_t other : placed) {
      const Temporary& taken = temporaries_[other];
      const bool meet = life.first_step <= taken.last_step && taken.first_step <= life.last_step;
      if (!meet || offsets[other] + taken.bytes <= offset) continue;
      if (offset + life.bytes <= offsets[other]) break;
      offset = offsets[other] + taken.bytes;
    }
    offsets[id] = offset;
    total = std::max(total, offset + life.bytes);
    const auto position = std::upper_bound(
        placed.begin(), placed.end(), offset,
        [&](std::size_t value, std::size_t other) { return value < offsets[other]; });
    placed.insert(position, id);
  }
  return total;
}

StatusOr<std::unique_ptr<Kernel>> SequenceBuilder::finish(std::string implementation) {
  MEZZO_ASSIGN_OR_RETURN(dnnl::stream stream, cpu_stream());
  std::vector<std::size_t> offsets;
  const std::size_t workspace_bytes = plan_workspace(offsets);
  return std::unique_ptr<Kernel>(std::make_unique<SequenceKernel>(
      std::move(steps_), std::move(offsets), std::move(held_), workspace_bytes, request_.threads,
      std::move(stream), std::move(implementation)));
}

}  // namespace mezzo::kernels::onednn
