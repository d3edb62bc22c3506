// Checks of data sets that need to know what the graph does with them.
#pragma once

#include <string>

#include "compiler/plan/plan.pb.h"
#include "compiler/support/status.h"
#include "passes/autodiff/loss_options.h"

namespace mezzo::cli {

// Values that the graph uses as numbers of classes or rows: class labels of a loss, and indices of
// a lookup table. All of them are looked at before anything runs, so that a wrong label in the last
// sample is not found after hours. InvalidArgument: file, array, place, value, and what takes it.
//
// Only inputs that such a node reads as they are; values computed from inputs are checked by the
// kernels. REQUIRES: the plan is checked; `path` opens as a data set for it.
Status check_index_inputs(const proto::Plan& plan, const std::string& path);

// The same for labels that --padding-mask makes computed values of: those whose weight is not 0.
Status check_masked_labels(const proto::Plan& plan, const std::string& path,
                           const passes::LossOptions& loss);

}  // namespace mezzo::cli
