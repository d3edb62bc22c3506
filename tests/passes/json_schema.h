// Checks JSON documents against the part of JSON Schema 2020-12 that our schemas use.
#pragma once

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>
#include <string>

namespace mezzo::test {

inline std::string violation(const nlohmann::json& schema, const nlohmann::json& value,
                             const std::string& at = "$");

namespace schema_detail {

using nlohmann::json;

inline bool has_type(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "number") return value.is_number();
  if (type == "integer") {
    return value.is_number_integer() ||
           (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()));
  }
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  throw std::invalid_argument("type " + type);
}

// `type` is one name or a list of them.
inline bool has_some_type(const json& value, const json& type) {
  if (type.is_string()) return has_type(value, type.get<std::string>());
  return std::any_of(type.begin(), type.end(),
                     [&](const json& one) { return has_type(value, one.get<std::string>()); });
}

inline std::string numbers(const json& schema, const json& value) {
  if (!value.is_number()) return "";
  const double number = value.get<double>();
  if (schema.contains("minimum") && number < schema["minimum"].get<double>()) return "minimum";
  if (schema.contains("maximum") && number > schema["maximum"].get<double>()) return "maximum";
  return "";
}

inline std::string sizes(const json& schema, const json& value) {
  const auto over = [&](const char* least, const char* most, std::size_t size) {
    return (schema.contains(least) && size < schema[least].get<std::size_t>()) ||
           (schema.contains(most) && size > schema[most].get<std::size_t>());
  };
  if (value.is_string() &&
      over("minLength", "maxLength", value.get_ref<const std::string&>().size()))
    return "length";
  if (value.is_array() && over("minItems", "maxItems", value.size())) return "items";
  if (value.is_object() && over("minProperties", "maxProperties", value.size()))
    return "properties";
  if (value.is_string() && schema.value("format", "") == "regex") {
    try {
      const std::regex expression(value.get<std::string>());
    } catch (const std::regex_error&) {
      return "regex";
    }
  }
  return "";
}

inline std::string members(const json& schema, const json& value, const std::string& at) {
  for (const auto& [key, member] : value.items()) {
    const bool listed = schema.contains("properties") && schema["properties"].contains(key);
    const json rule =
        listed ? schema["properties"][key] : schema.value("additionalProperties", json(true));
    if (const std::string found = violation(rule, member, at + "." + key); !found.empty())
      return found;
  }
  for (const json& key : schema.value("required", json::array())) {
    if (!value.contains(key.get<std::string>())) return at + ": required " + key.dump();
  }
  const json dependent = schema.value("dependentRequired", json::object());
  for (const auto& [key, needed] : dependent.items()) {
    for (const json& other : needed) {
      if (value.contains(key) && !value.contains(other.get<std::string>()))
        return at + ": " + key + " requires " + other.dump();
    }
  }
  return "";
}

inline std::string alternatives(const json& schema, const json& value, const std::string& at) {
  const auto matching = [&](const char* key) {
    return std::count_if(schema[key].begin(), schema[key].end(),
                         [&](const json& s) { return violation(s, value, at).empty(); });
  };
  if (schema.contains("anyOf") && matching("anyOf") == 0) return at + ": anyOf";
  if (schema.contains("oneOf") && matching("oneOf") != 1) return at + ": oneOf";
  if (schema.contains("if") && violation(schema["if"], value, at).empty())
    return violation(schema["then"], value, at);
  return "";
}

}  // namespace schema_detail

// "" or where and why `value` does not fit.
inline std::string violation(const nlohmann::json& schema, const nlohmann::json& value,
                             const std::string& at) {
  using nlohmann::json;
  if (schema.is_boolean()) return schema.get<bool>() ? "" : at + ": not allowed";
  if (schema.contains("type") && !schema_detail::has_some_type(value, schema["type"]))
    return at + ": type";
  if (schema.contains("const") && schema["const"] != value) return at + ": const";
  if (schema.contains("enum") &&
      std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end())
    return at + ": enum";
  for (const std::string& found :
       {schema_detail::numbers(schema, value), schema_detail::sizes(schema, value)}) {
    if (!found.empty()) return at + ": " + found;
  }
  if (value.is_object()) {
    if (const std::string found = schema_detail::members(schema, value, at); !found.empty())
      return found;
  }
  if (value.is_array() && schema.contains("items")) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      const std::string found =
          violation(schema["items"], value[i], at + "[" + std::to_string(i) + "]");
      if (!found.empty()) return found;
    }
  }
  return schema_detail::alternatives(schema, value, at);
}

}  // namespace mezzo::test
