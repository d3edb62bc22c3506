#include "compiler/support/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <vector>

namespace mezzo {
namespace {

constexpr std::size_t kLongestSuggestion = 256;
constexpr std::size_t kLongestMatchedName = 1024;

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

template <typename Number>
std::string shortest(Number value) {
  std::array<char, 64> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return error == std::errc() ? std::string(buffer.data(), end) : std::string("?");
}

}  // namespace

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string result;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) result += separator;
    result += parts[i];
  }
  return result;
}

std::string join(std::span<const std::int64_t> numbers, std::string_view separator) {
  std::string result;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) result += separator;
    result += std::to_string(numbers[i]);
  }
  return result;
}

std::string format_dims(std::span<const std::int64_t> dims) { return "[" + join(dims, ",") + "]"; }

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  // Rows i-2, i-1 and i of the table of distances between prefixes.
  std::vector<std::size_t> before(width), last(width), row(width);
  for (std::size_t j = 0; j < width; ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j < width; ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::optional<std::string> closest_match(std::string_view word,
                                         std::span<const std::string> candidates) {
  if (word.empty() || word.size() > kLongestSuggestion) return std::nullopt;
  const std::string wanted = lower_case(word);
  const std::string* best = nullptr;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.empty() || candidate.size() > kLongestSuggestion) continue;
    const std::string other = lower_case(candidate);
    const std::size_t distance = edit_distance(wanted, other);
    if (distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  if (best != nullptr) return *best;
  const auto is_beginning = [&](const std::string& candidate) {
    const std::string other = lower_case(candidate);
    return std::min(wanted.size(), other.size()) >= 3 &&
           (other.starts_with(wanted) || wanted.starts_with(other));
  };
  const auto found = std::find_if(candidates.begin(), candidates.end(), is_beginning);
  if (found == candidates.end()) return std::nullopt;
  return *found;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const auto match = closest_match(word, candidates);
  return match ? " Did you mean '" + *match + "'?" : "";
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {  // 1023.95 would print as 1024.0
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %s", value, kUnits[unit]);
  return text.data();
}

std::string format_count(std::int64_t count) {
  const std::string digits = std::to_string(count);
  std::string result;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const std::size_t left = digits.size() - i;
    if (left % 3 == 0 && i > 0 && digits[i - 1] != '-') result += ',';
    result += digits[i];
  }
  return result;
}

std::string format_number(double value) { return shortest(value); }
std::string format_number(float value) { return shortest(value); }

std::string printable(std::string_view text, std::size_t limit) {
  std::string result;
  for (const char c : text.substr(0, limit)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      result += c;
    } else {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\x%02x", static_cast<unsigned>(byte));
      result += escape.data();
    }
  }
  return text.size() > limit ? result + "..." : result;
}

namespace {

// Expressions come from policy files, which strangers may have written: libstdc++ can match without
// backtracking, so that "(a+)+$" takes no exponential time. What it cannot do then are
// back-references, which the lack of groups forbids anyway.
constexpr auto kSyntax = std::regex::ECMAScript | std::regex::optimize | std::regex::nosubs
#ifdef __GLIBCXX__
                         | std::regex_constants::__polynomial
#endif
    ;

}  // namespace

StatusOr<Pattern> Pattern::compile(std::string_view expression, std::string_view option) {
  std::string text(expression);
  try {
    auto regex = std::make_shared<const std::regex>(text, kSyntax);
    return Pattern(std::move(text), std::move(regex));
  } catch (const std::regex_error& error) {
    return invalid_argument(std::string(option) + " '" + printable(text) +
                            "': not a regular expression (" + error.what() +
                            "). Hint: names are matched anywhere; escape . [ ] ( ) as \\. \\[ ...");
  }
}

bool Pattern::matches(std::string_view name) const {
  const std::string_view seen = name.substr(0, kLongestMatchedName);
  try {
    return std::regex_search(seen.begin(), seen.end(), *regex_);
  } catch (const std::regex_error&) {
    return false;
  }
}

}  // namespace mezzo
