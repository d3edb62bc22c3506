#include "passes/autodiff/exporter_notes.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "compiler/support/text.h"

namespace mezzo::passes {
namespace {

std::string metadata_of(const Node& node, std::string_view key) {
  for (const auto& [name, value] : node.metadata) {
    if (name == key) return value;
  }
  return {};
}

constexpr const char* kCallNote = "pkg.torch.onnx.fx_node";

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

}  // namespace

std::string module_of(const Node& node) {
  const std::string scopes = metadata_of(node, "pkg.torch.onnx.name_scopes");
  std::vector<std::string> parts;
  for (std::size_t at = scopes.find('\''); at != std::string::npos;) {
    const std::size_t end = scopes.find('\'', at + 1);
    if (end == std::string::npos) break;
    parts.push_back(scopes.substr(at + 1, end - at - 1));
    at = scopes.find('\'', end + 1);
  }
  return parts.size() >= 2 ? parts[parts.size() - 2] : std::string();
}

std::string exporter_note(const Node& node) { return metadata_of(node, kCallNote); }

std::vector<std::string> parameters_in_note(const std::string& note) {
  std::vector<std::string> names;
  for (std::size_t at = note.find("%p_"); at != std::string::npos; at = note.find("%p_", at + 1)) {
    std::size_t end = at + 1;
    while (end < note.size() && is_word(note[end])) ++end;
    std::string name = note.substr(at + 1, end - at - 1);
    std::transform(name.begin(), name.end(), name.begin(), lower);
    names.push_back(std::move(name));
  }
  return names;
}

std::string noted_parameter(const std::string& initializer) {
  std::string name = "p_" + initializer;
  for (char& c : name) c = is_word(c) ? lower(c) : '_';
  return name;
}

std::string parameter_name(const Node& node, const std::string& noted) {
  const std::string module = module_of(node);
  const std::string prefix = noted_parameter(module) + "_";
  if (module.empty() || !noted.starts_with(prefix)) return noted;
  return module + "." + noted.substr(prefix.size());
}

std::vector<std::string> convolutions_with_computed_weights(const Graph& graph) {
  std::vector<std::string> names;
  for (const auto& node : graph.nodes()) {
    if (!node->is("Conv") && !node->is("ConvTranspose")) continue;
    const Value* weight = node->operand(1);
    const std::string prefix = "onnx::" + node->op_type() + "_";
    if (weight != nullptr && weight->is_initializer() && weight->name().starts_with(prefix))
      names.push_back(describe(*node));
  }
  return names;
}

// The optimising exporter notes its rewrites; a BatchNormalization folded into a convolution leaves
// neither scale nor bias to train, and its running statistics no longer move.
Status check_nothing_folded(const Graph& graph) {
  std::vector<std::string> gone;
  for (const auto& node : graph.nodes()) {
    if (metadata_of(*node, "pkg.onnxscript.rewriter.rule_name").find("FuseBatchNorm") ==
        std::string::npos)
      continue;
    const std::string module = module_of(*node);
    gone.push_back(module.empty() ? "the one before " + describe(*node) : "'" + module + "'");
  }
  if (gone.empty()) return ok_status();
  return invalid_argument(
      "the exporter folded " + std::to_string(gone.size()) +
      " BatchNormalization layers into convolutions, so their scale, bias and statistics are gone "
      "and cannot be trained: " +
      join(gone, ", ") +
      ". Hint: export with torch.onnx.export(..., optimize=False), or with dynamo=False and "
      "training=TrainingMode.TRAINING");
}

std::unordered_map<std::string, std::string> noted_kinds(const Graph& graph) {
  std::unordered_map<std::string, std::string> kinds;
  for (const ValueInfo& info : graph.value_info) {
    for (const auto& [key, kind] : info.metadata) {
      if (key == "pkg.torch.export.graph_signature.InputSpec.kind") kinds[info.name] = kind;
    }
  }
  return kinds;
}

std::vector<std::string> lost_parameters(const Graph& graph) {
  std::set<std::string> noted;
  for (const auto& node : graph.nodes()) {
    for (std::string& name : parameters_in_note(exporter_note(*node)))
      noted.insert(std::move(name));
  }
  for (const Value* value : graph.initializers()) noted.erase(noted_parameter(value->name()));
  return {noted.begin(), noted.end()};
}

}  // namespace mezzo::passes
