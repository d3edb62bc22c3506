// Policies as JSON: files that users write, and the presets that are built in.
//
// policy.schema.json describes the format, README.md shows it at work. What a file does not say
// stays as in the policy it extends, `default` if it names none; its rules come after that one's,
// and the last rule that matches a node decides.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/support/status.h"
#include "passes/precision/policy.h"

namespace mezzo::passes {

// A policy whose precision may still be open: "auto" takes what the target does best.
struct PolicyFile {
  PrecisionPolicy policy;  // low: as resolve() leaves it, not meaningful before
  enum class Precision : std::uint8_t { kAuto, kFp16, kBf16, kFp32 };
  Precision precision = Precision::kAuto;

  // Volta has FP16 Tensor Cores only; all newer targets take BF16 as well.
  PrecisionPolicy resolve() const;
};

// `where` (a file name) starts every error and the origin of every rule. InvalidArgument: not a
// policy: "policy.json: rules[2].opp: unknown key. Did you mean 'op'?".
StatusOr<PolicyFile> parse_policy(std::string_view json, std::string_view where);
// At most 1 MiB, nested at most 8 deep.
StatusOr<PolicyFile> read_policy(const std::string& path);

// The whole policy as JSON that parse_policy() reads back to the same decisions: no base policy is
// left implicit, options of the command line have become rules.
std::string policy_json(const PrecisionPolicy& policy);

struct Preset {
  std::string_view name, json;
};
std::span<const Preset> presets();  // sorted by name
std::vector<std::string> preset_names();
// InvalidArgument lists the presets.
StatusOr<PolicyFile> find_preset(std::string_view name);

// Every key that parse_policy() knows, by the place it stands at ("", "pins", "rules[]", ...); the
// schema is tested against it.
std::vector<std::pair<std::string, std::vector<std::string>>> policy_keys();

}  // namespace mezzo::passes
