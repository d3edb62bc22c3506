// The door to oneDNN: the CPU engine, errors as Status, threads, types and memory descriptors.
//
// oneDNN reports errors by exceptions; they end here. Every call of the library runs inside
// check() or attempt(), which add the place of the call.
#pragma once

#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "compiler/support/dtype.h"
#include "compiler/support/source_location.h"
#include "compiler/support/status.h"
#include "kernels/kernel.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace mezzo::kernels::onednn {

using MemoryDesc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

// The library's refusal of a description as a Status: what it does not support becomes
// Unimplemented, so that the next row of the kernel table is tried; the rest is our bug.
Status library_error(dnnl_status_t code, std::string_view what, const SourceLocation& where);

// call()'s result, or the library's error. For the time of preparation: it may allocate.
template <typename Call>
auto attempt(Call&& call, SourceLocation where = SourceLocation::current())
    -> StatusOr<std::invoke_result_t<Call>> {
  try {
    return std::forward<Call>(call)();
  } catch (const dnnl::error& error) {
    return library_error(error.status, error.message, where);
  } catch (const std::bad_alloc&) {
    return library_error(dnnl_out_of_memory, "allocation failed", where);
  }
}

// The same for calls of the C interface while a kernel runs: every error is our bug.
Status check(dnnl_status_t code, SourceLocation where = SourceLocation::current());

// The CPU engine and its stream, made at the first call and shared by all kernels. The CPU stream
// is in order and holds no state.
StatusOr<dnnl::engine> cpu_engine();
StatusOr<dnnl::stream> cpu_stream();

// True if the processor multiplies bfloat16 natively; otherwise casting to float32 is faster and
// gives the same products.
bool has_native_bf16();

// While alive, OpenMP regions of this thread use `threads` threads (at least 1). oneDNN reads this
// when a primitive is created and when it runs; the two must agree.
class ThreadScope {
 public:
  explicit ThreadScope(int threads);
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int saved_;
  bool changed_;
};

// REQUIRES: dtype is float32, float16 or bfloat16.
dnnl::memory::data_type library_type(DType dtype);
// kNone for a type that is none of these.
DType dtype_of(const MemoryDesc& desc);

// Element strides of dense dims in the given layout. kChannelsLast below rank 3 is row-major.
Dims dense_strides(const Dims& dims, Layout layout);
MemoryDesc dense_desc(const Dims& dims, DType dtype, Layout layout);
// dims and dtype given, the layout left to the primitive.
MemoryDesc any_desc(const Dims& dims, DType dtype);

// True if equal elements lie at equal offsets: strides of dimensions of size 1 do not count.
bool same_places(const MemoryDesc& a, const MemoryDesc& b);

// Attributes of every primitive: scratchpad from our workspace, and no silent rounding of float32
// operands to bfloat16 or TF32 whatever the environment says.
dnnl::primitive_attr base_attributes();

// True if the library fell back to its slow generic code.
bool is_reference(std::string_view implementation);

}  // namespace mezzo::kernels::onednn
