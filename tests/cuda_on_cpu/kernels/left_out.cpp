// What has no CUDA row, and why. Such steps are computed on the host, and a plan that has one runs
// without a CUDA graph.
#include "tests/cuda_on_cpu/kernels/row_book.h"

namespace mezzo::kernels {

namespace {

constexpr std::string_view kSizeOfData =
    "how large the result is depends on the data, and the host must know it to go on";
constexpr std::string_view kOptimizer =
    "ONNX's optimizers as operators of a model; training on a device has update kernels of its own";
constexpr std::string_view kSignal = "signal processing, for which no library is linked";
constexpr std::string_view kRare = "rare in models that are trained or run on a GPU";
constexpr std::string_view kRareGradient =
    "the gradient of an operator that is rare in models that are trained on a GPU";

constexpr LeftOut kLeftOut[] = {
    {"Adagrad", kOptimizer},
    {"Adam", kOptimizer},
    {"Compress", kSizeOfData},
    {"DFT", kSignal},
    {"DFTGrad", kSignal},
    {"DeformConv", kRare},
    {"DeformConvGrad", kRareGradient},
    {"Det", kRare},
    {"DetGrad", kRareGradient},
    {"LinearAttention", kRare},
    {"LinearAttentionGrad", kRareGradient},
    {"MaxRoiPoolGrad", kRareGradient},
    {"MelWeightMatrix", kSignal},
    {"Momentum", kOptimizer},
    {"NonMaxSuppression", kSizeOfData},
    {"NonZero", kSizeOfData},
    {"RoiAlignGrad", kRareGradient},
    {"STFT", kSignal},
    {"STFTGrad", kSignal},
    {"Unique", kSizeOfData},
};

constexpr std::string_view kDoubles = "operands of float64";
constexpr Refused kRefused[] = {{"RNN", kDoubles}, {"GRU", kDoubles}, {"LSTM", kDoubles}};

}  // namespace

std::span<const LeftOut> operators_left_out() { return kLeftOut; }
std::span<const Refused> requests_refused() { return kRefused; }

}  // namespace mezzo::kernels
