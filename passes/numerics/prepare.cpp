#include "passes/numerics/prepare.h"

#include "passes/pass_runner.h"
#include "passes/pipeline.h"

namespace mezzo::numerics {

Status prepare(Model& model) {
  passes::PassContext ctx;
  std::vector<const passes::PassInfo*> list;
  for (const char* name : {"raise-to-current", "infer-shapes", "expand-functions"})
    list.push_back(passes::find_pass(name));
  return passes::run_passes(model, ctx, list);
}

}  // namespace mezzo::numerics
