#include "compiler/artifacts/attach_checkpoint.h"

#include <set>
#include <unordered_map>

#include "compiler/artifacts/accumulators.h"
#include "compiler/support/quotes.h"

namespace mezzo {
namespace {

// Does the graph's note of the type leave room for this tensor?
bool fits(const Type& type, const Tensor& tensor) {
  if (type.kind == Type::Kind::kUnknown) return true;
  if (!type.is_tensor() || (type.dtype() != DType::kNone && type.dtype() != tensor.dtype()))
    return false;
  if (!type.tensor.shape) return true;
  const std::vector<Dim>& dims = *type.tensor.shape;
  if (dims.size() != tensor.dims().size()) return false;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i].known() && dims[i].value != tensor.dims()[i]) return false;
  }
  return true;
}

}  // namespace

Status attach_checkpoint(Graph& graph, const OrtCheckpoint& checkpoint,
                         const std::string& checkpoint_name) {
  std::unordered_map<std::string, TensorRef> tensors;
  std::set<std::string> trained;
  for (const CheckpointTensor& named : checkpoint.frozen) tensors.emplace(named.name, named.tensor);
  for (const CheckpointTensor& named : checkpoint.trained) {
    tensors.emplace(named.name, named.tensor);
    trained.insert(named.name);
  }
  for (Value* input : graph.inputs()) {
    const auto found = tensors.find(input->name());
    if (found == tensors.end()) continue;
    const Tensor& tensor = *found->second;
    if (!fits(input->type, tensor)) {
      return invalid_argument("graph input " + in_quotes(input->name()) + ": expected " +
                              to_string(input->type) + ", got " +
                              std::string(dtype_name(tensor.dtype())) + format_dims(tensor.dims()) +
                              " in " + checkpoint_name);
    }
    if (input->is_initializer()) {
      graph.replace_constant(input, found->second);
    } else {
      graph.set_initializer(input, found->second);
    }
    input->type = TensorType::of(tensor.dtype(), tensor.dims());
  }
  for (const auto& node : graph.nodes()) {
    if (!is_accumulator(*node) || node->operand(0) == nullptr) continue;
    const std::string parameter = parameter_of_buffer(node->operand(0)->name());
    if (parameter.empty()) continue;  // adopt-backward says what is wrong
    if (trained.erase(parameter) > 0) continue;
    const bool frozen = tensors.count(parameter) > 0;
    return invalid_argument(
        describe(*node) + ": the graph has a gradient for parameter " + in_quotes(parameter) +
        ", " + (frozen ? "which is frozen in " : "which is missing in ") + checkpoint_name +
        ". Hint: both files must come from one call of generate_artifacts");
  }
  if (trained.empty()) return ok_status();
  return invalid_argument("parameter " + in_quotes(*trained.begin()) + " is to be trained by " +
                          checkpoint_name +
                          ", but the graph accumulates no gradient of it. Hint: both files must "
                          "come from one call of generate_artifacts");
}

}  // namespace mezzo
