// 1. y = Identity(w): y becomes an initializer.
// 2. Nodes that stem from one call of the exported program, as their notes tell, form a group. What
//    the call's parameters are that no initializer stands for is compared with what the group reads
//    beside its own: by name, else in order.
//
// 3. Ties that were computed away come back (restore_ties.h).
//
// Ones and zeros that only fill a normalisation's scale and bias are noted as constants on the way.
#include "passes/autodiff/separate_parameters.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "compiler/support/text.h"
#include "passes/autodiff/exporter_names.h"
#include "passes/autodiff/exporter_notes.h"
#include "passes/autodiff/module_paths.h"
#include "passes/autodiff/restore_ties.h"
#include "passes/autodiff/weight_facts.h"

namespace mezzo::passes {
namespace {

bool normalises(const Node& node) {
  return node.is("InstanceNormalization") || node.is("BatchNormalization") ||
         node.is("LayerNormalization") || node.is("GroupNormalization");
}

bool holds_only(const Value& value, double number) {
  const std::vector<double> values = value.constant()->to_doubles();
  return std::all_of(values.begin(), values.end(), [&](double v) { return v == number; });
}

// "bias" of "attn.in_proj_bias" and "fc.bias".
std::string last_word(const std::string& name) {
  const std::size_t end = name.find_last_of("._/");
  return end == std::string::npos ? name : name.substr(end + 1);
}

// Names that exporters give to what nodes compute: "/fc/Identity_output_0", "17", "clone_2".
bool is_result_name(const std::string& name, const Node& node) {
  static const std::set<std::string> calls = {"clone",    "alias",      "detach",         "view",
                                              "identity", "contiguous", "lift_fresh_copy"};
  const bool is_number = std::all_of(name.begin(), name.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
  std::string call = without_numbers(name);
  if (call.ends_with("_#")) call.resize(call.size() - 2);
  return is_number || name.starts_with('/') || name.starts_with("val_") || calls.count(call) > 0 ||
         name.substr(name.rfind('/') + 1).starts_with(node.op_type());
}

// `name` with its numbers exchanged for those of `other`, which reads the same without numbers.
std::string with_numbers_of(const std::string& name, const std::string& other) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  std::string text;
  std::size_t at = 0;
  for (std::size_t i = 0; i < name.size();) {
    if (!is_digit(name[i])) {
      text += name[i++];
      continue;
    }
    while (i < name.size() && is_digit(name[i])) ++i;
    while (at < other.size() && !is_digit(other[at])) ++at;
    while (at < other.size() && is_digit(other[at])) text += other[at++];
  }
  return text;
}

// Ones and zeros under a name of the exporter's, where a normalisation takes scale and bias: the
// layer has none (affine=False), or spells another normalisation by this one.
bool is_identity_affine(const Value& value, const ExporterNames& names) {
  if (!is_weight(&value) || !names.is_anonymous(value.name()) || value.uses().empty()) return false;
  const std::size_t operand = value.uses().front().operand;
  for (const Use& use : value.uses()) {
    if (!normalises(*use.node) || use.operand != operand || (operand != 1 && operand != 2))
      return false;
  }
  return holds_only(value, operand == 1 ? 1 : 0);
}

class Separation {
 public:
  Separation(Model& model, PassContext& ctx)
      : graph_(*model.graph),
        ctx_(ctx),
        from_pytorch_(model.producer_name == "pytorch"),
        names_(graph_, ctx.computed_constants) {}

  bool run() {
    for (const Value* value : graph_.initializers()) {
      if (is_identity_affine(*value, names_)) ctx_.computed_constants.insert(value->name());
    }
    for (Node* node : graph_.node_list()) {
      if (node->is("Identity") && is_weight(node->operand(0))) from_identity(*node);
    }
    for (const Value* value : graph_.initializers())
      present_.insert(noted_parameter(value->name()));
    for (const auto& [note, nodes] : groups()) from_notes(nodes);
    const bool tied = restore_ties(graph_, ctx_);
    if (!shared_.empty()) {
      ctx_.records.warnings.push_back(
          "the exporter stored as one, and they are trained as one: " + join(shared_, ", ") +
          ". Hint: if they are only equal at the start, export with torch.onnx.export(..., "
          "training=TrainingMode.TRAINING)");
    }
    if (made_.empty()) return tied;
    ctx_.stats.add("parameters-separated", static_cast<std::int64_t>(made_.size()));
    ctx_.records.warnings.push_back(
        "the exporter stored parameters of equal value once; " + std::to_string(made_.size()) +
        " of them are trained by themselves again: " + join(made_, ", "));
    return true;
  }

 private:
  // `name` as it is where it is free.
  Value* copy_of(const Value& weight, const std::string& name) {
    Value* copy = graph_.add_initializer(
        graph_.find_visible(name) == nullptr ? name : graph_.unique_name(name), weight.constant());
    made_.push_back(copy->name());
    return copy;
  }

