// The environment variables of README.md.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace cuda_on_cpu {

// `fallback` where the variable is not set; a value that is no number ends the program, so that a
// test does not pass because its setting was overlooked.
inline std::uint64_t environment_number(const char* name, std::uint64_t fallback) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return fallback;
  char* end = nullptr;
  const std::uint64_t number = std::strtoull(text, &end, 10);
  if (end == text || *end != '\0') {
    std::fprintf(stderr, "%s: expected a number, got '%s'\n", name, text);
    std::abort();
  }
  return number;
}

}  // namespace cuda_on_cpu
