// Steps on vectors of statistics (one float32 per channel or row) around normalisations. The
// library speaks of the variance, the op list of the inverse standard deviation.
#pragma once

#include <cstdint>

#include "kernels/onednn/sequence.h"

namespace mezzo::kernels::onednn {

MemoryDesc vector_desc(std::int64_t elems);  // float32

// Operand i, of `elems` elements in any shape, as a float32 vector.
StatusOr<Operand> vector_input(SequenceBuilder& builder, const KernelRequest& request,
                               std::size_t i, std::int64_t elems);

// Result i of `elems` elements: where to write it in float32, and afterwards its cast.
Operand vector_place(SequenceBuilder& builder, const KernelRequest& request, std::size_t i,
                     std::int64_t elems);
Status store_vector(SequenceBuilder& builder, const KernelRequest& request, const Operand& from,
                    std::size_t i, std::int64_t elems);

// inv_std = 1 / sqrt(variance + epsilon)
void add_inv_std(SequenceBuilder& builder, const Operand& variance, const Operand& inv_std,
                 std::int64_t elems, float epsilon);

// variance = 1 / inv_std^2: with epsilon 0 the library gets inv_std back, to the last bit or two.
void add_variance(SequenceBuilder& builder, const Operand& inv_std, const Operand& variance,
                  std::int64_t elems);

// to = share old + batch_share batch
void add_running(SequenceBuilder& builder, const Operand& old, const Operand& batch,
                 const Operand& to, std::int64_t elems, float share, float batch_share);

// True if result i is there and wanted.
bool wants(const KernelRequest& request, std::size_t i);

}  // namespace mezzo::kernels::onednn
