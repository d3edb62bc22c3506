#include "compiler/support/json_util.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "compiler/support/mapped_file.h"
#include "compiler/support/text.h"

namespace mezzo {
namespace {

using nlohmann::json;

Status wrong(std::string_view key, std::string_view expected, const json& got) {
  return invalid_argument("key '" + std::string(key) + "': expected " + std::string(expected) +
                          ", got " + (got.is_null() ? "null" : printable(json_text(got), 60)));
}

StatusOr<const json*> member(const json& object, std::string_view key) {
  if (!object.is_object())
    return invalid_argument("expected a JSON object around '" + std::string(key) + "'");
  const auto found = object.find(key);
  if (found == object.end()) return invalid_argument("key '" + std::string(key) + "' is missing");
  return &*found;
}

}  // namespace

StatusOr<json> parse_json(std::string_view text, std::string_view where) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open, outermost first
  std::string repeated;
  const auto watch = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.empty()) {
      auto name = parsed.get<std::string>();
      if (!keys.back().insert(name).second && repeated.empty()) repeated = std::move(name);
    }
    return true;
  };
  try {
    json value = json::parse(text, watch);
    if (!repeated.empty()) {
      return invalid_argument(std::string(where) + ": JSON key '" + printable(repeated) +
                              "' occurs twice in one object");
    }
    return value;
  } catch (const json::exception& error) {
    return invalid_argument(std::string(where) +
                            ": not valid JSON: " + printable(error.what(), 300));
  }
}

StatusOr<json> read_json(const std::string& path, std::uint64_t max_bytes) {
  MEZZO_ASSIGN_OR_RETURN(const auto file, MappedFile::open(path));
  if (file->size() > max_bytes) {
    return invalid_argument(printable(path) + ": expected at most " + format_bytes(max_bytes) +
                            " of JSON, got " + format_bytes(file->size()));
  }
  const auto bytes = file->bytes();
  return parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, printable(path));
}

StatusOr<std::int64_t> json_int(const json& object, std::string_view key) {
  MEZZO_ASSIGN_OR_RETURN(const json* value, member(object, key));
  if (!value->is_number_integer()) return wrong(key, "an integer", *value);
  if (value->is_number_unsigned() &&
      value->get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    return wrong(key, "an integer below 2^63", *value);
  }
  return value->get<std::int64_t>();
}

StatusOr<std::uint64_t> json_uint(const json& object, std::string_view key) {
  MEZZO_ASSIGN_OR_RETURN(const json* value, member(object, key));
  const bool negative =
      !value->is_number_unsigned() && value->is_number_integer() && value->get<std::int64_t>() < 0;
  if (!value->is_number_integer() || negative) {
    return wrong(key, "an integer of at least 0", *value);
  }
  return value->get<std::uint64_t>();
}

StatusOr<double> json_number(const json& object, std::string_view key) {
  MEZZO_ASSIGN_OR_RETURN(const json* value, member(object, key));
  if (value->is_string() && value->get_ref<const std::string&>() == "inf") {
    return std::numeric_limits<double>::infinity();
  }
  if (!value->is_number()) return wrong(key, "a number", *value);
  return value->get<double>();
}

StatusOr<bool> json_bool(const json& object, std::string_view key) {
  MEZZO_ASSIGN_OR_RETURN(const json* value, member(object, key));
  if (!value->is_boolean()) return wrong(key, "true or false", *value);
  return value->get<bool>();
}

StatusOr<std::string> json_string(const json& object, std::string_view key) {
  MEZZO_ASSIGN_OR_RETURN(const json* value, member(object, key));
  if (!value->is_string()) return wrong(key, "a string", *value);
  return value->get<std::string>();
}

StatusOr<const json*> json_object(const json& object, std::string_view key) {
  MEZZO_ASSIGN_OR_RETURN(const json* value, member(object, key));
  if (!value->is_object()) return wrong(key, "an object", *value);
  return value;
}

StatusOr<const json*> json_array(const json& object, std::string_view key) {
  MEZZO_ASSIGN_OR_RETURN(const json* value, member(object, key));
  if (!value->is_array()) return wrong(key, "an array", *value);
  return value;
}

json json_from_number(double value) {
  if (std::isinf(value) && value > 0) return "inf";
  return value;
}

std::string json_text(const json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

}  // namespace mezzo
