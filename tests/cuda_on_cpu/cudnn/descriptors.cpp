// The backend API: descriptors are made, filled, finalized and read, and a plan is executed.
#include <algorithm>
#include <cstring>

#include "tests/cuda_on_cpu/cudnn/graph.h"
#include "tests/cuda_on_cpu/cudnn/handle.h"
#include "tests/cuda_on_cpu/stand_in.h"

namespace cudnn_on_cpu {
namespace {

constexpr std::int64_t kWorkspaceBytes = 4096;  // of every plan, which fills it

// What hides behind cudnnBackendDescriptor_t.
struct Holder {
  DescriptorPtr descriptor;
};
DescriptorPtr& opened(cudnnBackendDescriptor_t descriptor) {
  return static_cast<Holder*>(descriptor)->descriptor;
}

std::size_t width(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    case CUDNN_TYPE_FRACTION: return 16;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR: return 1;
    default: return 4;  // enumerators, float, int32
  }
}

cudnnStatus_t refuse(cudnnStatus_t status, std::string why) {
  set_last_error(std::move(why));
  return status;
}

cudnnStatus_t copy_out(const void* values, std::int64_t count, std::size_t bytes,
                       std::int64_t requested, std::int64_t* given, void* to) {
  if (given != nullptr) *given = count;
  if (to != nullptr) {
    std::memcpy(to, values, static_cast<std::size_t>(std::min(count, requested)) * bytes);
  }
  return CUDNN_STATUS_SUCCESS;
}

DescriptorPtr make(cudnnBackendDescriptorType_t kind, cudnnBackendAttributeName_t name,
                   DescriptorPtr child) {
  auto made = std::make_shared<Descriptor>();
  made->kind = kind;
  made->is_finalized = true;
  made->attributes[name] = {CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, {}, {std::move(child)}};
  return made;
}

// The engine configurations for a graph, best first; none where it is not supported. Mode FALLBACK
// repeats those of mode A.
std::vector<DescriptorPtr> heuristic_results(const Descriptor& heuristics) {
  const auto graph_of = heuristics.attributes.find(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  if (graph_of == heuristics.attributes.end()) return {};
  const DescriptorPtr& graph_descriptor = graph_of->second.children.front();
  Graph graph;
  std::string why;
  if (!read_graph(*graph_descriptor, graph, why) || !is_supported(graph, why)) {
    set_last_error("stand-in: " + why);
    return {};
  }
  std::vector<DescriptorPtr> results;
  for (const Engine engine : engines_for(graph)) {
    DescriptorPtr made =
        make(CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph_descriptor);
    Attribute index{CUDNN_TYPE_INT64, 1, std::vector<std::byte>(sizeof(Engine)), {}};
    std::memcpy(index.bytes.data(), &engine, sizeof engine);
    made->attributes[CUDNN_ATTR_ENGINE_GLOBAL_INDEX] = index;
    results.push_back(
        make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_ATTR_ENGINECFG_ENGINE, std::move(made)));
  }
  return results;
}

cudnnStatus_t get_descriptors(const std::vector<DescriptorPtr>& from, std::int64_t requested,
                              std::int64_t* given, void* to) {
  if (given != nullptr) *given = static_cast<std::int64_t>(from.size());
  if (to == nullptr) return CUDNN_STATUS_SUCCESS;
  auto* const into = static_cast<cudnnBackendDescriptor_t*>(to);
  for (std::size_t i = 0; i < from.size() && static_cast<std::int64_t>(i) < requested; ++i) {
    opened(into[i]) = from[i];
  }
  return CUDNN_STATUS_SUCCESS;
}

// Attributes that are not read back but computed. False: none of them.
bool get_computed(const Descriptor& descriptor, cudnnBackendAttributeName_t name,
                  std::int64_t requested, std::int64_t* given, void* to) {
  const std::int64_t bytes = kWorkspaceBytes;
  const std::int64_t engines = 4;
  const std::int32_t shared = 0;
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      get_descriptors(heuristic_results(descriptor), requested, given, to);
      return true;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: {
      const auto notes = notes_of(descriptor.value<Engine>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
      copy_out(notes.data(), static_cast<std::int64_t>(notes.size()), sizeof notes.front(),
               requested, given, to);
      return true;
    }
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
      if (given != nullptr) *given = 0;
      return true;
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      copy_out(&bytes, 1, sizeof bytes, requested, given, to);
      return true;
    case CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED:
      copy_out(&shared, 1, sizeof shared, requested, given, to);
      return true;
    case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT:
      copy_out(&engines, 1, sizeof engines, requested, given, to);
      return true;
    default: return false;
  }
}

bool is_known(cudnnBackendDescriptorType_t kind) {
  switch (kind) {
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
    case CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
    case CUDNN_BACKEND_MATMUL_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
    case CUDNN_BACKEND_REDUCTION_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR: return true;
    default: return false;
  }
}

// What a descriptor must hold to be finalized.
bool is_complete(const Descriptor& descriptor, std::string& why) {
  switch (descriptor.kind) {
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: {
      Graph graph;
      return read_graph(descriptor, graph, why);
    }
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      why = "a plan made while a stream is recorded: its code is compiled and loaded now";
      if (cuda_on_cpu::cuda_on_cpu_breaks_capture()) return false;
      why = "a plan without an engine configuration";
      return descriptor.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG) != nullptr;
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      why = "a tensor whose dims and strides differ in number, or are none";
      return !descriptor.values<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS).empty() &&
             descriptor.values<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS).size() ==
                 descriptor.values<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES).size();
    default: return true;
  }
}

