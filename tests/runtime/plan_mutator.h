// Changes one field of a plan to an extreme value, for every field and value there is.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "compiler/plan/plan.pb.h"

namespace mezzo::test {

// Calls `visit` with one mutant after another; `what` says what was changed. `visit` must not keep
// the plan. Returns how many there were.
std::int64_t for_each_mutant(
    const proto::Plan& plan,
    const std::function<void(const proto::Plan& mutant, const std::string& what)>& visit);

}  // namespace mezzo::test
