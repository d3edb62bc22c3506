// 1. From the last node to the first: an elementwise node that is in no group yet starts one, its
//    result is the group's.
// 2. A value that the group reads, of the result's dims, whose readers are all in the group and
//    whose producer is elementwise: the producer joins, as long as the program stays within the
//    limits of the kernels.
// 3. Groups of two and more become a FusedElementwise in the place of their last node.
//
// A producer that is far ahead joins only if it reads no more bytes than it writes, as what it
// reads must now stay until the group runs.

#include "passes/fusion/fuse_elementwise.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ops/op_def.h"
#include "kernels/element_program.h"
#include "passes/cleanup/match.h"

namespace mezzo::passes {
namespace {

using kernels::ElementOp;
using kernels::ElementProgram;
using kernels::ElementSource;
using kernels::ElementStatement;

// Nodes between a producer and the group beyond which memory counts for more than traffic.
constexpr int kNear = 16;

bool is_number(DType dtype) { return dtype == DType::kFloat32 || is_low(dtype); }

// The kernel's attributes, of which element programs take numbers and strings.
kernels::Attributes attributes_of(const LoweredOp& lowered) {
  kernels::Attributes attributes;
  for (const Attribute& attribute : lowered.attributes) {
    switch (attribute.kind()) {
      case Attribute::Kind::kFloat:
        attributes.set(attribute.name, static_cast<double>(std::get<float>(attribute.value)));
        break;
      case Attribute::Kind::kInt:
        attributes.set(attribute.name, std::get<std::int64_t>(attribute.value));
        break;
      case Attribute::Kind::kString:
        attributes.set(attribute.name, std::get<std::string>(attribute.value));
        break;
      default: break;
    }
  }
  return attributes;
}

// An elementwise node in the form of kernels.
struct Element {
  std::string op;
  kernels::Attributes attributes;
  std::vector<Value*> operands;  // null: absent
};

class Fuser {
 public:
  Fuser(Graph& graph, PassContext& ctx) : graph_(graph), ctx_(ctx) {}

  bool run() {
    const std::vector<Node*> nodes = graph_.node_list();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      position_[nodes[i]] = static_cast<int>(i);
      if (auto element = element_of(*nodes[i])) elements_.emplace(nodes[i], *std::move(element));
    }
    bool changed = false;
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      if (elements_.count(*node) == 0 || taken_.count(*node) > 0) continue;
      changed = fuse_from(**node) || changed;
    }
    return changed;
  }

 private:
  bool is_trained(const Value& value) const {
    return ctx_.training && ctx_.training->gradients.count(value.name()) > 0;
  }

  // ---- which nodes

  // The word for a cast's target in a program; nullopt: no program has it. "": nothing to do, as
  // programs compute in float32.
  std::optional<std::string> cast_word(const Node& node) const {
    const Value* from = node.operand(0);
    if (from == nullptr || from->is_initializer()) return std::nullopt;  // low copies of parameters
    const DType source = from->dtype(), target = node.result()->dtype();
    const bool exact = is_number(source) || source == DType::kBool || source == DType::kInt8 ||
                       source == DType::kUInt8 || source == DType::kInt16 ||
                       source == DType::kUInt16;
    if (target == DType::kFloat32) {
      const bool rounds_once = source == DType::kInt32 || source == DType::kInt64;
      return exact || rounds_once ? std::optional<std::string>("") : std::nullopt;
    }
    if (!exact) return std::nullopt;
    if (is_low(target)) {
      if (source == target) return "";
      return target == DType::kFloat16 ? "float16" : "bfloat16";
    }
    if (target == DType::kBool) return "bool";
    return std::nullopt;
  }

  // Does the operand have a type that the operator's float32 program may read?
  static bool may_read(const Element& element, std::size_t operand) {
    const Value* value = element.operands[operand];
    if (value == nullptr) return true;
    if (!value->type.is_tensor() || !value->tensor_type().has_static_shape()) return false;
    if (element.op == "Cast") return true;  // cast_word() has looked
    const bool is_truth =
        (element.op == "Where" && operand == 0) || (element.op == "DropoutGrad" && operand == 1);
    if (is_truth) return value->dtype() == DType::kBool;
    return is_number(value->dtype());
  }

