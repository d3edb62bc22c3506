// What the processor can do beyond what __builtin_cpu_supports knows in every compiler.
#pragma once

#include <cpuid.h>

namespace mezzo::kernels {

// Conversions between float16 and float32 (F16C) and the registers they need. Clang knows no
// "f16c" before version 16.
inline bool has_f16c() {
  static const bool has = [] {  // the instruction is slow in virtual machines
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    return __builtin_cpu_supports("avx") != 0 && __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 &&
           (ecx & bit_F16C) != 0;
  }();
  return has;
}

}  // namespace mezzo::kernels
