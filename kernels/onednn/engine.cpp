#include "kernels/onednn/engine.h"

#include <omp.h>

#include <algorithm>

#include "oneapi/dnnl/dnnl_debug.h"

namespace mezzo::kernels::onednn {
namespace {

struct Device {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

StatusOr<Device> make_device() {
  return attempt([] { return Device(); });
}

const StatusOr<Device>& device() {
  static const StatusOr<Device> shared = make_device();
  return shared;
}

}  // namespace

Status library_error(dnnl_status_t code, std::string_view what, const SourceLocation& where) {
  std::string message = "oneDNN: " + std::string(what) + " (" + dnnl_status2str(code) + ", in " +
                        where.function_name() + ", line " + std::to_string(where.line()) + ")";
  // The library reports some unsupported descriptions as invalid; ours were checked before.
  const bool refused = code == dnnl_unimplemented || code == dnnl_invalid_arguments;
  return refused ? unimplemented(std::move(message)) : internal_error(std::move(message));
}

Status check(dnnl_status_t code, SourceLocation where) {
  if (code == dnnl_success) return ok_status();
  return internal_error(library_error(code, "a call failed", where).message());
}

StatusOr<dnnl::engine> cpu_engine() {
  if (!device().ok()) return device().status();
  return device()->engine;
}

StatusOr<dnnl::stream> cpu_stream() {
  if (!device().ok()) return device().status();
  return device()->stream;
}

bool has_native_bf16() {
  static const bool native = [] {
    constexpr auto kWanted = static_cast<unsigned>(dnnl_cpu_isa_avx512_core_bf16);
    const auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
    return (isa & kWanted) == kWanted;
  }();
  return native;
}

ThreadScope::ThreadScope(int threads)
    : saved_(omp_get_max_threads()), changed_(std::max(threads, 1) != saved_) {
  if (changed_) omp_set_num_threads(std::max(threads, 1));
}

ThreadScope::~ThreadScope() {
  if (changed_) omp_set_num_threads(saved_);
}

dnnl::memory::data_type library_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return dnnl::memory::data_type::f32;
    case DType::kBFloat16: return dnnl::memory::data_type::bf16;
    case DType::kFloat16: return dnnl::memory::data_type::f16;
    default: return dnnl::memory::data_type::undef;
  }
}

DType dtype_of(const MemoryDesc& desc) {
  switch (desc.get_data_type()) {
    case dnnl::memory::data_type::f32: return DType::kFloat32;
    case dnnl::memory::data_type::bf16: return DType::kBFloat16;
    case dnnl::memory::data_type::f16: return DType::kFloat16;
    default: return DType::kNone;
  }
}

Dims dense_strides(const Dims& dims, Layout layout) {
  Dims strides(dims.size(), 1);
  std::int64_t next = 1;
  const bool channels_last = layout == Layout::kChannelsLast && dims.size() >= 3;
  if (channels_last) next = dims[1];
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (channels_last && i == 1) continue;
    strides[i] = next;
    next *= dims[i];
  }
  return strides;
}

MemoryDesc dense_desc(const Dims& dims, DType dtype, Layout layout) {
  return {dims, library_type(dtype), dense_strides(dims, layout)};
}

MemoryDesc any_desc(const Dims& dims, DType dtype) {
  return {dims, library_type(dtype), dnnl::memory::format_tag::any};
}

bool same_places(const MemoryDesc& a, const MemoryDesc& b) {
  if (a == b) return true;
  if (a.get_data_type() != b.get_data_type() || a.get_dims() != b.get_dims()) return false;
  const auto is_plain = [](const MemoryDesc& desc) {
    return desc.get_format_kind() == dnnl::memory::format_kind::blocked &&
           desc.get_inner_nblks() == 0;
  };
  if (!is_plain(a) || !is_plain(b)) return false;
  const Dims dims = a.get_dims();
  const Dims strides_a = a.get_strides();
  const Dims strides_b = b.get_strides();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != 1 && strides_a[i] != strides_b[i]) return false;
  }
  return true;
}

dnnl::primitive_attr base_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
  return attributes;
}

bool is_reference(std::string_view implementation) {
  return implementation.find("ref") != std::string_view::npos;
}

}  // namespace mezzo::kernels::onednn
