// Where in the source a call was made. std::source_location would do, but Clang knows it with
// libstdc++ from version 16 on only, and the sanitizers' build takes the Clang of Debian 12.
#pragma once

#include <cstdint>

namespace mezzo {

class SourceLocation {
 public:
  constexpr SourceLocation() = default;  // nowhere
  // As a default argument: the place of the call that has this argument.
  static constexpr SourceLocation current(const char* file = __builtin_FILE(),
                                          const char* function = __builtin_FUNCTION(),
                                          std::uint32_t line = __builtin_LINE()) {
    return {file, function, line};
  }

  constexpr const char* file_name() const { return file_; }
  constexpr const char* function_name() const { return function_; }
  constexpr std::uint32_t line() const { return line_; }

 private:
  constexpr SourceLocation(const char* file, const char* function, std::uint32_t line)
      : file_(file), function_(function), line_(line) {}

  const char* file_ = "";
  const char* function_ = "";
  std::uint32_t line_ = 0;
};

}  // namespace mezzo
