// JSON from untrusted files: parsing that refuses repeated keys, and typed access with errors that
// name the key.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "compiler/support/status.h"

namespace mezzo {

// Parses a whole text. `where` (a file name) starts every error, which tells the byte position.
// A key that an object holds twice is an error: readers would disagree about its meaning.
StatusOr<nlohmann::json> parse_json(std::string_view text, std::string_view where);

// Reads and parses a file of at most `max_bytes`.
StatusOr<nlohmann::json> read_json(const std::string& path,
                                   std::uint64_t max_bytes = std::uint64_t{64} << 20);

// The value of a key, checked. InvalidArgument, "key 'K': expected a number, got a string", where
// it is missing or of another type. Numbers: json_int takes integers that fit; json_number takes
// any number and, because JSON has no infinity, the text "inf".
StatusOr<std::int64_t> json_int(const nlohmann::json& object, std::string_view key);
StatusOr<std::uint64_t> json_uint(const nlohmann::json& object, std::string_view key);
StatusOr<double> json_number(const nlohmann::json& object, std::string_view key);
StatusOr<bool> json_bool(const nlohmann::json& object, std::string_view key);
StatusOr<std::string> json_string(const nlohmann::json& object, std::string_view key);
// The object or array itself; the pointer is never null and points into `object`.
StatusOr<const nlohmann::json*> json_object(const nlohmann::json& object, std::string_view key);
StatusOr<const nlohmann::json*> json_array(const nlohmann::json& object, std::string_view key);

// A number as JSON that json_number reads back: "inf" for infinity. REQUIRES: not NaN.
nlohmann::json json_from_number(double value);

// One line of text; invalid UTF-8 in strings is replaced instead of throwing.
std::string json_text(const nlohmann::json& value, int indent = -1);

}  // namespace mezzo
