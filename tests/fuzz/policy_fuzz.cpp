// Any bytes as a policy file: what is read is printed, and reads back to the same policy.
#include <string>

#include "fuzz_target.h"
#include "passes/precision/policy_file.h"

namespace mezzo::fuzz {
namespace {

void run(Bytes bytes) {
  const auto file = passes::parse_policy(as_text(bytes), "policy.json");
  if (!accepted(file.status(), "parse_policy")) return;
  const std::string json = passes::policy_json(file->resolve());
  const auto again = passes::parse_policy(json, "again.json");
  demand_ok(again.status(), "a policy that was printed is read");
  demand(passes::policy_json(again->resolve()) == json, "a policy is the same after a round trip");
}

}  // namespace

const Target policy_target = {"policy", run, nullptr};

}  // namespace mezzo::fuzz
