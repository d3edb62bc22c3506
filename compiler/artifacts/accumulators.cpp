#include "compiler/artifacts/accumulators.h"

#include <algorithm>
#include <string_view>

namespace mezzo {
namespace {

constexpr std::string_view kBufferSuffix = "_grad.accumulation.buffer";

}  // namespace

bool is_accumulator(const Node& node) { return node.is("InPlaceAccumulatorV2", "com.microsoft"); }

bool accumulates_gradients(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const auto& node) { return is_accumulator(*node); });
}

std::string parameter_of_buffer(const std::string& buffer) {
  return buffer.size() > kBufferSuffix.size() && buffer.ends_with(kBufferSuffix)
             ? buffer.substr(0, buffer.size() - kBufferSuffix.size())
             : std::string();
}

}  // namespace mezzo
