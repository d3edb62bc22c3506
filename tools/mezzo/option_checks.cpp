#include "tools/mezzo/option_checks.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "compiler/support/text.h"

namespace mezzo::cli {
namespace {

// CLI11's convention: an empty text is success.
CLI::Validator make(std::function<std::string(std::string&)> check, std::string shown = {}) {
  return CLI::Validator(std::move(check), std::move(shown));
}

std::string expected(const std::string& what, const std::string& got) {
  return "expected " + what + ", got '" + printable(got) + "'";
}

template <typename Number>
bool parses(const std::string& text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

CLI::Validator number(double least, bool open) {
  return make([least, open](std::string& text) {
    double value = 0;
    const bool fits =
        parses(text, value) && std::isfinite(value) && (open ? value > least : value >= least);
    if (fits) return std::string();
    return expected((open ? "a number above " : "a number of at least ") + format_number(least),
                    text);
  });
}

}  // namespace

CLI::Validator number_from(double least) { return number(least, false); }
CLI::Validator number_above(double least) { return number(least, true); }

CLI::Validator number_from_below(double least, double limit) {
  return make([least, limit](std::string& text) {
    double value = 0;
    if (parses(text, value) && value >= least && value < limit) return std::string();
    return expected("a number from " + format_number(least) + " to below " + format_number(limit),
                    text);
  });
}

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  return make([least, most](std::string& text) {
    std::int64_t value = 0;
    if (parses(text, value) && value >= least && value <= most) return std::string();
    const bool open = most == std::numeric_limits<std::int64_t>::max();
    return expected(
        open ? "a whole number of at least " + std::to_string(least)
             : "a whole number from " + std::to_string(least) + " to " + std::to_string(most),
        text);
  });
}

CLI::Validator one_of(std::vector<std::string> words) {
  std::string shown = "{" + join(words, ",") + "}";
  return make(
      [words = std::move(words)](std::string& text) {
        for (const std::string& word : words) {
          if (word == text) return std::string();
        }
        return expected((words.size() > 1 ? "one of " : "") + join(words, ", "), text) + "." +
               did_you_mean(text, words);
      },
      std::move(shown));
}

CLI::Validator regular_expression() {
  return make([](std::string& text) {
    const StatusOr<Pattern> pattern = Pattern::compile(text, "");
    // The message begins with the option's name, which CLI11 puts there as well, and a blank.
    return pattern.ok() ? std::string() : pattern.status().message().substr(1);
  });
}

CLI::Validator accepted_by(std::function<Status(const std::string&)> parse) {
  return make([parse = std::move(parse)](std::string& text) {
    const std::string message = parse(text).message();
    // CLI11 puts the option's name in front; some parsers do, too.
    const std::size_t colon = message.rfind("--", 0) == 0 ? message.find(": ") : std::string::npos;
    return colon == std::string::npos ? message : message.substr(colon + 2);
  });
}

CLI::Option* repeatable(CLI::Option* option) { return option->take_all()->allow_extra_args(false); }

}  // namespace mezzo::cli
