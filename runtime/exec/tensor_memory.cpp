#include "runtime/exec/tensor_memory.h"

#include <cstring>

#include "runtime/exec/plan_check.h"

namespace mezzo::runtime {
namespace {

constexpr std::size_t kAlignment = 64;

// True for every tensor that the host may fill or look at.
std::vector<bool> seen_by_host(const proto::Plan& plan) {
  std::vector<bool> seen(static_cast<std::size_t>(plan.tensors_size()), false);
  const auto mark = [&](int tensor) {
    if (tensor >= 0) seen[static_cast<std::size_t>(tensor)] = true;
  };
  for (const auto* ports : {&plan.inputs(), &plan.outputs()}) {
    for (const proto::Port& port : *ports) {
      mark(port.tensor());
      mark(port.evaluate_tensor());
    }
  }
  for (const proto::Parameter& p : plan.parameters()) {
    for (const int tensor : {p.master(), p.low_copy(), p.gradient()}) mark(tensor);
  }
  for (const proto::State& s : plan.states()) {
    mark(s.tensor());
    mark(s.next());
  }
  if (plan.has_training()) {
    const proto::Training& t = plan.training();
    for (const int tensor : {t.loss(), t.loss_gradient(), t.random_counter(), t.evaluate_loss()})
      mark(tensor);
  }
  return seen;
}

}  // namespace

StatusOr<TensorMemory> TensorMemory::create(const proto::Plan& plan, const WeightSource& weights,
                                            Device* device) {
  TensorMemory memory;
  memory.device_ = device;
  MEZZO_RETURN_IF_ERROR(memory.allocate_arenas(plan));
  if (device != nullptr) MEZZO_RETURN_IF_ERROR(memory.make_mirror(plan));
  for (int i = 0; i < plan.tensors_size(); ++i) {
    const proto::Tensor& tensor = plan.tensors(i);
    memory.sizes_.push_back(tensor_bytes(tensor));
    std::byte*& address = memory.addresses_.emplace_back(nullptr);
    const bool mapped = tensor.role() == proto::ROLE_CONSTANT && tensor.in_weights_file();
    if (!mapped) address = memory.arenas_[tensor.arena()] + tensor.offset();
    const std::string& own = tensor.inline_data();
    if (!own.empty()) MEZZO_RETURN_IF_ERROR(memory.write(address, own.data(), own.size()));
    if (!tensor.in_weights_file()) continue;
    MEZZO_ASSIGN_OR_RETURN(const std::span<const std::byte> data, weights(tensor.name()));
    MEZZO_RETURN_IF_ERROR(memory.load(tensor, address, data));
    // A hostile plan may load what nothing refers to, for which the host has no room.
    if (memory.has_second_home(i) && !data.empty())
      std::memcpy(memory.host(i), data.data(), data.size());
  }
  return memory;
}

Status TensorMemory::allocate_arenas(const proto::Plan& plan) {
  for (const proto::Arena& arena : plan.arenas()) {
    MEZZO_ASSIGN_OR_RETURN(std::byte* const data, allocate(arena.bytes(), arena.name()));
    arenas_.push_back(data);
    arena_bytes_ += arena.bytes();
  }
  return ok_status();
}

StatusOr<std::byte*> TensorMemory::allocate(std::uint64_t bytes, const std::string& what) {
  if (device_ != nullptr) {
    MEZZO_ASSIGN_OR_RETURN(auto block, device_->allocate(bytes, what));
    return blocks_.emplace_back(std::move(block))->data();
  }
  MEZZO_ASSIGN_OR_RETURN(Buffer buffer, Buffer::allocate(bytes));
  return buffers_.emplace_back(std::move(buffer)).data();
}

Status TensorMemory::write(std::byte* to, const void* from, std::size_t bytes) {
  if (device_ != nullptr) return device_->copy_to_device(to, from, bytes);
  std::memcpy(to, from, bytes);
  return ok_status();
}

// Copies a parameter into its arena; points a constant at its bytes where they lie, if the host
// computes and they are aligned.
Status TensorMemory::load(const proto::Tensor& tensor, std::byte*& address,
                          std::span<const std::byte> data) {
  const std::uint64_t expected = tensor_bytes(tensor);
  if (data.size() != expected) {
    return invalid_argument("weights of '" + tensor.name() + "': expected " +
                            std::to_string(expected) + " bytes, got " +
                            std::to_string(data.size()));
  }
  if (tensor.role() == proto::ROLE_CONSTANT) {
    if (device_ == nullptr && reinterpret_cast<std::uintptr_t>(data.data()) % kAlignment == 0) {
      address = const_cast<std::byte*>(data.data());  // steps never write constants: see check_plan
      return ok_status();
    }
    // Aliases of one constant share its copy.
    std::byte*& copied = copied_[data.data()];
    if (copied != nullptr) {
      address = copied;
      return ok_status();
    }
    MEZZO_ASSIGN_OR_RETURN(copied, allocate(data.size(), "constant '" + tensor.name() + "'"));
    copied_bytes_ += data.size();
    address = copied;
  }
  return data.empty() ? ok_status() : write(address, data.data(), data.size());
}

Status TensorMemory::make_mirror(const proto::Plan& plan) {
  const std::vector<bool> seen = seen_by_host(plan);
  std::uint64_t end = 0;
  for (int i = 0; i < plan.tensors_size(); ++i) {
    mirror_offsets_.push_back(seen[index(i)] ? end : kNoHome);
    if (!seen[index(i)]) continue;
    const std::uint64_t bytes = tensor_bytes(plan.tensors(i));
    if (__builtin_add_overflow(end, (bytes + kAlignment - 1) / kAlignment * kAlignment, &end))
      return invalid_argument("the plan's tensors are too large");
  }
  MEZZO_ASSIGN_OR_RETURN(mirror_, Buffer::allocate(end));
  return ok_status();
}

Status TensorMemory::upload(int tensor) {
  if (device_ == nullptr) return ok_status();
  return device_->copy_to_device(address(tensor), host(tensor), sizes_[index(tensor)]);
}

Status TensorMemory::download(int tensor) {
  if (device_ == nullptr) return ok_status();
  return device_->copy_to_host(host(tensor), address(tensor), sizes_[index(tensor)]);
}

}  // namespace mezzo::runtime
