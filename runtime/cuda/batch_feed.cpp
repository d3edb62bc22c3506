#include "runtime/cuda/batch_feed.h"

#include "kernels/cuda/check.h"

namespace mezzo::runtime::cuda {
namespace {

using kernels::cuda::check;

constexpr std::uint64_t kAlignment = 256;

}  // namespace

Status BatchFeed::create(Device& device, std::span<const DeviceTrainingSpec::Input> inputs) {
  inputs_.assign(inputs.begin(), inputs.end());
  for (const DeviceTrainingSpec::Input& input : inputs_) {
    offsets_.push_back(bytes_);
    bytes_ += (input.bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  MEZZO_RETURN_IF_ERROR(copies_.create());
  for (Slot& slot : slots_) {
    MEZZO_ASSIGN_OR_RETURN(slot.pinned, device.allocate_pinned(bytes_));
    MEZZO_ASSIGN_OR_RETURN(slot.staging, device.allocate(bytes_, "batches on their way"));
    for (const std::uint64_t offset : offsets_)
      slot.buffers.push_back(slot.pinned->data() + offset);
    MEZZO_RETURN_IF_ERROR(slot.copied.create());
    MEZZO_RETURN_IF_ERROR(slot.consumed.create());
  }
  return device.wait();  // the staging buffers are zeroed in a stream that the copies do not heed
}

StatusOr<std::span<void* const>> BatchFeed::buffers() {
  Slot& slot = slots_[next_];
  MEZZO_RETURN_IF_ERROR(slot.copied.poll());
  return std::span<void* const>(slot.buffers);
}

Status BatchFeed::enqueue() {
  if (bytes_ == 0) return ok_status();
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % kSlots;
  MEZZO_RETURN_IF_ERROR(slot.consumed.block(copies_.get()));
  MEZZO_RETURN_IF_ERROR(
      check("cudaMemcpyAsync", cudaMemcpyAsync(slot.staging->data(), slot.pinned->data(), bytes_,
                                               cudaMemcpyHostToDevice, copies_.get())));
  MEZZO_RETURN_IF_ERROR(slot.copied.record(copies_.get()));
  MEZZO_RETURN_IF_ERROR(slot.copied.block(stream_));
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].bytes == 0) continue;
    MEZZO_RETURN_IF_ERROR(check(
        "cudaMemcpyAsync", cudaMemcpyAsync(inputs_[i].data, slot.staging->data() + offsets_[i],
                                           inputs_[i].bytes, cudaMemcpyDeviceToDevice, stream_)));
  }
  return slot.consumed.record(stream_);
}

}  // namespace mezzo::runtime::cuda
