// 1. y = Identity(w): y becomes an initializer.
// 2. Nodes that stem from one call of the exported program, as their notes tell, form a group. What
//    the call's parameters are that no initializer stands for is compared with what the group reads
//    beside its own: by name, else in order.
//
// 3. An output layer that holds an embedding transposed reads the embedding, and what was expanded
//    over the batch ahead of time is expanded when it runs.
//
// Ones and zeros that only fill a normalisation's scale and bias are noted as constants on the way.
#include "passes/autodiff/separate_parameters.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <set>
#include <span>

#include "compiler/support/text.h"
#include "passes/autodiff/exporter_notes.h"
#include "passes/autodiff/module_paths.h"
#include "passes/autodiff/select_parameters.h"

namespace mezzo::passes {
namespace {

constexpr std::int64_t kMostCompared = std::int64_t{1} << 26;

bool is_weight(const Value* value) {
  return value != nullptr && value->is_fixed() && value->constant() && is_floating(value->dtype());
}

// All elements are the same: what two parameters are equal in when they are made.
bool has_one_value(const Tensor& tensor) {
  if (tensor.dims().empty() || tensor.elems() == 0 || tensor.elems() > kMostCompared) return false;
  const std::vector<double> values = tensor.to_doubles();
  return !values.empty() && std::all_of(values.begin(), values.end(),
                                        [&](double value) { return value == values.front(); });
}

// "layers.12.fc" and "layers.3.fc" read the same.
std::string without_numbers(const std::string& name) {
  std::string text;
  for (const char c : name) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      if (text.empty() || text.back() != '#') text += '#';
    } else {
      text += c;
    }
  }
  return text;
}

// The exporter's own names are of what it computed, such as a transposed weight.
bool is_computed(const Value& weight) { return weight.name().starts_with("val_"); }

bool normalises(const Node& node) {
  return node.is("InstanceNormalization") || node.is("BatchNormalization") ||
         node.is("LayerNormalization") || node.is("GroupNormalization");
}

bool holds_only(const Value& value, double number) {
  const std::vector<double> values = value.constant()->to_doubles();
  return std::all_of(values.begin(), values.end(), [&](double v) { return v == number; });
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
bool is_identity_affine(const Value& value) {
  if (!is_weight(&value) || !is_anonymous(value.name()) || value.uses().empty()) return false;
  const std::size_t operand = value.uses().front().operand;
  for (const Use& use : value.uses()) {
    if (!normalises(*use.node) || use.operand != operand || (operand != 1 && operand != 2))
      return false;
  }
  return holds_only(value, operand == 1 ? 1 : 0);
}

// The bytes of `turned` [b,a] are those of `weight` [a,b] transposed.
bool is_transpose(const Tensor& turned, const Tensor& weight) {
  const std::vector<std::int64_t>& dims = weight.dims();
  if (dims.size() != 2 || turned.dims() != std::vector<std::int64_t>{dims[1], dims[0]} ||
      turned.dtype() != weight.dtype())
    return false;
  const auto bytes_of = [](const Tensor& tensor, std::vector<std::byte>& copy) {
    const std::span<const std::byte> stored = tensor.stored_bytes();
    if (!stored.empty()) return stored;
    copy = tensor.copy_bytes();
    return std::span<const std::byte>(copy);
  };
  std::vector<std::byte> copies[2];
  const auto a = bytes_of(turned, copies[0]), b = bytes_of(weight, copies[1]);
  const auto rows = static_cast<std::size_t>(dims[0]), columns = static_cast<std::size_t>(dims[1]);
  const std::size_t size = rows * columns == 0 ? 0 : b.size() / (rows * columns);
  if (size == 0 || a.size() != b.size()) return false;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      if (std::memcmp(&a[(c * rows + r) * size], &b[(r * columns + c) * size], size) != 0)
        return false;
    }
  }
  return true;
}

class Separation {
 public:
  Separation(Graph& graph, PassContext& ctx) : graph_(graph), ctx_(ctx) {}

