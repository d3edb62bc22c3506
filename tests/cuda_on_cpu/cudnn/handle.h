// What hides behind cudnnHandle_t.
#pragma once

#include <cudnn_graph.h>

struct cudnnContext {
  cudaStream_t stream = nullptr;
};
