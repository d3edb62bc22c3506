#include "kernels/cuda/check.h"

#include <string>
#include <string_view>

namespace mezzo::kernels::cuda {

Status check(cudaError_t error, std::source_location where) {
  if (error == cudaSuccess) return ok_status();
  const std::string_view path = where.file_name();
  return internal_error(
      "CUDA: " + std::string(cudaGetErrorName(error)) + " (" + cudaGetErrorString(error) + ") at " +
      std::string(path.substr(path.rfind('/') + 1)) + ":" + std::to_string(where.line()));
}

}  // namespace mezzo::kernels::cuda
