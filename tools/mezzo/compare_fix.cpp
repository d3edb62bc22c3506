#include "tools/mezzo/compare_fix.h"

#include <algorithm>
#include <set>

#include "passes/numerics/output_error.h"
#include "passes/numerics/prepare.h"
#include "passes/precision/policy_file.h"
#include "tools/mezzo/convert_model.h"
#include "tools/mezzo/options.h"

namespace mezzo::cli {
namespace {

// Conversions with more and more nodes kept.
constexpr int kMostRounds = 4;

// An expression that matches this text alone.
std::string exactly(const std::string& text) {
  std::string expression = "^";
  for (const char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}/").find(c) != std::string_view::npos && c != '/')
      expression += '\\';
    expression += c;
  }
  return expression + "$";
}

// By its name, or that of its first result, as rules have it.
std::string rule_name(const Node& node) {
  if (!node.name.empty()) return node.name;
  for (const Value* result : node.results()) {
    if (result != nullptr) return result->name();
  }
  return {};
}

class Fixer {
 public:
  Fixer(const Model& a, const std::vector<RuntimeValue>& inputs,
        const std::vector<RuntimeValue>& outputs, const numerics::BlameOptions& options)
      : a_(a), inputs_(inputs), outputs_(outputs), options_(options) {}

  void add_rules(const numerics::Blame& blame, passes::PrecisionPolicy& policy) {
    for (const numerics::BlamedNode& blamed : blame.nodes) {
      const std::string name = rule_name(*blamed.lowered->node);
      if (name.empty() || !seen_.insert(name).second) continue;
      passes::PolicyRule rule;
      rule.name = "mezzo compare" + (blamed.result.empty() ? "" : ": " + blamed.result);
      rule.node = exactly(name);
      rule.effect = passes::RuleEffect::kFp32;
      policy.rules.push_back(std::move(rule));
      fix.nodes.push_back(name);
    }
  }

  // The error of the outputs of `b`.
  StatusOr<double> error_of(const Model& b) {
    InterpreterOptions interpreter_options;
    interpreter_options.threads = options_.threads;
    interpreter_options.most_iterations = options_.most_iterations;
    Interpreter interpreter(b, interpreter_options);
    std::vector<RuntimeValue> for_b;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      MEZZO_ASSIGN_OR_RETURN(RuntimeValue value,
                             numerics::in_type_of(*b.graph->inputs()[i], inputs_[i]));
      for_b.push_back(std::move(value));
    }
    MEZZO_ASSIGN_OR_RETURN(const auto of_b, interpreter.run(std::move(for_b)));
    ran();
    double worst = 0;
    for (std::size_t i = 0; i < of_b.size(); ++i)
      worst = std::max(worst, numerics::difference(outputs_[i], of_b[i]).error);
    return worst;
  }

  StatusOr<numerics::Blame> blame_again(const Model& b) {
    MEZZO_ASSIGN_OR_RETURN(const numerics::ModelMatch match, numerics::match_models(a_, b));
    MEZZO_ASSIGN_OR_RETURN(lowering_, numerics::read_lowering(a_, b, match));
    numerics::BlameOptions options = options_;
    options.most_runs = options_.most_runs > fix.runs ? options_.most_runs - fix.runs : 0;
    MEZZO_ASSIGN_OR_RETURN(numerics::Blame blame,
                           numerics::find_blame(a_, lowering_, inputs_, outputs_, options));
    fix.runs += blame.runs;
    return blame;
  }

  Fix fix;

 private:
  void ran() {
    ++fix.runs;
    if (options_.ran) options_.ran();
  }

  const Model& a_;
  const std::vector<RuntimeValue>&inputs_, &outputs_;
  const numerics::BlameOptions& options_;
  std::set<std::string> seen_;
  numerics::Lowering lowering_;  // that the last blame points into
};

}  // namespace

StatusOr<Fix> make_fix(const std::string& path, const Model& a, const passes::PrecisionPolicy& base,
                       const numerics::Blame& blame, const std::vector<RuntimeValue>& inputs,
                       const std::vector<RuntimeValue>& outputs,
                       const numerics::BlameOptions& options) {
  Fixer fixer(a, inputs, outputs, options);
  passes::PrecisionPolicy policy = base;
  fixer.add_rules(blame, policy);
  for (int round = 0; round < kMostRounds; ++round) {
    // As `convert --policy` will read it.
    fixer.fix.json = passes::policy_json(policy);
    MEZZO_ASSIGN_OR_RETURN(const passes::PolicyFile file,
                           passes::parse_policy(fixer.fix.json, "--fix"));
    const passes::PrecisionPolicy read = file.resolve();
    MEZZO_ASSIGN_OR_RETURN(const Converted converted,
                           convert_model(path, read, padding_of(read), {}));
    MEZZO_RETURN_IF_ERROR(numerics::prepare(*converted.model));
    MEZZO_ASSIGN_OR_RETURN(fixer.fix.error, fixer.error_of(*converted.model));
    fixer.fix.enough = fixer.fix.error <= options.tolerance;
    if (fixer.fix.enough || fixer.fix.runs >= options.most_runs) break;
    MEZZO_ASSIGN_OR_RETURN(const numerics::Blame more, fixer.blame_again(*converted.model));
    const std::size_t before = fixer.fix.nodes.size();
    fixer.add_rules(more, policy);
    if (fixer.fix.nodes.size() == before) break;
  }
  return std::move(fixer.fix);
}

}  // namespace mezzo::cli
