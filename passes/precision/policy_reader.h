// Typed access to the JSON of a policy file, with errors that name the place; for policy_file.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/status.h"
#include "compiler/support/text.h"
#include "passes/precision/policy_words.h"

namespace mezzo::passes {

// Limits on what an untrusted file may ask for.
inline constexpr std::size_t kMostWords = 1024;   // in a list of a rule
inline constexpr std::size_t kMostText = 1024;    // bytes of a name or an expression
inline constexpr std::int64_t kMostSlots = 4096;  // operands or results of a node

// A value and the place it stands at: "policy.json: rules[2].op".
struct Place {
  const nlohmann::json& value;
  std::string where;

  // InvalidArgument: "WHERE: expected EXPECTED, got VALUE".
  Status wrong(std::string_view expected) const;
};

template <typename T>
Status read_word(const Place& at, std::span<const Word<T>> words, T& out) {
  std::vector<std::string> names;
  for (const Word<T>& word : words) {
    if (at.value.is_string() && at.value.get_ref<const std::string&>() == word.text) {
      out = word.value;
      return ok_status();
    }
    names.emplace_back(word.text);
  }
  Status status = at.wrong("one of " + join(names, ", "));
  if (!at.value.is_string()) return status;
  return invalid_argument(status.message() + "." +
                          did_you_mean(at.value.get_ref<const std::string&>(), names));
}

Status read_text(const Place& at, std::string& out);
// A regular expression that compiles and is not empty.
Status read_pattern(const Place& at, std::string& out);
// A finite number from `least` to `most`.
Status read_number(const Place& at, double least, double most, std::string_view expected,
                   double& out);
// An array of at most `most` elements.
Status check_size(const Place& at, std::size_t most, std::string_view what);
// A text or an array of texts, none of them empty.
Status read_texts(const Place& at, std::vector<std::string>& out);
// An array of positions of operands or results.
Status read_slots(const Place& at, std::optional<std::vector<std::int64_t>>& out);

// A key and what reads its value.
template <typename Reader>
struct Field {
  std::string_view key;
  Reader read;
};

// Reads every member by its field; an unknown key is an error.
template <typename Fields, typename Out>
Status read_object(const Place& at, const Fields& fields, Out& out) {
  if (!at.value.is_object()) return at.wrong("an object");
  for (const auto& [key, value] : at.value.items()) {
    const auto field = std::find_if(std::begin(fields), std::end(fields),
                                    [&name = key](const auto& f) { return f.key == name; });
    const std::string where = at.where + (at.where.ends_with(": ") ? "" : ".") + printable(key, 60);
    if (field == std::end(fields)) {
      std::vector<std::string> keys;
      for (const auto& f : fields) keys.emplace_back(f.key);
      return invalid_argument(where + ": unknown key." + did_you_mean(key, keys) +
                              " Hint: there are " + join(keys, ", "));
    }
    MEZZO_RETURN_IF_ERROR(field->read({value, where}, out));
  }
  return ok_status();
}

}  // namespace mezzo::passes
