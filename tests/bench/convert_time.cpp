#include "tests/bench/convert_time.h"

#include <ctime>

#include "compiler/onnx/export.h"
#include "tools/mezzo/convert_model.h"

namespace mezzo::bench {
namespace {

double cpu_seconds() {
  std::timespec now = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

Status write_graph(const GraphKind& kind, int nodes, const std::string& folder) {
  return export_model(*kind.make(nodes), folder + "/graph.onnx");
}

StatusOr<ConvertTime> time_conversion(const std::string& folder) {
  passes::PrecisionPolicy policy;
  policy.low = DType::kBFloat16;
  ConvertTime time;
  const double start = cpu_seconds();
  {
    MEZZO_ASSIGN_OR_RETURN(cli::Converted converted,
                           cli::convert_model(folder + "/graph.onnx", policy, {}, {}));
    MEZZO_RETURN_IF_ERROR(export_model(*converted.model, folder + "/mixed.onnx"));
    time.passes = std::move(converted.passes);
  }
  time.cpu_s = cpu_seconds() - start;
  return time;
}

}  // namespace mezzo::bench
