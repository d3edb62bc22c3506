// A prepared oneDNN kernel is a sequence of steps: library primitives, casts and small loops of
// our own, on the request's buffers and on temporaries in the workspace.
//
// SequenceBuilder records the steps; finish() lays the temporaries out (two share memory where
// their lives do not meet) and makes the Kernel. Everything is allocated there: run() only sets
// addresses that changed and executes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/onednn/engine.h"

namespace mezzo::kernels::onednn {

// Where a tensor of a sequence lies.
struct Buffer {
  enum class Place : std::uint8_t { kInput, kOutput, kTemporary, kHeld };
  Place place = Place::kInput;
  std::size_t index = 0;  // number of the operand, the result, the temporary or what is held
  bool operator==(const Buffer&) const = default;
};

// A tensor of a sequence: its place, and how to read it.
struct Operand {
  Buffer buffer;
  MemoryDesc desc;
};

// Memory that a kernel owns: a constant operand in the form its primitive reads.
class HeldMemory {
 public:
  // All bytes are zero. InvalidArgument where the machine has not so much memory.
  static StatusOr<HeldMemory> allocate(std::size_t bytes);
  std::byte* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t bytes_ = 0;
};

// The addresses of one run.
class Addresses {
 public:
  Addresses(const KernelArguments& arguments, std::span<const std::size_t> offsets,
            std::span<const HeldMemory> held)
      : arguments_(arguments), offsets_(offsets), held_(held) {}
  void* of(const Buffer& buffer) const;

 private:
  const KernelArguments& arguments_;
  std::span<const std::size_t> offsets_;  // of the temporaries, in the workspace
  std::span<const HeldMemory> held_;
};

class Step {
 public:
  virtual ~Step() = default;
  virtual Status run(const Addresses& addresses, dnnl_stream_t stream) = 0;
};

class SequenceBuilder {
 public:
  // Gets the addresses of the buffers it was added with, in their order.
  using Call = std::function<Status(std::span<void* const>)>;

  // `request` must outlive the builder. REQUIRES: its present operands are float32, float16 or
  // bfloat16.
  explicit SequenceBuilder(const KernelRequest& request) : request_(request) {}

  Operand input(std::size_t i) const;   // as the request describes it
  Operand output(std::size_t i) const;  // REQUIRES: present
  Operand temporary(const MemoryDesc& desc);

  // `from` in the dtype and layout of `wanted`: itself where that is the same, else a temporary
  // that a cast or a reorder fills. A constant operand is brought there now, for all runs.
  StatusOr<Operand> as(const Operand& from, const MemoryDesc& wanted);
  // Where a primitive shall write what store() brings to `result`: `result` itself if `computed`
  // is its description, else a temporary.
  Operand place_for(const Operand& result, const MemoryDesc& computed);
  // Moves `from` to `to`, casting and reordering; nothing if they are the same buffer.
  Status store(const Operand& from, const Operand& to);

  // A library primitive; `arguments` by DNNL_ARG number. Its scratchpad becomes a temporary.
  Status add(const dnnl::primitive_desc_base& desc, const dnnl::primitive& primitive,
             const std::vector<std::pair<int, Operand>>& arguments);
  // A loop of our own. `call` must not allocate.
  void add(const std::vector<Buffer>& buffers, Call call);

  // The kernel; `implementation` names it. The builder is spent.
  StatusOr<std::unique_ptr<Kernel>> finish(std::string implementation);

 private:
  struct Temporary {
    std::size_t bytes = 0;
    std::size_t first_step = SIZE_MAX;
    std::size_t last_step = 0;
  };
  void use(const Buffer& buffer);  // by the step that is added next
  StatusOr<Operand> pack(const Operand& from, const MemoryDesc& wanted, const void* bytes);
  Status reorder(const Operand& from, const Operand& to);
  void cast_f16(const Operand& from, const Operand& to);  // to or from float32, equal strides
  std::size_t plan_workspace(std::vector<std::size_t>& offsets) const;

  const KernelRequest& request_;
  std::vector<Temporary> temporaries_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<HeldMemory> held_;
};

}  // namespace mezzo::kernels::onednn
