// The device's memory and pinned memory are blocks of the heap, each of exactly the size asked for,
// so that AddressSanitizer finds whoever goes beyond. Device memory begins as bytes of all ones:
// NaN.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/cuda_on_cpu/cudart/state.h"
#include "tests/cuda_on_cpu/stand_in.h"
#include "tests/support/sanitizers.h"

namespace cuda_on_cpu {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr int kFresh = 0xff;
// Behind every block, for builds without sanitizer.
constexpr std::size_t kGuardBytes = 64;
constexpr unsigned char kGuard = 0xa5;
#if MEZZO_WITH_ASAN
constexpr bool kHasGuard = false;
#else
constexpr bool kHasGuard = true;
#endif

void* allocate(std::size_t bytes) {
  void* at = nullptr;
  const std::size_t all = std::max<std::size_t>(bytes, 1) + (kHasGuard ? kGuardBytes : 0);
  if (posix_memalign(&at, kAlignment, all) != 0) return nullptr;
  if (kHasGuard) std::memset(static_cast<char*>(at) + all - kGuardBytes, kGuard, kGuardBytes);
  return at;
}

bool is_guard_intact(const char* at, std::size_t bytes) {
  if (!kHasGuard) return true;
  const char* const guard = at + std::max<std::size_t>(bytes, 1);
  return std::all_of(guard, guard + kGuardBytes,
                     [](char byte) { return static_cast<unsigned char>(byte) == kGuard; });
}

cudaError_t release(Runtime& runtime, Runtime::Blocks& blocks, void* memory) {
  const auto block = blocks.find(static_cast<const char*>(memory));
  if (block == blocks.end()) return cudaErrorInvalidValue;
  if (!is_guard_intact(block->first, block->second) && runtime.fault.empty()) {
    runtime.fault = "something wrote behind a block of " + std::to_string(block->second) + " bytes";
    std::fprintf(stderr, "cuda_on_cpu: %s\n", runtime.fault.c_str());
  }
  blocks.erase(block);
  --runtime.counts.blocks_alive;
  std::free(memory);
  return cudaSuccess;
}

// What the kind says of the two sides, against where they lie.
bool is_kind_right(const Runtime& runtime, const void* to, const void* from, std::size_t bytes,
                   cudaMemcpyKind kind) {
  const bool to_device = runtime.is_device(to, bytes), from_device = runtime.is_device(from, bytes);
  switch (kind) {
    case cudaMemcpyHostToHost: return !to_device && !from_device;
    case cudaMemcpyHostToDevice: return to_device && !from_device;
    case cudaMemcpyDeviceToHost: return !to_device && from_device;
    case cudaMemcpyDeviceToDevice: return to_device && from_device;
    case cudaMemcpyDefault: return true;
  }
  return false;
}

// "The memory areas may not overlap" (cudaMemcpyAsync).
bool do_overlap(const void* to, const void* from, std::size_t bytes) {
  const auto* const first = static_cast<const char*>(to);
  const auto* const second = static_cast<const char*>(from);
  return first < second + bytes && second < first + bytes;
}

}  // namespace

bool Runtime::lies_in(const Blocks& blocks, const void* at, std::size_t bytes) {
  const auto* const address = static_cast<const char*>(at);
  auto block = blocks.upper_bound(address);
  if (block == blocks.begin()) return false;
  --block;
  const auto offset = static_cast<std::size_t>(address - block->first);
  return offset <= block->second && bytes <= block->second - offset;
}

bool cuda_on_cpu_is_device_memory(const void* at, std::size_t bytes) {
  const Call call;
  return call->is_device(at, bytes);
}

}  // namespace cuda_on_cpu

using cuda_on_cpu::Call;

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  *memory = nullptr;
  if (call->breaks_capture()) return call.done(cudaErrorStreamCaptureUnsupported);
  if (bytes == 0) return call.done();
  if (bytes > call->device_capacity - call->device_bytes) {
    return call.done(cudaErrorMemoryAllocation);
  }
  void* const at = cuda_on_cpu::allocate(bytes);
  if (at == nullptr) return call.done(cudaErrorMemoryAllocation);
  std::memset(at, cuda_on_cpu::kFresh, bytes);
  call->device_memory[static_cast<char*>(at)] = bytes;
  call->device_bytes += bytes;
  call->counts.peak_bytes = std::max(call->counts.peak_bytes, call->device_bytes);
  ++call->counts.allocations;
  ++call->counts.blocks_alive;
  *memory = at;
  return call.done();
}