  std::optional<Element> element_of(const Node& node) const {
    if (node.results().size() != 1 || node.result() == nullptr || node.operand_count() == 0 ||
        !node.result()->type.is_tensor() || !node.result()->tensor_type().has_static_shape())
      return std::nullopt;
    const DType result = node.result()->dtype();
    if (!is_number(result) && result != DType::kBool) return std::nullopt;
    const OpDef* def = find_op(node);
    if (def == nullptr || !def->no_kernel.empty()) return std::nullopt;
    StatusOr<LoweredOp> lowered = lower(node);
    if (!lowered.ok() || lowered->alias) return std::nullopt;
    Element element{lowered->kernel, attributes_of(*lowered), lowered->operands};
    if (element.op == "Cast") {
      const auto word = cast_word(node);
      if (!word) return std::nullopt;
      element.attributes = {};
      element.attributes.set("to", *word);
    } else if (element.op != "Clip" && element.op != "ClipGrad" && element.op != "AddN" &&
               element.op != "Sum" && element.op != "Mean") {
      const auto operation = kernels::element_operation(element.op, element.attributes);
      if (!operation.ok() || !may_be_fused(operation->op)) return std::nullopt;
    }
    for (std::size_t i = 0; i < element.operands.size(); ++i) {
      const bool optional = element.op.starts_with("Clip") && i > 0;
      if (element.operands[i] == nullptr ? !optional : !may_read(element, i)) return std::nullopt;
    }
    return element;
  }

  // ---- groups

  using Group = std::unordered_set<const Node*>;

  // Statements and operands of a group, innermost first.
  class Writer {
   public:
    Writer(const Fuser& fuser, const Group& group, bool last_operand_first)
        : fuser_(fuser), group_(group), last_operand_first_(last_operand_first) {}

    bool write(const Node& root) {
      const ElementSource result = source_of(root.result());
      // A program ends with a statement: a cast that does nothing has none.
      if (failed_ || result.kind != ElementSource::Kind::kResult ||
          !result.is_result(static_cast<int>(program.statements.size()) - 1)) {
        return false;
      }
      return operands.size() <= static_cast<std::size_t>(kernels::kMaxElementOperands) &&
             program.statements.size() <=
                 static_cast<std::size_t>(kernels::kMaxElementStatements) &&
             !operands.empty() && element_steps(program).ok() && covers(root);
    }

    ElementProgram program;
    std::vector<Value*> operands;

   private:
    ElementSource source_of(Value* value) {
      if (const auto known = sources_.find(value); known != sources_.end()) return known->second;
      const Node* producer = value->producer();
      ElementSource source;
      if (producer != nullptr && group_.count(producer) > 0) {
        source = statement_of(*producer);
      } else if (const auto number = fuser_.number_of(*value)) {
        source = ElementSource::constant(*number);
      } else {
        source = ElementSource::operand(static_cast<int>(operands.size()));
        operands.push_back(value);
      }
      sources_.emplace(value, source);
      return source;
    }

    ElementSource statement_of(const Node& node) {
      const Element& element = fuser_.elements_.at(&node);
      const std::size_t count = element.operands.size();
      std::vector<ElementSource> sources(count);
      std::vector<bool> is_present(count);
      for (std::size_t k = 0; k < count; ++k) {
        const std::size_t i = last_operand_first_ ? count - 1 - k : k;
        is_present[i] = element.operands[i] != nullptr;
        if (is_present[i]) sources[i] = source_of(element.operands[i]);
      }
      if (element.op == "Cast" && element.attributes.get_string("to", "").empty())
        return sources[0];
      const std::size_t before = program.statements.size();
      failed_ =
          failed_ ||
          !append_operation(element.op, element.attributes, sources, is_present, program).ok();
      if (program.statements.size() == before) return sources[0];  // Clip without bounds
      const bool fits =
          std::all_of(program.statements.begin() + static_cast<std::ptrdiff_t>(before),
                      program.statements.end(),
                      [](const ElementStatement& each) { return may_be_fused(each.op); });
      failed_ = failed_ || !fits;
      return ElementSource::result(static_cast<int>(program.statements.size()) - 1);
    }

    // The operands alone broadcast to the result.
    bool covers(const Node& root) const {
      const std::vector<std::int64_t> dims = root.result()->tensor_type().dims();
      std::vector<std::int64_t> reached(dims.size(), 1);
      std::size_t rank = 0;
      for (const Value* operand : operands) {
        const std::vector<std::int64_t> own = operand->tensor_type().dims();
        if (own.size() > dims.size()) return false;
        rank = std::max(rank, own.size());
        for (std::size_t d = 0; d < own.size(); ++d) {
          std::int64_t& at = reached[dims.size() - own.size() + d];
          if (own[d] != 1) at = own[d];
        }
      }
      return rank == dims.size() && reached == dims;
    }

