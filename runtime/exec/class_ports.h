// Which output of a plan holds class scores, and which input their labels: what accuracy needs.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/plan/plan.pb.h"
#include "runtime/exec/executor.h"

namespace mezzo::runtime {

struct ClassPorts {
  int scores = -1;  // tensor of the evaluate phase, float [N, ..., C] or [N, C, ...]
  int labels = -1;  // tensor of an input, int32 or int64, scores' shape without the class axis
  int class_axis = 0;
  std::int64_t classes = 0;  // logical; the tensor may be padded beyond
};

// The first output of the evaluate phase with an integer input of fitting shape that the output
// does not depend on, but the loss does. So token ids that are scored are not taken for their
// labels.
std::optional<ClassPorts> find_class_ports(const proto::Plan& plan);

struct HitCount {
  std::int64_t hits = 0;    // highest score at the label; the first of equal ones counts
  std::int64_t places = 0;  // labels that name a class; others (-100, padding) are left out
};

// Over the first `samples` samples of the batch that the evaluate phase ran on.
HitCount count_hits(const Executor& executor, const ClassPorts& ports, std::int64_t samples);

}  // namespace mezzo::runtime
