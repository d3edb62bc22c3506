// The dims of a reduction, joined: what every reduction's loops walk through.
#pragma once

#include "kernels/cpu/common.h"

namespace mezzo::kernels::cpu {

struct ReduceGroup {
  Int size;
  Int stride;  // in elements of x
};

// The dims of x, in the order of its memory, are joined into groups that are kept or reduced as a
// whole.
struct ReduceShape {
  // Outermost first. The innermost group of x is left out of both and stands in `columns` (kept)
  // or `run` (reduced); the other of these is 1.
  std::vector<ReduceGroup> kept;
  std::vector<ReduceGroup> reduced;
  Int columns = 1;
  Int run = 1;
  Int outer = 1;  // product of the kept sizes
  Int rows = 1;   // product of the reduced sizes

  bool by_column() const { return run == 1; }
};

// Offset in elements of place `index` of the groups together.
Int offset_of(const std::vector<ReduceGroup>& groups, Int index);

// Fills the groups from x and a mark for every dim; sizes of 1 belong anywhere.
void make_groups(const TensorDesc& x, const std::vector<bool>& is_reduced, ReduceShape& shape);

// The marks of the dims that are reduced, for each family of operators.
std::vector<bool> reduced_dims(const KernelRequest& request);

// Unimplemented unless the kept elements of y come in the order in which x holds them.
Status check_order(const KernelRequest& request, const std::vector<bool>& marks);

// Doubles, integers and truth values; see reduce_typed.cpp.
Prepared prepare_typed_reduce(const KernelRequest& request, const Isa& isa);

}  // namespace mezzo::kernels::cpu
