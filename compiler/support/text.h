// Text helpers for messages and options: joining, "did you mean", readable numbers, name patterns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <regex>
#include <span>
#include <string>
#include <string_view>

#include "compiler/support/status.h"

namespace mezzo {

// "a, b, c" for {"a", "b", "c"} and ", ".
std::string join(std::span<const std::string> parts, std::string_view separator);
std::string join(std::span<const std::int64_t> numbers, std::string_view separator);

// "[2,3]", the form in which every message shows a shape; "[]" for a scalar.
std::string format_dims(std::span<const std::int64_t> dims);

// The least number of inserted, removed, replaced or swapped neighbouring bytes that turns `a` into
// `b` (optimal string alignment distance). Time and memory grow with the product of the lengths.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `word`, letter case aside, if it is near enough to be a slip of the pen:
// at most one edit per three bytes (and one at least), or one being the other's beginning. The
// first of several equally near ones. Words over 256 bytes match nothing.
std::optional<std::string> closest_match(std::string_view word,
                                         std::span<const std::string> candidates);

// " Did you mean 'NAME'?" (with the leading blank), or "" where nothing is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

// "512 B", "1.5 KiB", "3.2 GiB": powers of 1024, at most four digits.
std::string format_bytes(std::uint64_t bytes);

// "1,797,000".
std::string format_count(std::int64_t count);

// The shortest decimal text that reads back as exactly the same number; "inf", "nan" where it is.
std::string format_number(double value);
std::string format_number(float value);

// At most `limit` bytes of a name from an untrusted file, control characters as \xNN, "..." at
// the cut: safe to print.
std::string printable(std::string_view text, std::size_t limit = 200);

// A compiled regular expression (ECMAScript) for names, as taken by --pin, --freeze and --train.
// Copies share the compiled form.
class Pattern {
 public:
  // `option` names the source for the error: "--pin". InvalidArgument: not a valid expression.
  static StatusOr<Pattern> compile(std::string_view expression, std::string_view option);

  // True if the expression is found anywhere in `name` (write ^...$ for the whole name). Only the
  // first 1024 bytes are looked at: std::regex recurses once per byte, and names come from
  // untrusted files. An expression too complex for the library (it says so by an exception) does
  // not match.
  bool matches(std::string_view name) const;

  const std::string& text() const { return text_; }

 private:
  Pattern(std::string text, std::shared_ptr<const std::regex> regex)
      : text_(std::move(text)), regex_(std::move(regex)) {}

  std::string text_;
  std::shared_ptr<const std::regex> regex_;
};

}  // namespace mezzo