  // TorchScript's exporter lets Identity(w) stand for a parameter that it merged with w, under the
  // parameter's own name. What a module calls (clone, alias) has a note of torch.export or a name
  // of the exporter's. In files of others Identity ties, unless both names are a module's.
  bool stands_for_parameter(const Node& node) const {
    const std::string &from = node.operand(0)->name(), &name = node.result()->name();
    if (!exporter_note(node).empty() || is_result_name(name, node)) return false;
    if (names_.is_anonymous(name)) return is_another_computed(node);
    const bool of_modules = name.find('.') != std::string::npos;
    if (!from_pytorch_ && !of_modules) return false;
    if (without_numbers(from) == without_numbers(name)) return true;
    return has_one_value(*node.operand(0)->constant()) &&
           (from_pytorch_ || last_word(from) == last_word(name));
  }

  // Names of what TorchScript's exporter computed say nothing ("onnx::MatMul_406"): of one value,
  // it was equal by chance; else the nodes that read it are named after their modules.
  bool is_another_computed(const Node& node) const {
    if (!node.result()->name().starts_with("onnx::")) return false;
    if (has_one_value(*node.operand(0)->constant())) return true;
    if (!names_.is_anonymous(node.operand(0)->name())) return false;
    const std::string mine = paths_.of_user(*node.result());
    const std::string others = paths_.of_user(*node.operand(0));
    return mine != others && without_numbers(mine) == without_numbers(others);
  }

  // What the exporter notes of the weight is true of the copy: without, it would count as computed.
  void note_as(const Value& weight, const Value& copy) {
    const auto note =
        std::find_if(graph_.value_info.begin(), graph_.value_info.end(),
                     [&](const ValueInfo& info) { return info.name == weight.name(); });
    if (note == graph_.value_info.end() || note->metadata.empty()) return;
    ValueInfo noted = *note;
    noted.name = copy.name();
    graph_.value_info.push_back(std::move(noted));
  }

  void from_identity(Node& node) {
    Value* result = node.result();
    const Value& weight = *node.operand(0);
    if (result == nullptr || result->is_graph_output() || !result->inner_outputs().empty()) return;
    if (!stands_for_parameter(node)) {
      const bool of_a_module = from_pytorch_ || result->name().find('.') != std::string::npos;
      if (exporter_note(node).empty() && of_a_module && weight.uses().size() > 1 &&
          !names_.is_anonymous(result->name()) && !is_result_name(result->name(), node))
        shared_.push_back("'" + result->name() + "' with '" + weight.name() + "'");
      return;
    }
    const std::string name = result->name();
    graph_.rename(result, graph_.unique_name(name + "/merged"));
    Value* copy = copy_of(weight, name);
    note_as(weight, *copy);
    graph_.replace_uses(result, copy);
    graph_.erase(&node);
  }

  // Nodes with the same note, in order.
  std::vector<std::pair<std::string, std::vector<Node*>>> groups() const {
    std::vector<std::pair<std::string, std::vector<Node*>>> all;
    std::map<std::string, std::size_t> places;
    for (const auto& node : graph_.nodes()) {
      const std::string note = exporter_note(*node);
      if (note.empty()) continue;
      const auto [place, fresh] = places.emplace(note, all.size());
      if (fresh) all.emplace_back(note, std::vector<Node*>());
      all[place->second].second.push_back(node.get());
    }
    return all;
  }

  struct Reading {
    Node* node;
    std::size_t operand;
    Value* weight;
  };

  // What the nodes read of weights that are not the call's own by name.
  std::vector<Reading> foreign(const std::vector<Node*>& nodes,
                               const std::vector<std::string>& noted) const {
    std::vector<Reading> readings;
    for (Node* node : nodes) {
      for (std::size_t i = 0; i < node->operand_count(); ++i) {
        Value* weight = node->operand(i);
        if (!is_weight(weight) || weight->constant()->dims().empty()) continue;
        const std::string own = noted_parameter(weight->name());
        if (std::find(noted.begin(), noted.end(), own) == noted.end())
          readings.push_back({node, i, weight});
      }
    }
    return readings;
  }

  void from_notes(const std::vector<Node*>& nodes) {
    std::vector<std::string> noted = parameters_in_note(exporter_note(*nodes.front()));
    const std::vector<Reading> readings = foreign(nodes, noted);
    std::vector<std::string> lost;
    for (const std::string& name : noted) {
      if (present_.count(name) == 0) lost.push_back(name);
    }
    for (std::size_t i = 0; i < readings.size(); ++i) {
      const Reading& reading = readings[i];
      const std::string similar = without_numbers(owner(*reading.weight));
      auto parameter = std::find_if(lost.begin(), lost.end(), [&](const std::string& name) {
        return without_numbers(name) == similar;
      });
      if (parameter == lost.end() && readings.size() == lost.size() &&
          (has_one_value(*reading.weight->constant()) || is_computed(*reading.weight)))
        parameter = lost.begin() + static_cast<std::ptrdiff_t>(i);
      if (parameter != lost.end()) {
        separate(reading, *parameter);
      } else if (lost.empty() && fills_normalisation(reading)) {
        // A name that ExporterNames know again, should this pass run twice.
        const std::string name = graph_.unique_name(reading.weight->name() + "/Constant");
        reading.node->set_operand(reading.operand,
                                  graph_.add_initializer(name, reading.weight->constant()));
        ctx_.computed_constants.insert(name);
      }
    }
    for (const std::string& name : lost) {
      if (name.ends_with("_bias")) restore_bias(nodes, name, readings.size(), lost.size());
    }
  }

