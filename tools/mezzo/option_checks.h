// Checks of option values. A value that fails is a usage error (exit status 2) whose message says
// what was expected and what was given, in the form "--lr: expected a number of at least 0, got
// 'abc'".
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "compiler/support/status.h"

namespace CLI {
class Option;
class Validator;
}  // namespace CLI

namespace mezzo::cli {

// A finite number from `least` on; `above` excludes `least` itself.
CLI::Validator number_from(double least);
CLI::Validator number_above(double least);
// From `least` to below `limit`.
CLI::Validator number_from_below(double least, double limit);

// A whole number from `least` to `most`.
CLI::Validator whole_number(std::int64_t least,
                            std::int64_t most = std::numeric_limits<std::int64_t>::max());

// One of these words; a near miss is suggested.
CLI::Validator one_of(std::vector<std::string> words);

// A regular expression that compiles.
CLI::Validator regular_expression();

// What `parse` accepts; its message is shown.
CLI::Validator accepted_by(std::function<Status(const std::string&)> parse);

// For options over a vector: exactly one value each time, and as many times as wanted.
// ("--pin a b" must not take b, which may be the model.)
CLI::Option* repeatable(CLI::Option* option);

}  // namespace mezzo::cli
