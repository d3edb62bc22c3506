#include "tools/mezzo/group_rules.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace mezzo::cli {
namespace {

using runtime::OptimizerGroup;
using runtime::OptimizerKind;

Status parse_number(const std::string& text, double& value) {
  char rest = 0;
  if (std::sscanf(text.c_str(), "%lf%c", &value, &rest) == 1) return ok_status();
  return invalid_argument("expected a number, got '" + printable(text) + "'");
}

Status parse_bool(const std::string& text, bool& value) {
  value = text == "true" || text == "1";
  if (value || text == "false" || text == "0") return ok_status();
  return invalid_argument("expected true or false, got '" + printable(text) + "'");
}

constexpr unsigned kind_bit(OptimizerKind kind) { return 1U << static_cast<unsigned>(kind); }
constexpr unsigned kSgd = kind_bit(OptimizerKind::kSgd);
constexpr unsigned kAdagrad = kind_bit(OptimizerKind::kAdagrad);
constexpr unsigned kAdamW = kind_bit(OptimizerKind::kAdamW);
constexpr unsigned kMoments =
    kind_bit(OptimizerKind::kAdam) | kAdamW | kind_bit(OptimizerKind::kLamb);
constexpr unsigned kAll = kSgd | kAdagrad | kMoments;

// A key, the optimizers that know it, and what its value sets; those without a function are read
// elsewhere.
struct Key {
  std::string_view name;
  unsigned kinds;
  Status (*set)(const std::string& value, OptimizerGroup& group);
};
constexpr std::array kKeys = {
    Key{"optimizer", kAll, nullptr},
    Key{"instance", kAll, nullptr},
    Key{"frozen", kAll, nullptr},
    Key{"lr", kAll,
        [](const std::string& v, OptimizerGroup& group) { return parse_number(v, group.lr); }},
    Key{"lr-scale", kAll,
        [](const std::string& v, OptimizerGroup& group) {
          double scale = 0;
          MEZZO_RETURN_IF_ERROR(parse_number(v, scale));
          group.lr *= scale;
          return ok_status();
        }},
    Key{"weight-decay", kAll,
        [](const std::string& v, OptimizerGroup& group) {
          return parse_number(v, group.weight_decay);
        }},
    Key{"momentum", kSgd,
        [](const std::string& v, OptimizerGroup& group) {
          return parse_number(v, group.momentum);
        }},
    Key{"dampening", kSgd,
        [](const std::string& v, OptimizerGroup& group) {
          return parse_number(v, group.dampening);
        }},
    Key{"nesterov", kSgd,
        [](const std::string& v, OptimizerGroup& group) { return parse_bool(v, group.nesterov); }},
    Key{"betas", kMoments,
        [](const std::string& v, OptimizerGroup& group) {
          return parse_betas(v, group.beta1, group.beta2);
        }},
    Key{"eps", kMoments | kAdagrad,
        [](const std::string& v, OptimizerGroup& group) { return parse_number(v, group.eps); }},
    Key{"adamw-form", kAdamW,
        [](const std::string& v, OptimizerGroup& group) {
          group.adamw_form =
              v == "huggingface" ? runtime::AdamWForm::kHuggingFace : runtime::AdamWForm::kPyTorch;
          return v == "huggingface" || v == "pytorch"
                     ? ok_status()
                     : invalid_argument("expected pytorch or huggingface, got '" + printable(v) +
                                        "'");
        }},
    Key{"lr-decay", kAdagrad,
        [](const std::string& v, OptimizerGroup& group) {
          return parse_number(v, group.lr_decay);
        }},
    Key{"initial-accumulator", kAdagrad,
        [](const std::string& v, OptimizerGroup& group) {
          return parse_number(v, group.initial_accumulator);
        }},
};

const Key* find_key(std::string_view name) {
  const auto found =
      std::find_if(kKeys.begin(), kKeys.end(), [&](const Key& key) { return key.name == name; });
  return found == kKeys.end() ? nullptr : &*found;
}

Status unknown_key(const std::string& name) {
  std::vector<std::string> all;
  for (const Key& key : kKeys) all.emplace_back(key.name);
  return invalid_argument("unknown key '" + printable(name) + "'." + did_you_mean(name, all) +
                          " There are: " + join(all, ", "));
}

// "a=1,b=2,3" -> "a=1", "b=2,3": what has no '=' and is no word of its own belongs to what is
// before.
std::vector<std::string> split_settings(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::string part = text.substr(begin, end - begin);
    const bool number =
        !part.empty() && part.find_first_not_of("0123456789.eE+- ") == std::string::npos;
    if (number && !parts.empty()) {
      parts.back() += "," + part;
    } else {
      parts.push_back(std::move(part));
    }
    begin = end + 1;
  }
  return parts;
}

// "lr_scale" -> "lr-scale", without blanks around.
std::string key_name(std::string text) {
  std::replace(text.begin(), text.end(), '_', '-');
  text.erase(0, text.find_first_not_of(' '));
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

Status in_rule(const GroupRule& rule, const Status& status) {
  return invalid_argument("--group '" + printable(rule.pattern.text()) + "': " + status.message());
}

// "'a', 'b' and 3 more"
std::string some_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 2; ++i)
    text += (i > 0 ? ", '" : "'") + printable(names[i]) + "'";
  return names.size() > 2 ? text + " and " + std::to_string(names.size() - 2) + " more" : text;
}

