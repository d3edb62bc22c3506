#include "runtime/cuda/training.h"

#include <array>
#include <string>
#include <vector>

#include "kernels/cuda/check.h"
#include "kernels/cuda/training.h"
#include "runtime/cuda/batch_feed.h"
#include "runtime/cuda/training_tables.h"

namespace mezzo::runtime::cuda {
namespace {

using kernels::StepRecord;
using kernels::TrainingProgress;
using kernels::cuda::BadCounts;
using kernels::cuda::check;
using kernels::cuda::TrainingControl;
using kernels::cuda::TrainingParameter;
using kernels::cuda::TrainingTables;

class CudaTraining : public DeviceTraining {
 public:
  CudaTraining(Device& device, cudaStream_t stream)
      : device_(device), stream_(stream), feed_(stream) {}
  // Pinned memory is given back below, and nothing says that this waits for copies on their way.
  ~CudaTraining() override { cudaStreamSynchronize(stream_); }
  CudaTraining(const CudaTraining&) = delete;
  CudaTraining& operator=(const CudaTraining&) = delete;

  Status create(const DeviceTrainingSpec& spec) {
    MEZZO_RETURN_IF_ERROR(tables_.create(device_, spec));
    MEZZO_RETURN_IF_ERROR(feed_.create(device_, spec.inputs));
    for (Arrival& arrival : arrivals_) {
      MEZZO_ASSIGN_OR_RETURN(arrival.record, device_.allocate_pinned(sizeof(StepRecord)));
      MEZZO_RETURN_IF_ERROR(arrival.event.create());
    }
    return ok_status();
  }

  Status put(const TrainingProgress& progress, std::span<const HostParameter> parameters) override {
    TrainingControl control;
    control.progress = progress;
    const kernels::DeviceFault none;
    MEZZO_RETURN_IF_ERROR(device_.copy_to_device(tables().control, &control, sizeof control));
    MEZZO_RETURN_IF_ERROR(device_.copy_to_device(tables().fault, &none, sizeof none));
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const TrainingParameter& p = tables_.parameters()[i];
      MEZZO_RETURN_IF_ERROR(to_device(p.first, parameters[i].first, p.elems));
      MEZZO_RETURN_IF_ERROR(to_device(p.second, parameters[i].second, p.elems));
      MEZZO_RETURN_IF_ERROR(to_device(p.average, parameters[i].average, p.elems));
    }
    return kernels::cuda::refresh_low(tables(), stream_);
  }

  Status get(std::span<const HostParameter> parameters) override {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const TrainingParameter& p = tables_.parameters()[i];
      MEZZO_RETURN_IF_ERROR(to_host(parameters[i].first, p.first, p.elems));
      MEZZO_RETURN_IF_ERROR(to_host(parameters[i].second, p.second, p.elems));
      MEZZO_RETURN_IF_ERROR(to_host(parameters[i].average, p.average, p.elems));
    }
    return ok_status();
  }

  StatusOr<std::span<void* const>> batch_buffers() override { return feed_.buffers(); }
  Status enqueue_batch() override { return feed_.enqueue(); }

  Status enqueue_begin() override { return kernels::cuda::begin_micro_batch(tables(), stream_); }
  Status enqueue_end() override { return kernels::cuda::end_micro_batch(tables(), stream_); }
  Status enqueue_update() override { return kernels::cuda::update_weights(tables(), stream_); }
  Status enqueue_cancel() override { return kernels::cuda::cancel_step(tables(), stream_); }

  Status enqueue_record() override {
    if (enqueued_ - taken_ >= kMostInFlight)
      return internal_error("more training steps in flight than records of them");
    Arrival& arrival = arrivals_[enqueued_ % kMostInFlight];
    ++enqueued_;
    MEZZO_RETURN_IF_ERROR(check(
        "cudaMemcpyAsync", cudaMemcpyAsync(arrival.record->data(), tables().record,
                                           sizeof(StepRecord), cudaMemcpyDeviceToHost, stream_)));
    return arrival.event.record(stream_);
  }

  StatusOr<StepRecord> take_record() override {
    if (taken_ == enqueued_) return internal_error("no training step in flight");
    Arrival& arrival = arrivals_[taken_ % kMostInFlight];
    ++taken_;
    MEZZO_RETURN_IF_ERROR(arrival.event.poll());
    return *reinterpret_cast<const StepRecord*>(arrival.record->data());
  }

  Status read_gradient(std::size_t parameter, std::span<float> to) override {
    const TrainingParameter& p = tables_.parameters()[parameter];
    const float* from = p.sum != nullptr ? p.sum : p.gradient;
    return to_host(to.data(), from, p.elems);
  }

  StatusOr<std::vector<BadCount>> bad_gradients() override {
    std::vector<BadCounts> pieces(static_cast<std::size_t>(tables().trained_pieces));
    MEZZO_RETURN_IF_ERROR(
        device_.copy_to_host(pieces.data(), tables().bad, pieces.size() * sizeof(BadCounts)));
    std::vector<BadCount> counts;
    for (const TrainingParameter& p : tables_.parameters()) {
      BadCount& count = counts.emplace_back();
      for (std::int32_t i = 0; p.optimizer >= 0 && i < p.pieces; ++i) {
        const BadCounts& piece = pieces[static_cast<std::size_t>(p.first_piece + i)];
        count.infs += piece.infs;
        count.nans += piece.nans;
      }
    }
    return counts;
  }

  std::uint64_t bytes() const override { return tables_.bytes(); }

 private:
  struct Arrival {
    std::unique_ptr<DeviceMemory> record;
    Event event;
  };

  const TrainingTables& tables() const { return tables_.get(); }
  Status to_device(float* to, const float* from, std::int64_t elems) {
    if (to == nullptr || from == nullptr) return ok_status();
    return device_.copy_to_device(to, from, static_cast<std::uint64_t>(elems) * sizeof(float));
  }
  Status to_host(float* to, const float* from, std::int64_t elems) {
    if (to == nullptr || from == nullptr) return ok_status();
    return device_.copy_to_host(to, from, static_cast<std::uint64_t>(elems) * sizeof(float));
  }

  Device& device_;
  cudaStream_t stream_;
  TrainingMemory tables_;
  BatchFeed feed_;
  std::array<Arrival, kMostInFlight> arrivals_;
  std::uint64_t enqueued_ = 0, taken_ = 0;  // records
};

}  // namespace

StatusOr<std::unique_ptr<DeviceTraining>> create_training(Device& device, cudaStream_t stream,
                                                          const DeviceTrainingSpec& spec) {
  auto training = std::make_unique<CudaTraining>(device, stream);
  MEZZO_RETURN_IF_ERROR(training->create(spec));
  return std::unique_ptr<DeviceTraining>(std::move(training));
}

}  // namespace mezzo::runtime::cuda