  bool run() {
    for (const Value* value : graph_.initializers()) {
      if (is_identity_affine(*value)) ctx_.computed_constants.insert(value->name());
    }
    for (Node* node : graph_.node_list()) {
      if (node->is("Identity") && is_weight(node->operand(0))) from_identity(*node);
    }
    for (const Value* value : graph_.initializers())
      present_.insert(noted_parameter(value->name()));
    for (const auto& [note, nodes] : groups()) from_notes(nodes);
    const bool tied = tie_output_layers();
    const bool collapsed = undo_expansions();
    if (!shared_.empty()) {
      ctx_.records.warnings.push_back(
          "the exporter stored as one, and they are trained as one: " + join(shared_, ", ") +
          ". Hint: if they are only equal at the start, export with torch.onnx.export(..., "
          "training=TrainingMode.TRAINING)");
    }
    if (made_.empty()) return tied || collapsed;
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

  void from_identity(Node& node) {
    Value* result = node.result();
    const Value& weight = *node.operand(0);
    if (result == nullptr || result->is_graph_output() || !result->inner_outputs().empty()) return;
    if (!is_another_parameter(weight, *result)) {
      if (!is_anonymous(result->name()))
        shared_.push_back("'" + result->name() + "' with '" + weight.name() + "'");
      return;
    }
    const std::string name = result->name();
    graph_.rename(result, graph_.unique_name(name + "/merged"));
    graph_.replace_uses(result, copy_of(weight, name));
    graph_.erase(&node);
  }

  // Whether `result` = Identity(`weight`) was a parameter by itself, of the same value, rather than
  // one that several calls share.
  bool is_another_parameter(const Value& weight, const Value& result) const {
    if (has_one_value(*weight.constant())) return true;
    if (!is_anonymous(weight.name()) || !is_anonymous(result.name()))
      return without_numbers(weight.name()) == without_numbers(result.name());
    // Transposed: the names say nothing, but the nodes are named after their modules.
    const std::string mine = paths_.of_user(result), others = paths_.of_user(weight);
    return mine != others && without_numbers(mine) == without_numbers(others);
  }

  // torch.export's optimiser computes x.expand(batch, ...) of a parameter where the batch is fixed:
  // each sample would then train a copy of its own.
  bool undo_expansions() {
    bool changed = false;
    const std::vector<Value*> initializers = graph_.initializers();
    for (Value* expanded : initializers) {
      if (!is_weight(expanded) || !is_expansion(*expanded)) continue;
      const TensorRef tensor = expanded->constant();
      const std::vector<std::int64_t> dims = tensor->dims();
      std::vector<std::int64_t> one = dims;
      one[0] = 1;
      std::vector<std::byte> bytes = tensor->copy_bytes();
      bytes.resize(bytes.size() / static_cast<std::size_t>(dims[0]));
      const std::string name = expanded->name();
      graph_.rename(expanded, graph_.unique_name(name + "/expanded"));
      const std::vector<Value*> operands = {
          graph_.add_initializer(name, Tensor::from_bytes(tensor->dtype(), one, std::move(bytes))),
          graph_.add_initializer(
              graph_.unique_name(name + "/shape"),
              Tensor::from_ints({static_cast<std::int64_t>(dims.size())}, dims))};
      const std::vector<std::string> names = {graph_.unique_name(name + "/by_sample")};
      Node* node = graph_.add_node("Expand", "", operands, names, graph_.nodes().front().get());
      node->name = names[0];
      node->result()->type = expanded->type;
      graph_.replace_uses(expanded, node->result());
      graph_.erase_initializer(expanded);
      ctx_.stats.add("expansions-undone", 1);
      changed = true;
    }
    return changed;
  }

  // Named after a call of expand, with equal slices along the first axis.
  static bool is_expansion(const Value& value) {
    const Tensor& tensor = *value.constant();
    const std::string name = without_numbers(value.name());
    if ((name != "expand" && name != "expand_#") || tensor.dims().size() < 2 ||
        tensor.dims()[0] < 2 || tensor.elems() > kMostCompared)
      return false;
    const std::vector<std::byte> bytes = tensor.copy_bytes();
    const std::size_t slice = bytes.size() / static_cast<std::size_t>(tensor.dims()[0]);
    for (std::size_t at = slice; slice > 0 && at + slice <= bytes.size(); at += slice) {
      if (std::memcmp(bytes.data(), bytes.data() + at, slice) != 0) return false;
    }
    return slice > 0 && value.uses().size() > 0 && !value.is_graph_output();
  }

  // Exporters transpose the weight of an output layer ahead of time; where that weight is the
  // embedding's, or else used as it is, the two part.
  bool tie_output_layers() {
    bool changed = false;
    const std::vector<Value*> initializers = graph_.initializers();
    for (Value* turned : initializers) {
      if (!is_weight(turned) || !is_turned_name(turned->name())) continue;
      for (Value* weight : initializers) {
        if (weight == turned || !is_weight(weight) || is_turned_name(weight->name()) ||
            !is_transpose(*turned->constant(), *weight->constant()) ||
            has_one_value(*weight->constant()))  // last, as it reads all of the table
          continue;
        // Two symmetric matrices, such as identities, may be equal by chance.
        if (!is_table(*weight) && is_transpose(*weight->constant(), *weight->constant())) continue;
        tie(turned, weight);
        changed = true;
        break;
      }
    }
    return changed;
  }

  static bool is_table(const Value& weight) {
    return std::any_of(weight.uses().begin(), weight.uses().end(),
                       [](const Use& use) { return use.node->is("Gather") && use.operand == 0; });
  }

  // What the exporters call a matrix that they have transposed: "onnx::MatMul_12" or "val_4", or
  // after the call that did it, "t" or "transpose_1".
  static bool is_turned_name(const std::string& name) {
    const std::string call = without_numbers(name);
    return name.starts_with("onnx::MatMul_") || name.starts_with("val_") || call == "t" ||
           call == "t_#" || call == "transpose" || call == "transpose_#" || call == "permute" ||
           call == "permute_#" || call == "numpy_t" || call == "numpy_t_#";
  }

  void tie(Value* turned, Value* weight) {
    Node* first = graph_.nodes().empty() ? nullptr : graph_.nodes().front().get();
    const std::vector<std::string> names = {graph_.unique_name(weight->name() + "/transposed")};
    const std::vector<Value*> operands = {weight};
    Node* transpose = graph_.add_node("Transpose", "", operands, names, first);
    transpose->name = names[0];
    transpose->result()->type = turned->type;
    ctx_.records.warnings.push_back("'" + turned->name() + "' is '" + weight->name() +
                                    "' transposed: they are trained as one, as they were tied");
    graph_.replace_uses(turned, transpose->result());
    if (!turned->has_uses() && !turned->is_graph_input()) graph_.erase_initializer(turned);
    ctx_.stats.add("parameters-tied", 1);
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
        // A name that is_anonymous() knows again, should this pass run twice.
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
  std::set<std::string> present_;  // initializers of the file, as notes spell them
  std::map<const Value*, std::string> claims_;
  std::map<std::pair<const Value*, std::string>, Value*> copies_;
  std::map<std::string, Value*> biases_;
  std::vector<std::string> made_, shared_;
};

}  // namespace

StatusOr<bool> separate_parameters(Model& model, PassContext& ctx) {
  return Separation(*model.graph, ctx).run();
}

}  // namespace mezzo::passes
