// Turns a forward graph, exported for training or for inference, into its training form.
#pragma once

#include <memory>

#include "passes/pass.h"

namespace mezzo::passes {

// BatchNormalization in either form becomes ai.mezzo.BatchNormalizationTrain, which normalises by
// the batch and also gives the new running statistics: outputs `state/NAME`, listed in
// ctx.training->states. The running variance takes the batch's unbiased one, as the frameworks do
// that models come from; ONNX's own training mode takes the population's. Dropout with a ratio
// becomes ai.mezzo.Dropout, driven by the graph input `random_counter`.
//
// InvalidArgument: the exporter folded trainable layers away (names what is gone).
StatusOr<bool> prepare_training(Model& model, PassContext& ctx);

// The opposite: normalisations use running statistics, dropout passes through. For the evaluate
// phase and for exporting. Changes nothing in a graph already in inference form.
StatusOr<bool> to_inference_form(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