// The buffers that a variant pack gives for the tensors of a graph.
struct Bindings {
  std::map<std::int64_t, void*> buffers;
  std::map<std::int64_t, Values> scalars;  // read now: they are gone when the work is done
};

cudnnStatus_t bind(const Graph& graph, const Descriptor& pack, Bindings& bindings) {
  const auto ids = pack.values<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.values<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (ids.size() != pointers.size()) return refuse(CUDNN_STATUS_BAD_PARAM, "ids without buffers");
  std::map<std::int64_t, void*> given;
  for (std::size_t i = 0; i < ids.size(); ++i) given[ids[i]] = pointers[i];
  for (const Operation& operation : graph.operations) {
    for (const auto* tensors : {&operation.in, &operation.out}) {
      for (const Tensor& tensor : *tensors) {
        if (tensor.dims.empty() || tensor.is_virtual) continue;
        void* const at = given[tensor.id];
        const auto bytes = static_cast<std::size_t>(tensor.extent()) * tensor.element_bytes();
        if (at == nullptr) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no buffer");
        if (tensor.is_by_value) {
          bindings.scalars[tensor.id] = load(tensor, at);
          continue;
        }
        if (reinterpret_cast<std::uintptr_t>(at) % static_cast<std::size_t>(tensor.alignment) != 0)
          return refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "a buffer is not aligned");
        if (!cuda_on_cpu::cuda_on_cpu_is_device_memory(at, bytes))
          return refuse(CUDNN_STATUS_BAD_PARAM, "a buffer is not in the device's memory");
        bindings.buffers[tensor.id] = at;
      }
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t execute(cudnnHandle_t handle, const Descriptor& plan, const Descriptor& pack) {
  const Descriptor* config = plan.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const Descriptor* engine = config->child(CUDNN_ATTR_ENGINECFG_ENGINE);
  auto graph = std::make_shared<Graph>();
  std::string why;
  if (!read_graph(*engine->child(CUDNN_ATTR_ENGINE_OPERATION_GRAPH), *graph, why))
    return refuse(CUDNN_STATUS_BAD_PARAM, why);
  Bindings bindings;
  if (const cudnnStatus_t status = bind(*graph, pack, bindings); status != CUDNN_STATUS_SUCCESS)
    return status;
  void* const workspace = pack.value<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (!cuda_on_cpu::cuda_on_cpu_is_device_memory(workspace, kWorkspaceBytes))
    return refuse(CUDNN_STATUS_BAD_PARAM, "the workspace is not in the device's memory");
  const auto index = engine->value<Engine>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  const cudaError_t error = cuda_on_cpu::enqueue(
      handle->stream, "cudnnBackendExecute", [graph, index, bindings, workspace] {
        std::memset(workspace, 0xAB, kWorkspaceBytes);
        run(*graph, index, bindings.buffers, bindings.scalars);
      });
  return error == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

}  // namespace

const Descriptor* Descriptor::child(cudnnBackendAttributeName_t name) const {
  const auto found = attributes.find(name);
  return found == attributes.end() || found->second.children.empty()
             ? nullptr
             : found->second.children.front().get();
}

}  // namespace cudnn_on_cpu

using namespace cudnn_on_cpu;

extern "C" {

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t kind,
                                           cudnnBackendDescriptor_t* descriptor) {
  if (!is_known(kind)) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "a descriptor unknown here");
  auto* const holder = new Holder{std::make_shared<Descriptor>()};
  holder->descriptor->kind = kind;
  *descriptor = holder;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<Holder*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  if (cuda_on_cpu::cuda_on_cpu_fails(__func__)) return CUDNN_STATUS_INTERNAL_ERROR;
  Descriptor& opening = *opened(descriptor);
  std::string why;
  if (!is_complete(opening, why)) return refuse(CUDNN_STATUS_BAD_PARAM, why);
  opening.is_finalized = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  Descriptor& into = *opened(descriptor);
  if (into.is_finalized) return refuse(CUDNN_STATUS_BAD_PARAM, "it is finalized already");
  if (count < 0 || (count > 0 && values == nullptr))
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no values");
  Attribute attribute{type, count, {}, {}};
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* from = static_cast<const cudnnBackendDescriptor_t*>(values);
    for (std::int64_t i = 0; i < count; ++i) {
      if (!opened(from[i])->is_finalized)
        return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a part is not finalized");
      attribute.children.push_back(opened(from[i]));
    }
  } else {
    attribute.bytes.resize(static_cast<std::size_t>(count) * width(type));
    if (count > 0) std::memcpy(attribute.bytes.data(), values, attribute.bytes.size());
  }
  into.attributes[name] = std::move(attribute);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t requested,
                                       int64_t* given, void* values) {
  const Descriptor& from = *opened(descriptor);
  if (!from.is_finalized) return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "not finalized");
  if (get_computed(from, name, requested, given, values)) return CUDNN_STATUS_SUCCESS;
  const auto found = from.attributes.find(name);
  if (found == from.attributes.end() || found->second.type != type)
    return refuse(CUDNN_STATUS_BAD_PARAM, "an attribute that was not set");
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
    return get_descriptors(found->second.children, requested, given, values);
  return copy_out(found->second.bytes.data(), found->second.count, width(type), requested, given,
                  values);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  if (cuda_on_cpu::cuda_on_cpu_fails(__func__)) return CUDNN_STATUS_INTERNAL_ERROR;
  if (handle == nullptr || plan == nullptr || pack == nullptr)
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no handle, plan or variant pack");
  if (!opened(plan)->is_finalized || !opened(pack)->is_finalized)
    return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "not finalized");
  return execute(handle, *opened(plan), *opened(pack));
}

}  // extern "C"