cudaError_t cudaFree(void* memory) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  if (memory == nullptr) return call.done();
  if (call->breaks_capture()) return call.done(cudaErrorStreamCaptureUnsupported);
  if (!call->drain(nullptr)) return call.done(cudaErrorUnknown);
  const auto block = call->device_memory.find(static_cast<const char*>(memory));
  if (block != call->device_memory.end()) call->device_bytes -= block->second;
  return call.done(cuda_on_cpu::release(call.runtime, call->device_memory, memory));
}

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  *memory = nullptr;
  if (call->breaks_capture()) return call.done(cudaErrorStreamCaptureUnsupported);
  if (bytes == 0) return call.done();
  void* const at = cuda_on_cpu::allocate(bytes);
  if (at == nullptr) return call.done(cudaErrorMemoryAllocation);
  call->pinned_memory[static_cast<char*>(at)] = bytes;
  ++call->counts.allocations;
  ++call->counts.blocks_alive;
  *memory = at;
  return call.done();
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  return cudaMallocHost(memory, bytes);
}

// Waits for nothing: it is not said anywhere that the library's does.
cudaError_t cudaFreeHost(void* memory) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  if (memory == nullptr) return call.done();
  if (call->breaks_capture()) return call.done(cudaErrorStreamCaptureUnsupported);
  return call.done(cuda_on_cpu::release(call.runtime, call->pinned_memory, memory));
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  *total = call->device_capacity;
  *free = call->device_capacity - call->device_bytes;
  return call.done();
}

// A pageable source is read before the call returns; a pageable destination is written before.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  CUstream_st* const stream = call->stream(handle);
  if (stream == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return call.done();
  if (!cuda_on_cpu::is_kind_right(call.runtime, to, from, bytes, kind) ||
      cuda_on_cpu::do_overlap(to, from, bytes)) {
    return call.done(cudaErrorInvalidValue);
  }
  ++call->counts.copies;
  const auto is_pageable = [&](const void* at) {
    return !call->is_device(at, bytes) && !call->is_pinned(at, bytes);
  };
  // A device would take it, and read or write the same place again when the graph is launched.
  if (stream->capture != nullptr && (is_pageable(from) || is_pageable(to))) {
    stream->capture->invalid = true;
    return call.done(cudaErrorStreamCaptureUnsupported);
  }
  std::function<void()> copy = [=] { std::memmove(to, from, bytes); };
  if (is_pageable(from)) {
    const auto* const source = static_cast<const char*>(from);
    copy = [to, staged = std::vector<char>(source, source + bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    };
  }
  const cudaError_t error = call->enqueue(stream, {"memcpy", std::move(copy)});
  if (error == cudaSuccess && is_pageable(to)) {
    ++call->counts.waits;
    if (!call->drain(stream)) return call.done(cudaErrorUnknown);
  }
  return call.done(error);
}

// "API synchronization behavior" in the runtime library's manual: from pageable memory it returns
// when the bytes are staged, which may be before they have arrived; from one place of the device to
// another it does not wait at all.
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  if (call->breaks_capture()) return call.done(cudaErrorStreamCaptureImplicit);
  ++call->counts.waits;
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  const bool returns_early = call->is_device(to, bytes) && !call->is_pinned(from, bytes);
  if (error != cudaSuccess || returns_early) return error;
  return call.done(call->drain(&call->legacy) ? cudaSuccess : cudaErrorUnknown);
}

cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t handle) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  CUstream_st* const stream = call->stream(handle);
  if (stream == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return call.done();
  if (!call->is_device(at, bytes)) return call.done(cudaErrorInvalidValue);
  ++call->counts.copies;
  return call.done(call->enqueue(stream, {"memset", [=] { std::memset(at, value, bytes); }}));
}

cudaError_t cudaMemset(void* at, int value, std::size_t bytes) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  if (call->breaks_capture()) return call.done(cudaErrorStreamCaptureImplicit);
  return cudaMemsetAsync(at, value, bytes, nullptr);
}
