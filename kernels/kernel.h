// The border between the runtime and the numbers: a kernel is prepared once for fixed shapes and
// dtypes, then run many times on plain buffers. Kernels see no graph, plan or protobuf.
//
// A request names an operator of the op list (kernels/README.md), its attributes and the
// description of every operand and result. prepare() walks the rows of kernel_table.cpp, best
// first, reference last, and takes the first row that supports the request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/support/dtype.h"
#include "compiler/support/status.h"

namespace mezzo::kernels {

// How the elements of a tensor lie in its buffer. Written to plans: numbers must not change.
enum class Layout : std::uint8_t {
  kRowMajor = 0,      // last dimension fastest
  kChannelsLast = 1,  // dims N C D1.. Dk lie in memory as N D1.. Dk C; rank 3 or more
};

// Shape and type of an operand or result. dims are always logical (N C H W), whatever the layout.
// dtype kNone: an optional operand that is absent, or a result nobody wants (its buffer is null).
struct TensorDesc {
  DType dtype = DType::kNone;
  std::vector<std::int64_t> dims;  // empty: a scalar
  Layout layout = Layout::kRowMajor;

  bool present() const { return dtype != DType::kNone; }
  // False if the elements lie alike in every layout: rank below 3, one channel, or one place.
  bool layout_matters() const;
  std::int64_t elems() const;  // product of dims, 1 for a scalar
  std::size_t bytes() const;
};

// Attributes as in ONNX. An absent attribute gives the caller's default.
class Attributes {
 public:
  using Value = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>,
                             std::vector<double>>;
  void set(std::string name, Value value) { values_[std::move(name)] = std::move(value); }
  bool has(std::string_view name) const { return values_.find(name) != values_.end(); }
  std::int64_t get_int(std::string_view name, std::int64_t fallback) const;
  double get_float(std::string_view name, double fallback) const;  // an integer counts as float
  std::string get_string(std::string_view name, std::string_view fallback) const;
  std::vector<std::int64_t> get_ints(std::string_view name,
                                     const std::vector<std::int64_t>& fallback = {}) const;
  std::vector<double> get_floats(std::string_view name) const;
  const std::map<std::string, Value, std::less<>>& values() const { return values_; }

 private:
  std::map<std::string, Value, std::less<>> values_;
};

struct KernelRequest {
  std::string op;  // ONNX operator name, or one of mezzo's own (ReluGrad, ConvGradWeight, ...)
  Attributes attributes;
  std::vector<TensorDesc> inputs;
  std::vector<TensorDesc> outputs;
  int threads =
      1;  // most threads run() may use; the result's bits may depend on it, on nothing else
  // Per operand: where its bytes lie, if they are the same in every run and outlive the kernel,
  // which may then bring them into another form once. Null for all others; may be shorter than
  // `inputs`. run() is given the operand all the same.
  std::vector<const void*> constants{};
  // What rows of a device need beside it (kernels/cuda/context.h); null for rows of the CPU.
  void* device = nullptr;

  const void* constant(std::size_t input) const {
    return input < constants.size() ? constants[input] : nullptr;
  }
};

// A wrong value that a kernel found in the data on a device, where run() cannot say so: the first
// to find one writes it, and all later steps of the run are for nothing.
struct DeviceFault {
  std::int32_t step = 0;      // KernelArguments::step of the kernel; 0: none
  std::int32_t operand = 0;   // that holds the value
  std::int64_t position = 0;  // in elements
  std::int64_t value = 0;
};

// Buffers of one run, in the order of the request's operands; null where the desc is not present.
// Buffers of positive size are aligned to 64 bytes. An output may be the same buffer as an input
// only where the op list says so ("in place").
struct KernelArguments {
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
  void* workspace = nullptr;  // workspace_bytes() bytes, contents undefined, aligned to 64
  // For rows of a device alone, whose buffers lie there: run() puts its work into
  // the stream (a cudaStream_t) and returns without waiting for it.
  void* stream = nullptr;
  DeviceFault* fault = nullptr;  // on the device
  std::int32_t step = 0;         // over 0: names this kernel in `fault`
};

// A prepared kernel. run() allocates nothing and overwrites its outputs completely. One thread at
// a time may run a kernel.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual std::size_t workspace_bytes() const { return 0; }
  // Memory of its own, as for constant operands in another form.
  virtual std::size_t held_bytes() const { return 0; }
  // InvalidArgument: a value in the data is wrong (a label or index out of range); outputs are then
  // undefined. Non-finite numbers are no error.
  virtual Status run(const KernelArguments& arguments) = 0;
  // For the few operators whose result sizes depend on the data (NonZero, Unique, Compress,
  // NonMaxSuppression): the request's dims are upper bounds, the buffer holds the elements packed
  // in the actual dims, and after run() this sets them. All others leave `dims` as they are.
  virtual void shrink_result(std::size_t /*output*/, std::vector<std::int64_t>& /*dims*/) const {}
  // What a fault of this kernel means. InvalidArgument.
  virtual Status explain(const DeviceFault& fault) const;
  // Name of the implementation for `mezzo compile --explain`, for example
  // "onednn:brgconv:avx512_core_bf16".
  virtual std::string_view implementation() const = 0;
};

// One row of the table. `prepare` gives Unimplemented with the reason where the row does not fit
// the request (the next row is tried), InvalidArgument where the request itself is malformed.
struct KernelEntry {
  std::string_view op;
  std::string_view implementation;  // "onednn", "cpu-elementwise", "reference", ...
  StatusOr<std::unique_ptr<Kernel>> (*prepare)(const KernelRequest&);
};

enum class Backend : std::uint8_t {
  kReference,  // double arithmetic, one rounding at the end, every op; slow
  kCpu,        // oneDNN and vectorised code, then reference
};

// All rows for `op`, best first; empty if no kernel exists.
std::vector<const KernelEntry*> kernel_rows(std::string_view op, Backend backend);

// The first row that supports the request. Unimplemented lists why each row refused.
StatusOr<std::unique_ptr<Kernel>> prepare_kernel(const KernelRequest& request, Backend backend);

// True if the kernels of `op` accept output `output` in the same buffer as input `input`, provided
// both have the same dims, layout and bytes per element. The compiler's memory planner relies on
// it.
bool may_run_in_place(std::string_view op, int input, int output);

// What the kernels of `op` make of channels-last activations.
enum class LayoutUse : std::uint8_t {
  kRowMajor,  // take none
  kKeeps,     // take them where all operands and results whose layout matters have it
  kPrefers,   // operand 0 and result 0 may each have either, and are faster channels-last
  kMoves,     // may have either, in any mixture
};
LayoutUse layout_use(std::string_view op);

// True if the kernels of `op` do without result `output` where nobody wants it (marked ? in the op
// list). All other results need a buffer, used or not.
bool result_may_be_absent(std::string_view op, int output);

}  // namespace mezzo::kernels
