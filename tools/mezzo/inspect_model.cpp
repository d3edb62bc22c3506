// What an ONNX model holds, and what training it would train.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "compiler/ir/clone.h"
#include "compiler/onnx/import.h"
#include "compiler/report/text_table.h"
#include "compiler/support/text.h"
#include "passes/autodiff/select_parameters.h"
#include "passes/pass_runner.h"
#include "passes/pipeline.h"
#include "tools/mezzo/inspect.h"
#include "tools/mezzo/model_training.h"

namespace mezzo::cli {
namespace {

using nlohmann::json;

struct Fate {
  bool trained = false;
  std::string reason;
};

// Which initializers `mezzo train` would train, found as it finds them: on the normalised graph.
struct TrainingView {
  std::string loss;  // "" where there is none
  std::string why;   // no loss, or nothing to train
  std::unordered_map<std::string, Fate> fates;
};

Status choose(Model& model, std::string loss_output, TrainingView& view) {
  passes::PassContext ctx;
  if (loss_output.empty() && passes::find_training_algorithm(model) != nullptr) {
    MEZZO_ASSIGN_OR_RETURN(const passes::TrainingRecipe recipe, passes::adopt_training_info(model));
    loss_output = recipe.loss;
    ctx.training_options.parameters = parameters_of(recipe);
  }
  ctx.training_options.loss_output = loss_output;
  MEZZO_ASSIGN_OR_RETURN(const auto first,
                         passes::parse_passes("widen-weights,separate-parameters,infer-shapes"));
  MEZZO_RETURN_IF_ERROR(passes::run_passes(model, ctx, first));
  MEZZO_ASSIGN_OR_RETURN(const Value* loss, passes::find_loss(*model.graph, loss_output));
  view.loss = loss->name();
  MEZZO_ASSIGN_OR_RETURN(const auto rest,
                         passes::parse_passes("infer-shapes,fold-constants,normalise,"
                                              "fold-constants,recognise,prepare-training"));
  MEZZO_RETURN_IF_ERROR(passes::run_passes(model, ctx, rest));
  MEZZO_ASSIGN_OR_RETURN(loss, passes::find_loss(*model.graph, view.loss));
  MEZZO_ASSIGN_OR_RETURN(
      const auto choices,
      passes::select_parameters(*model.graph, *loss, ctx.training_options, ctx.computed_constants));
  for (const passes::ParameterChoice& choice : choices) {
    view.fates[choice.value->name()] = {choice.trained, choice.reason};
  }
  return ok_status();
}

TrainingView training_view(const Model& model, const std::string& loss_output) {
  TrainingView view;
  const std::unique_ptr<Model> copy = clone_model(model);
  if (const Status status = choose(*copy, loss_output, view); !status.ok())
    view.why = status.message();
  return view;
}

class ModelPrinter {
 public:
  ModelPrinter(const Model& model, const InspectOptions& options)
      : model_(model), graph_(*model.graph), options_(options) {}

  Inspection run(const std::vector<std::string>& warnings) {
    head();
    values("inputs", graph_.inputs());
    values("outputs", graph_.outputs());
    operators();
    initializers();
    for (const std::string& warning : warnings)
      text_ += "warning: " + printable(warning, 400) + "\n";
    json_["warnings"] = warnings;
    return {std::move(text_), std::make_shared<const json>(std::move(json_))};
  }

 private:
  void head() {
    std::vector<std::string> opsets;
    json opset_list = json::array();
    for (const OpsetImport& opset : model_.opsets) {
      opsets.push_back((opset.domain.empty() ? "ai.onnx" : printable(opset.domain, 60)) + " " +
                       std::to_string(opset.version));
      opset_list.push_back({{"domain", opset.domain}, {"version", opset.version}});
    }
    text_ += fmt::format("ONNX model '{}', IR version {}, opsets {}\n", printable(graph_.name),
                         model_.ir_version, join(opsets, ", "));
    if (!model_.producer_name.empty()) {
      text_ += fmt::format("made by {} {}\n", printable(model_.producer_name, 60),
                           printable(model_.producer_version, 60));
    }
    if (!model_.functions.empty()) {
      text_ += fmt::format("{} model-local functions\n", model_.functions.size());
    }
    json_ = {{"kind", "model"},
             {"graph", graph_.name},
             {"ir_version", model_.ir_version},
             {"opsets", std::move(opset_list)},
             {"producer_name", model_.producer_name},
             {"producer_version", model_.producer_version},
             {"functions", model_.functions.size()},
             {"training_info", model_.training_info.size()}};
  }