std::vector<std::string> matching(const Pattern& pattern, const std::vector<std::string>& names) {
  std::vector<std::string> found;
  std::copy_if(names.begin(), names.end(), std::back_inserter(found),
               [&](const std::string& name) { return pattern.matches(name); });
  return found;
}

Status matches_nothing(const GroupRule& rule, const std::vector<std::string>& all) {
  // "^fc\.weight$" is most like "fc.weight".
  std::string plain = rule.pattern.text();
  plain.erase(std::remove_if(plain.begin(), plain.end(),
                             [](char c) { return c == '^' || c == '$' || c == '\\'; }),
              plain.end());
  return in_rule(rule, invalid_argument("matches no parameter." + did_you_mean(plain, all) +
                                        " Hint: `mezzo inspect` lists their names"));
}

// Why no parameter is left for a rule.
Status left_empty(const GroupRule& rule, const ParameterNames& names) {
  const std::vector<std::string> trained = matching(rule.pattern, names.trained);
  const std::vector<std::string> all = matching(rule.pattern, names.all);
  if (!trained.empty()) {
    return in_rule(rule, invalid_argument("what it matches, " + some_of(trained) +
                                          ", is in groups given before it: the first that matches "
                                          "counts"));
  }
  if (!all.empty()) {
    return in_rule(rule, invalid_argument("what it matches, " + some_of(all) +
                                          ", is not trained. Hint: --train REGEX trains it in any "
                                          "case, --freeze may name it"));
  }
  return matches_nothing(rule, names.all);
}

// Collects parameters into groups, with the undecayed ones of each apart.
class Assignment {
 public:
  Assignment(const OptimizerGroup& settings, std::string name, std::string instance, bool decays)
      : group_{std::move(name), settings, std::move(instance), {}}, keeps_decay_(decays) {}

  void add(const std::string& parameter, bool undecayed) {
    const bool apart = undecayed && !keeps_decay_ && group_.settings.weight_decay != 0;
    (apart ? undecayed_ : group_.parameters).push_back(parameter);
  }
  bool empty() const { return group_.parameters.empty() && undecayed_.empty(); }
  void move_to(std::vector<runtime::ParameterGroup>& groups) {
    runtime::ParameterGroup apart = group_;
    if (!group_.parameters.empty()) groups.push_back(std::move(group_));
    if (undecayed_.empty()) return;
    apart.name += apart.name.empty() ? "norms and biases" : ", norms and biases";
    apart.settings.weight_decay = 0;
    apart.parameters = std::move(undecayed_);
    groups.push_back(std::move(apart));
  }

 private:
  runtime::ParameterGroup group_;
  bool keeps_decay_;
  std::vector<std::string> undecayed_;
};

}  // namespace

Status parse_betas(const std::string& text, double& beta1, double& beta2) {
  char rest = 0;
  const bool parsed = std::sscanf(text.c_str(), "%lf,%lf%c", &beta1, &beta2, &rest) == 2;
  if (parsed && beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1) return ok_status();
  return invalid_argument("expected two numbers from 0 to below 1, such as 0.9,0.999, got '" +
                          printable(text) + "'");
}

bool knows(const std::string& optimizer, const std::string& key) {
  const StatusOr<OptimizerKind> kind = runtime::parse_optimizer(optimizer);
  return kind.ok() && (find_key(key)->kinds & kind_bit(*kind)) != 0;
}

StatusOr<GroupRule> GroupRule::parse(const std::string& text) {
  // The pattern may hold colons; the settings do not.
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) {
    return invalid_argument("expected PATTERN:key=value,..., such as '^head\\.:lr=0.01', got '" +
                            printable(text) + "'");
  }
  MEZZO_ASSIGN_OR_RETURN(Pattern pattern, Pattern::compile(text.substr(0, colon), "--group"));
  GroupRule rule{std::move(pattern), {}};
  for (const std::string& part : split_settings(text.substr(colon + 1))) {
    const std::size_t equals = part.find('=');
    const std::string name = key_name(part.substr(0, equals));
    const Key* key = find_key(name);
    if (key == nullptr) return unknown_key(name);
    const bool alone = equals == std::string::npos && (name == "frozen" || name == "nesterov");
    if (equals == std::string::npos && !alone)
      return invalid_argument("key '" + name + "': expected a value after =");
    const std::string value = alone ? "true" : part.substr(equals + 1);
    if (!rule.settings.emplace(name, value).second)
      return invalid_argument("key '" + name + "' is given twice");
    OptimizerGroup scratch;
    bool flag = false;
    const Status status = key->set != nullptr   ? key->set(value, scratch)
                          : name == "frozen"    ? parse_bool(value, flag)
                          : name == "optimizer" ? runtime::parse_optimizer(value).status()
                                                : ok_status();
    if (!status.ok()) return invalid_argument("key '" + name + "': " + status.message());
  }
  if (rule.sets("lr") && rule.sets("lr-scale"))
    return invalid_argument("keys 'lr' and 'lr-scale' exclude each other");
  return rule;
}

