#include "kernels/cuda/run_counter.h"

#include "kernels/cuda/launch.h"

namespace mezzo::kernels::cuda {

__global__ void count_run(std::int64_t* run) { ++*run; }

StatusOr<std::shared_ptr<RunCounter>> RunCounter::make() {
  void* room = nullptr;
  MEZZO_RETURN_IF_ERROR(check("cudaMalloc", cudaMalloc(&room, sizeof(std::int64_t))));
  auto counter = std::make_shared<RunCounter>(static_cast<std::int64_t*>(room));
  MEZZO_RETURN_IF_ERROR(check("cudaMemset", cudaMemset(room, 0, sizeof(std::int64_t))));
  MEZZO_RETURN_IF_ERROR(check("cudaDeviceSynchronize", cudaDeviceSynchronize()));
  return counter;
}

RunCounter::~RunCounter() { cudaFree(run_); }

Status RunCounter::count(void* stream) {
  return launch<count_run>({dim3(1), dim3(1)}, stream, run_);
}

}  // namespace mezzo::kernels::cuda
