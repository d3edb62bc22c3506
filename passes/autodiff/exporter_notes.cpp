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

// The module path that PyTorch's exporter notes for a node: the deepest entry of "['', 'net',
// 'net.1', ...]" before the function's own name.
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

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// How the exporter spells a parameter in its notes: "net.1.weight" is "p_net_1_weight".
std::string noted_name(const std::string& initializer) {
  std::string name = "p_" + initializer;
  for (char& c : name) {
    if (!is_word(c)) c = '_';
  }
  return name;
}

}  // namespace

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

std::vector<std::string> lost_parameters(const Graph& graph) {
  std::set<std::string> noted;
  for (const auto& node : graph.nodes()) {
    const std::string note = metadata_of(*node, "pkg.torch.onnx.fx_node");
    for (std::size_t at = note.find("%p_"); at != std::string::npos;
         at = note.find("%p_", at + 1)) {
      std::size_t end = at + 1;
      while (end < note.size() && is_word(note[end])) ++end;
      noted.insert(note.substr(at + 1, end - at - 1));
    }
  }
  for (const Value* value : graph.initializers()) noted.erase(noted_name(value->name()));
  return {noted.begin(), noted.end()};
}

}  // namespace mezzo::passes