bool GroupRule::frozen() const {
  const auto found = settings.find("frozen");
  bool value = false;
  return found != settings.end() && parse_bool(found->second, value).ok() && value;
}

StatusOr<OptimizerGroup> GroupRule::apply(const OptimizerGroup& base, bool base_has_eps) const {
  OptimizerGroup group = base;
  group.frozen = frozen();
  if (const auto kind = settings.find("optimizer"); kind != settings.end()) {
    MEZZO_ASSIGN_OR_RETURN(group.kind, runtime::parse_optimizer(kind->second));
    if (!base_has_eps) group.eps = runtime::default_eps(group.kind);
  }
  for (const auto& [name, value] : settings) {
    const Key& key = *find_key(name);
    if ((key.kinds & kind_bit(group.kind)) == 0) {
      return in_rule(
          *this, invalid_argument("key '" + name + "': " +
                                  std::string(runtime::optimizer_name(group.kind)) + " has none"));
    }
    if (key.set != nullptr) MEZZO_RETURN_IF_ERROR(key.set(value, group));
  }
  if (Status status = runtime::check_group(group); !status.ok()) return in_rule(*this, status);
  return group;
}

StatusOr<std::vector<std::string>> frozen_patterns(const std::vector<GroupRule>& rules,
                                                   const std::vector<std::string>& all) {
  std::vector<std::string> patterns;
  std::string earlier;  // what none of the rules before may match
  for (const GroupRule& rule : rules) {
    if (rule.frozen()) {
      if (matching(rule.pattern, all).empty()) return matches_nothing(rule, all);
      patterns.push_back(earlier.empty() ? rule.pattern.text()
                                         : "^" + earlier + ".*(?:" + rule.pattern.text() + ")");
    }
    earlier += "(?!.*(?:" + rule.pattern.text() + "))";
  }
  return patterns;
}

StatusOr<std::vector<runtime::ParameterGroup>> assign_groups(const std::vector<GroupRule>& rules,
                                                             const OptimizerGroup& base,
                                                             bool base_has_eps,
                                                             const ParameterNames& names) {
  std::vector<Assignment> assignments = {{base, "", "", false}};
  for (const GroupRule& rule : rules) {
    MEZZO_ASSIGN_OR_RETURN(const OptimizerGroup settings, rule.apply(base, base_has_eps));
    const auto instance = rule.settings.find("instance");
    assignments.emplace_back(settings, rule.pattern.text(),
                             instance == rule.settings.end() ? std::string() : instance->second,
                             rule.sets("weight-decay"));
  }
  const std::set<std::string> trained(names.trained.begin(), names.trained.end());
  std::vector<std::string> candidates = names.all;
  for (const std::string& name : names.trained) {
    if (std::find(names.all.begin(), names.all.end(), name) == names.all.end())
      candidates.push_back(name);
  }
  for (const std::string& name : candidates) {
    const auto rule = std::find_if(rules.begin(), rules.end(), [&](const GroupRule& candidate) {
      return candidate.pattern.matches(name);
    });
    const bool frozen = rule != rules.end() && rule->frozen();
    if (trained.count(name) == 0 && !frozen) continue;
    assignments[rule == rules.end() ? 0 : static_cast<std::size_t>(rule - rules.begin()) + 1].add(
        name, names.undecayed.count(name) > 0);
  }
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (assignments[i + 1].empty()) return left_empty(rules[i], names);
  }
  std::vector<runtime::ParameterGroup> groups;
  for (Assignment& assignment : assignments) assignment.move_to(groups);
  return groups;
}

std::string describe(const OptimizerGroup& group) {
  if (group.frozen) return "frozen";
  std::string text =
      std::string(runtime::optimizer_name(group.kind)) + ", lr " + format_number(group.lr);
  if (group.kind == OptimizerKind::kSgd && group.momentum != 0) {
    text += std::string(group.nesterov ? ", Nesterov" : "") + ", momentum " +
            format_number(group.momentum);
    if (group.dampening != 0) text += ", dampening " + format_number(group.dampening);
  }
  if ((kind_bit(group.kind) & kMoments) != 0)
    text += ", betas " + format_number(group.beta1) + "," + format_number(group.beta2);
  if (group.kind != OptimizerKind::kSgd) text += ", eps " + format_number(group.eps);
  if (group.kind == OptimizerKind::kAdagrad && group.lr_decay != 0)
    text += ", lr decay " + format_number(group.lr_decay);
  if (group.kind == OptimizerKind::kAdagrad && group.initial_accumulator != 0)
    text += ", accumulator from " + format_number(group.initial_accumulator);
  if (group.kind == OptimizerKind::kAdamW && group.adamw_form == runtime::AdamWForm::kHuggingFace) {
    text += ", HuggingFace's form";
  }
  return text + ", weight decay " + format_number(group.weight_decay);
}

}  // namespace mezzo::cli
