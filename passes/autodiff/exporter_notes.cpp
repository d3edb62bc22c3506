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

// What stands between single quotes, as in "['m.weight', 'val_3']".
std::vector<std::string> quoted(std::string_view text) {
  std::vector<std::string> items;
  for (std::size_t at = text.find('\''); at != std::string_view::npos;) {
    const std::size_t end = text.find('\'', at + 1);
    if (end == std::string_view::npos) break;
    items.emplace_back(text.substr(at + 1, end - at - 1));
    at = text.find('\'', end + 1);
  }
  return items;
}

// The module's parameters, from the exported program's signature: lines such as
// "p_fc_weight: PARAMETER target='fc.weight'". Empty without a note.
std::set<std::string> signature_parameters(const Graph& graph) {
  std::set<std::string> names;
  for (const auto& [key, signature] : graph.metadata) {
    if (key != "pkg.torch.export.ExportedProgram.graph_signature") continue;
    constexpr std::string_view kMark = ": PARAMETER target=";
    std::string_view rest = signature;
    for (std::size_t at = rest.find(kMark); at != std::string_view::npos; at = rest.find(kMark)) {
      rest.remove_prefix(at + kMark.size());
      const std::vector<std::string> target = quoted(rest.substr(0, rest.find('\n')));
      if (!target.empty()) names.insert(target.front());
    }
  }
  return names;
}

constexpr const char* kCallNote = "pkg.torch.onnx.fx_node";

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

}  // namespace

std::string module_of(const Node& node) {
  const std::vector<std::string> parts = quoted(metadata_of(node, "pkg.torch.onnx.name_scopes"));
  return parts.size() >= 2 ? parts[parts.size() - 2] : std::string();
}

std::string exporter_note(const Node& node) { return metadata_of(node, kCallNote); }

NotedCall noted_call(const Node& node) {
  constexpr std::string_view kTarget = "call_function[target=", kArguments = "](args = (";
  const std::string note = exporter_note(node);
  const std::size_t target = note.find(kTarget);
  if (target == std::string::npos) return {};
  const std::size_t name = target + kTarget.size(), end = note.find(kArguments, name);
  if (end == std::string::npos) return {};
  NotedCall call{note.substr(name, end - name), {}};
  int depth = 0;  // of brackets: a list is one argument
  std::string argument;
  for (std::size_t at = end + kArguments.size(); at < note.size(); ++at) {
    const char c = note[at];
    if (depth == 0 && (c == ',' || c == ')')) {
      if (!argument.empty()) call.arguments.push_back(argument);
      argument.clear();
      if (c == ')') break;
      continue;
    }
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (c != ' ' || !argument.empty()) argument += c;
  }
  return call;
}

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
  const std::set<std::string> parameters = signature_parameters(graph);
  for (const ValueInfo& info : graph.value_info) {
    for (const auto& [key, note] : info.metadata) {
      if (key == "pkg.torch.export.graph_signature.InputSpec.kind") kinds[info.name] = note;
      if (key != "pkg.onnxscript.optimizer.folded_from" || parameters.empty()) continue;
      const std::vector<std::string> sources = quoted(note);
      const bool learned =
          std::any_of(sources.begin(), sources.end(),
                      [&](const std::string& name) { return parameters.count(name) > 0; });
      if (!learned) kinds.emplace(info.name, kComputedKind);
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

std::vector<std::string> untraced_parameters(const Graph& graph) {
  std::set<std::string> traced;
  for (const auto& node : graph.nodes()) {
    for (std::string& name : parameters_in_note(exporter_note(*node)))
      traced.insert(std::move(name));
  }
  for (const Value* value : graph.initializers()) traced.insert(noted_parameter(value->name()));
  std::vector<std::string> names;
  for (const std::string& name : signature_parameters(graph)) {
    if (traced.count(noted_parameter(name)) == 0) names.push_back(name);
  }
  return names;
}

std::vector<const Value*> computed_initializers(const Graph& graph) {
  const auto kinds = noted_kinds(graph);
  const bool tells = std::any_of(kinds.begin(), kinds.end(),
                                 [](const auto& entry) { return entry.second == "PARAMETER"; });
  if (!tells || !lost_parameters(graph).empty()) return {};
  std::set<std::string> parameters;  // some were one initializer in the file, without notes
  for (const auto& node : graph.nodes()) {
    for (std::string& name : parameters_in_note(exporter_note(*node)))
      parameters.insert(std::move(name));
  }
  std::vector<const Value*> computed;
  for (const Value* value : graph.initializers()) {
    if (is_floating(value->dtype()) && kinds.count(value->name()) == 0 &&
        parameters.count(noted_parameter(value->name())) == 0)
      computed.push_back(value);
  }
  return computed;
}

}  // namespace mezzo::passes
