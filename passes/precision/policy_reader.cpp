#include "passes/precision/policy_reader.h"

#include <cmath>

#include "compiler/support/json_util.h"

namespace mezzo::passes {

using nlohmann::json;

Status Place::wrong(std::string_view expected) const {
  return invalid_argument(where + ": expected " + std::string(expected) + ", got " +
                          printable(json_text(value), 60));
}

Status read_text(const Place& at, std::string& out) {
  if (!at.value.is_string()) return at.wrong("text");
  if (at.value.get_ref<const std::string&>().size() > kMostText)
    return at.wrong("at most " + std::to_string(kMostText) + " bytes of text");
  out = at.value.get<std::string>();
  return ok_status();
}

Status read_pattern(const Place& at, std::string& out) {
  MEZZO_RETURN_IF_ERROR(read_text(at, out));
  if (out.empty()) return at.wrong("a regular expression, which matches anywhere in the name");
  return Pattern::compile(out, at.where + ":").status();
}

Status read_number(const Place& at, double least, double most, std::string_view expected,
                   double& out) {
  if (!at.value.is_number()) return at.wrong(expected);
  const double number = at.value.get<double>();
  if (!std::isfinite(number) || number < least || number > most) return at.wrong(expected);
  out = number;
  return ok_status();
}

Status check_size(const Place& at, std::size_t most, std::string_view what) {
  if (!at.value.is_array()) return at.wrong("an array of " + std::string(what));
  if (at.value.size() <= most) return ok_status();
  return invalid_argument(at.where + ": expected at most " + std::to_string(most) + " " +
                          std::string(what) + ", got " + std::to_string(at.value.size()));
}

// Text, or an array of texts.
Status read_texts(const Place& at, std::vector<std::string>& out) {
  out.clear();
  if (at.value.is_string()) {
    out.emplace_back();
    MEZZO_RETURN_IF_ERROR(read_text(at, out.back()));
  } else {
    if (!at.value.is_array() || at.value.empty()) return at.wrong("text or an array of texts");
    MEZZO_RETURN_IF_ERROR(check_size(at, kMostWords, "texts"));
    for (std::size_t i = 0; i < at.value.size(); ++i) {
      out.emplace_back();
      MEZZO_RETURN_IF_ERROR(
          read_text({at.value[i], at.where + "[" + std::to_string(i) + "]"}, out.back()));
    }
  }
  if (std::find(out.begin(), out.end(), std::string()) != out.end())
    return at.wrong("no empty text");
  return ok_status();
}

Status read_slots(const Place& at, std::optional<std::vector<std::int64_t>>& out) {
  MEZZO_RETURN_IF_ERROR(check_size(at, kMostWords, "numbers"));
  out.emplace();
  for (const json& slot : at.value) {
    const bool fits = slot.is_number_unsigned() &&
                      slot.get<std::uint64_t>() < static_cast<std::uint64_t>(kMostSlots);
    if (!fits) {
      return at.wrong("whole numbers from 0 to " + std::to_string(kMostSlots - 1) +
                      " (positions, the first is 0)");
    }
    out->push_back(slot.get<std::int64_t>());
  }
  return ok_status();
}

}  // namespace mezzo::passes