  void values(const char* what, const std::vector<Value*>& list_of_values) {
    json list = json::array();
    text_ += fmt::format("\n{}\n", what);
    for (const Value* value : list_of_values) {
      const std::string type = to_string(value->type);
      const bool has_default = value->is_graph_input() && value->is_initializer();
      text_ += fmt::format("  {}  {}{}\n", printable(value->name()), printable(type),
                           has_default ? "  (has a default)" : "");
      list.push_back({{"name", value->name()}, {"type", type}});
    }
    json_[what] = std::move(list);
  }

  void operators() {
    std::map<std::string, std::size_t> counts;
    std::size_t nodes = 0;
    for_each_graph(*model_.graph, [&](const Graph& graph) {
      for (const auto& node : graph.nodes()) {
        ++counts[node->domain().empty() ? node->op_type() : node->domain() + "." + node->op_type()];
        ++nodes;
      }
    });
    std::vector<std::pair<std::string, std::size_t>> sorted(counts.begin(), counts.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    text_ += fmt::format("\n{} nodes\n", nodes);
    TextTable table({{"count", true}, {"op", false, 20}});
    for (const auto& [op, count] : sorted) table.add({std::to_string(count), printable(op)});
    if (!table.empty()) text_ += table.text(options_.width);
    json_["nodes"] = nodes;
    json_["operators"] = counts;
  }

  void initializers() {
    const TrainingView view = training_view(model_, options_.loss_output);
    TextTable table({{"initializer", false, 20},
                     {"type", false, 10},
                     {"bytes", true},
                     {"trained"},
                     {"why", false, 20}});
    json list = json::array();
    std::uint64_t bytes = 0;
    std::size_t trained = 0;
    for (const Value* value : graph_.initializers()) {
      const std::uint64_t size = value->constant() ? value->constant()->byte_size() : 0;
      const Fate fate = fate_of(*value, view);
      bytes += size;
      trained += fate.trained ? 1 : 0;
      const bool is_known = fate.trained || !fate.reason.empty();
      table.add({printable(value->name()), printable(to_string(value->type)), format_bytes(size),
                 fate.trained ? "yes"
                 : is_known   ? "no"
                              : "?",
                 printable(fate.reason)});
      list.push_back({{"name", value->name()},
                      {"type", to_string(value->type)},
                      {"bytes", size},
                      {"trained", fate.trained},
                      {"reason", fate.reason}});
    }
    text_ += fmt::format("\n{} initializers, {}\n", list.size(), format_bytes(bytes));
    if (!table.empty()) text_ += table.text(options_.width);
    text_ += "\n" + training_text(view, trained);
    json_["initializers"] = std::move(list);
    json_["training"] = {{"loss", view.loss}, {"trained", trained}, {"why_not", view.why}};
  }

  static Fate fate_of(const Value& value, const TrainingView& view) {
    if (!is_floating(value.dtype())) return {false, "not floating-point"};
    if (view.fates.empty()) return {};
    const auto found = view.fates.find(value.name());
    return found == view.fates.end() ? Fate{false, "simplified away"} : found->second;
  }

  static std::string training_text(const TrainingView& view, std::size_t trained) {
    if (!view.why.empty()) return "not trainable as it is: " + printable(view.why, 600) + "\n";
    return fmt::format("`mezzo train` minimises '{}' and trains {} initializers\n",
                       printable(view.loss), trained);
  }

  const Model& model_;
  const Graph& graph_;
  const InspectOptions& options_;
  std::string text_;
  json json_;
};

}  // namespace

StatusOr<Inspection> inspect_model(const std::string& path, const InspectOptions& options) {
  std::vector<std::string> warnings;
  ImportOptions import_options;
  import_options.warnings = &warnings;
  MEZZO_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, load_model(path, import_options));
  return ModelPrinter(*model, options).run(warnings);
}

}  // namespace mezzo::cli
