#include "kernels/cpu/isa.h"

#include "kernels/cpu_features.h"

namespace mezzo::kernels::cpu {
namespace {

const Isa* find_isa(std::string_view name) {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq");
  if (avx512 && (name.empty() || name == "avx512")) return &avx512::isa_table();
  if (avx2 && (name.empty() || name == "avx2")) return &avx2::isa_table();
  return nullptr;
}

const Isa*& selection() {
  static const Isa* selected = find_isa("");
  return selected;
}

}  // namespace

const Isa* selected_isa() { return selection(); }

bool select_isa(std::string_view name) {
  const Isa* found = find_isa(name);
  if (found == nullptr) return false;
  selection() = found;
  return true;
}

}  // namespace mezzo::kernels::cpu
