// Between the type of a buffer and the type a loop works on, a block at a time.
#pragma once

#include "kernels/cpu/common.h"

namespace mezzo::kernels::cpu {

// True for the types that blocks can be loaded from and stored to: floats of 16, 32 and 64 bits,
// integers of 8 to 64 bits, bool.
bool is_convertible(DType dtype);

// Room for a block of any type.
struct BlockRoom {
  alignas(64) std::byte bytes[kBlock * 8];
};

// Elements [first, first + n) of a buffer as elements of the type `loop`, n <= kBlock: where they
// lie if they are of that type, else in `room`.
const void* load_block(const Isa& isa, DType dtype, DType loop, const void* data, Int first, Int n,
                       void* room);
// Where a loop may write results for those elements: the buffer itself or `room`...
inline void* block_target(DType dtype, DType loop, void* data, Int first, void* room) {
  return dtype == loop ? static_cast<void*>(at(data, first, dtype)) : room;
}
// ... and what follows: from `room` into the buffer, rounded to nearest even or by Cast's rules.
void store_block(const Isa& isa, DType dtype, DType loop, const void* room, void* data, Int first,
                 Int n);

// `n` copies of the element at `value`; the two may overlap in the first.
void fill_elements(DType dtype, const void* value, void* to, Int n);

}  // namespace mezzo::kernels::cpu
