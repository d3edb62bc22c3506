// MEZZO_INDEPENDENT_LOOP before a loop: no iteration reads what an earlier one wrote, so it may be
// vectorised whatever the pointers in it are.
#pragma once

#ifdef __clang__
#define MEZZO_INDEPENDENT_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define MEZZO_INDEPENDENT_LOOP _Pragma("GCC ivdep")
#endif