    const Fuser& fuser_;
    const Group& group_;
    bool last_operand_first_;
    bool failed_ = false;
    std::map<const Value*, ElementSource> sources_;
  };

  // A constant that programs hold themselves.
  std::optional<double> number_of(const Value& value) const {
    if (!value.is_fixed() || !value.constant() || is_trained(value) || !is_number(value.dtype()))
      return std::nullopt;
    if (value.constant()->elems() != 1) return std::nullopt;
    return constant_scalar(&value);
  }

  std::optional<Writer> written(const Node& root, const Group& group) const {
    for (const bool last_operand_first : {false, true}) {
      Writer writer(*this, group, last_operand_first);
      if (writer.write(root)) return writer;
    }
    return std::nullopt;
  }

  static std::int64_t bytes_of(const Value& value) {
    const TensorType& type = value.tensor_type();
    return static_cast<std::int64_t>(dtype_bytes(value.dtype(), type.elems()));
  }

  // Would what the producer reads stay alive for long because of the group?
  bool keeps_much_alive(const Node& producer, const Node& root) const {
    if (position_.at(&root) - position_.at(&producer) <= kNear) return false;
    std::int64_t read = 0;
    std::set<const Value*> seen;
    for (const Value* operand : elements_.at(&producer).operands) {
      if (operand == nullptr || operand->is_initializer() || !seen.insert(operand).second) continue;
      read += bytes_of(*operand);
    }
    return read > bytes_of(*producer.result());
  }

  bool may_join(const Node& producer, const Node& root, const Group& group) const {
    const Value& value = *producer.result();
    if (elements_.count(&producer) == 0 || taken_.count(&producer) > 0 ||
        producer.graph() != &graph_ || value.is_graph_output() || !value.inner_outputs().empty() ||
        value.tensor_type().dims() != root.result()->tensor_type().dims()) {
      return false;
    }
    return std::all_of(value.uses().begin(), value.uses().end(),
                       [&](const Use& use) { return group.count(use.node) > 0; }) &&
           !keeps_much_alive(producer, root);
  }

  bool fuse_from(Node& root) {
    Group group = {&root};
    std::vector<Node*> members = {&root};
    if (!written(root, group) && !is_idle_cast(root)) return false;
    // A producer that some member outside did not let join may do so when that has joined.
    for (bool grown = true; grown;) {
      grown = false;
      for (std::size_t m = 0; m < members.size(); ++m) {
        for (Value* operand : elements_.at(members[m]).operands) {
          Node* producer = operand == nullptr ? nullptr : operand->producer();
          if (producer == nullptr || group.count(producer) > 0 ||
              !may_join(*producer, root, group)) {
            continue;
          }
          group.insert(producer);
          if (!written(root, group) && !is_idle_cast(*producer)) {
            group.erase(producer);
            continue;
          }
          members.push_back(producer);
          grown = true;
        }
      }
    }
    const auto writer = written(root, group);
    if (members.size() < 2 || !writer) return false;
    replace(root, members, *writer);
    return true;
  }

  // A cast that a program needs no statement for, as long as others are behind it.
  bool is_idle_cast(const Node& node) const {
    const Element& element = elements_.at(&node);
    return element.op == "Cast" && element.attributes.get_string("to", "").empty();
  }

  void replace(Node& root, std::vector<Node*>& members, const Writer& writer) {
    ctx_.stats.add("elementwise-fused", static_cast<std::int64_t>(members.size()));
    taken_.insert(members.begin(), members.end());
    graph_.change_op(&root, "FusedElementwise", kMezzoDomain);
    root.mutable_attributes().clear();
    root.set_attribute("program", format_element_program(writer.program));
    const std::size_t before = root.operand_count();
    for (std::size_t i = 0; i < std::max(before, writer.operands.size()); ++i) {
      root.set_operand(i, i < writer.operands.size() ? writer.operands[i] : nullptr);
    }
    root.trim_operands();
    std::sort(members.begin(), members.end(),
              [&](const Node* a, const Node* b) { return position_.at(a) > position_.at(b); });
    for (Node* member : members) {
      if (member != &root) graph_.erase(member);
    }
  }

  Graph& graph_;
  PassContext& ctx_;
  std::unordered_map<const Node*, int> position_;
  std::unordered_map<const Node*, Element> elements_;
  std::unordered_set<const Node*> taken_;
};

}  // namespace

StatusOr<bool> fuse_elementwise(Model& model, PassContext& ctx) {
  if (!ctx.for_runtime) return false;
  return Fuser(*model.graph, ctx).run();
}

}  // namespace mezzo::passes
