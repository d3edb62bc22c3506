// Milliseconds of a conversion, from file to file, for graphs of 5,000 to 40,000 nodes of every
// kind. Google Benchmark fits the growth: the lines called BigO say "N" where it is linear.
#include <benchmark/benchmark.h>

#include <string>

#include "tests/bench/convert_time.h"
#include "tests/support/temp_dir.h"

namespace mezzo::bench {
namespace {

void convert(benchmark::State& state, const GraphKind& kind) {
  const test::TempDir folder;
  Status status = write_graph(kind, static_cast<int>(state.range(0)), folder.path());
  for (auto _ : state) {
    if (!status.ok()) break;
    const StatusOr<ConvertTime> time = time_conversion(folder.path());
    status = time.status();
    if (!time.ok()) break;
    state.SetIterationTime(time->cpu_s);
    for (const passes::PassRun& pass : time->passes) {
      state.counters[std::string(pass.name) + "_ms"] += pass.ms;
    }
  }
  for (auto& [name, counter] : state.counters) counter.flags = benchmark::Counter::kAvgIterations;
  if (!status.ok()) state.SkipWithError(status.message().c_str());
  state.SetComplexityN(state.range(0));
}

const bool kRegistered = [] {
  for (const GraphKind& kind : graph_kinds()) {
    benchmark::RegisterBenchmark(kind.name,
                                 [&kind](benchmark::State& state) { convert(state, kind); })
        ->RangeMultiplier(2)
        ->Range(5000, 40000)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond)
        ->Complexity();
  }
  return true;
}();

}  // namespace
}  // namespace mezzo::bench