  // Ones or zeros of a normalisation without parameters, merged with a parameter of that value.
  static bool fills_normalisation(const Reading& reading) {
    const Value& weight = *reading.weight;
    if (!normalises(*reading.node) || (reading.operand != 1 && reading.operand != 2)) return false;
    const std::string own = noted_parameter(weight.name());
    const bool is_parameter =
        std::any_of(weight.uses().begin(), weight.uses().end(), [&](const Use& use) {
          const auto noted = parameters_in_note(exporter_note(*use.node));
          return std::find(noted.begin(), noted.end(), own) != noted.end();
        });
    return is_parameter && holds_only(weight, reading.operand == 1 ? 1 : 0);
  }

  // The parameter that a weight without a name of its own belongs to: the first that claimed it.
  std::string owner(const Value& weight) const {
    const auto claimed = claims_.find(&weight);
    return claimed == claims_.end() ? noted_parameter(weight.name()) : claimed->second;
  }

  void separate(const Reading& reading, const std::string& parameter) {
    Value* weight = reading.weight;
    const bool shared = std::any_of(
        weight->uses().begin(), weight->uses().end(),
        [&](const Use& use) { return exporter_note(*use.node) != exporter_note(*reading.node); });
    if (!shared) return;
    const bool computed = is_computed(*weight);
    if (computed) {
      const auto [claim, first] = claims_.emplace(weight, parameter);
      if (first || claim->second == parameter) return;  // the first keeps it, in all its calls
    }
    Value*& copy = copies_[{weight, parameter}];  // one for all calls of the module
    if (copy == nullptr) {
      // A copy of "layers.0.fc.weight" noted as "p_layers_1_fc_weight" is "layers.1.fc.weight".
      std::string name = with_numbers_of(weight->name(), parameter);
      if (noted_parameter(name) != parameter) name = parameter_name(*reading.node, parameter);
      if (computed) name = graph_.unique_name(weight->name());
      copy = copy_of(*weight, name);
    }
    reading.node->set_operand(reading.operand, copy);
  }

  // A Gemm whose call had a bias that nothing stands for: it was zero and left out.
  void restore_bias(const std::vector<Node*>& nodes, const std::string& parameter,
                    std::size_t readings, std::size_t lost) {
    Node* gemm = nullptr;
    for (Node* node : nodes) {
      if (!node->is("Gemm")) continue;
      if (gemm != nullptr || node->operand(2) != nullptr) return;
      gemm = node;
    }
    if (gemm == nullptr || !is_weight(gemm->operand(1)) || lost != readings + 1) return;
    const Tensor& weight = *gemm->operand(1)->constant();
    if (weight.dims().size() != 2) return;
    const std::int64_t columns = weight.dims()[gemm->int_attribute("transB", 0) != 0 ? 0 : 1];
    const std::vector<float> zeros(static_cast<std::size_t>(columns), 0.0F);
    // Beside "attn.out_proj.weight" the note's "p_attn_out_proj_bias" is "attn.out_proj.bias".
    std::string name = gemm->operand(1)->name();
    if (name.ends_with("weight")) name.replace(name.size() - 6, 6, "bias");
    if (noted_parameter(name) != parameter) name = parameter_name(*gemm, parameter);
    if (const auto made = biases_.find(name); made != biases_.end()) {
      gemm->set_operand(2, made->second);
      return;
    }
    if (graph_.find_visible(name) != nullptr) return;
    TensorRef bias = Tensor::from_floats({columns}, zeros);
    if (weight.dtype() != DType::kFloat32) bias = Tensor::cast_of(bias, weight.dtype(), false);
    gemm->set_operand(2, biases_[name] = graph_.add_initializer(name, bias));
    made_.push_back(name);
  }

  Graph& graph_;
  PassContext& ctx_;
  ModulePaths paths_{graph_};
  bool from_pytorch_;
  ExporterNames names_;
  std::set<std::string> present_;  // initializers of the file, as notes spell them
  std::map<const Value*, std::string> claims_;
  std::map<std::pair<const Value*, std::string>, Value*> copies_;
  std::map<std::string, Value*> biases_;
  std::vector<std::string> made_, shared_;
};

}  // namespace

StatusOr<bool> separate_parameters(Model& model, PassContext& ctx) {
  return Separation(model, ctx).run();
}

}  // namespace mezzo::passes
