#include "passes/autodiff/exporter_names.h"

#include <algorithm>
#include <cctype>
#include <regex>

namespace mezzo::passes {
namespace {

// std::regex recurses once per byte, and names come from untrusted files.
constexpr std::size_t kLongestName = 512;

bool is_number(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
}

bool is_made_up(const std::string& name) {
  static const std::regex pattern(
      R"(^(_?val_\d+|onnx::\w+_\d+|onnx::.*::\d+|const(ant)?(_\d+)?|)"
      R"(scalar_tensor_default(_\d+)?|(.*/)?(Constant|Cast)(_\d+)?(_output_\d+)?|)"
      R"(OneConstant_Type\d+)$)",
      std::regex::optimize);
  return name.size() < kLongestName && std::regex_match(name, pattern);
}

}  // namespace

ExporterNames::ExporterNames(const Graph& graph, const std::set<std::string>& computed) {
  const auto& values = graph.initializers();
  numbers_are_anonymous_ = std::any_of(values.begin(), values.end(), [&](const Value* value) {
    return is_floating(value->dtype()) && computed.count(value->name()) == 0 &&
           !is_number(value->name()) && !is_made_up(value->name());
  });
}

bool ExporterNames::is_anonymous(const std::string& name) const {
  return is_number(name) ? numbers_are_anonymous_ : is_made_up(name);
}

bool names_a_limit(const std::string& name) {
  static const std::regex pattern(R"((^|[^a-z])(eps|epsilon|min|max)(imum)?($|[^a-z]|val))",
                                  std::regex::optimize | std::regex::icase);
  return name.size() < kLongestName && std::regex_search(name, pattern);
}

}  // namespace mezzo::passes
