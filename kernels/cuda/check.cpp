#include "kernels/cuda/check.h"

#include <string>
#include <string_view>

namespace mezzo::kernels::cuda {
namespace {

// Errors of work that was put into a stream earlier: the call that gives them did nothing wrong.
bool is_of_earlier_work(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorECCUncorrectable:
    case cudaErrorAssert: return true;
    default: return false;
  }
}

}  // namespace

Status check(const char* call, cudaError_t error, SourceLocation where) {
  if (error == cudaSuccess) return ok_status();
  const std::string_view path = where.file_name();
  std::string message = "CUDA: " + std::string(call) + (*call == '\0' ? "" : ": ") +
                        cudaGetErrorName(error) + " (" + cudaGetErrorString(error) + ") at " +
                        std::string(path.substr(path.rfind('/') + 1)) + ":" +
                        std::to_string(where.line());
  if (is_of_earlier_work(error)) {
    message +=
        ". Hint: work launched before went wrong; with CUDA_LAUNCH_BLOCKING=1 in the environment "
        "and --cuda-graph off the message names its node";
  }
  return internal_error(message);
}

Status check(cudaError_t error, SourceLocation where) { return check("", error, where); }

}  // namespace mezzo::kernels::cuda
