// MEZZO_WITH_ASAN: 1 where AddressSanitizer is compiled in, which GCC and Clang tell differently.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define MEZZO_WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MEZZO_WITH_ASAN 1
#endif
#endif
#ifndef MEZZO_WITH_ASAN
#define MEZZO_WITH_ASAN 0
#endif
