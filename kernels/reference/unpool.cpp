// MaxUnpool and Col2Im: elements back to where windows took them from.
#include <algorithm>
#include <cstring>

#include "compiler/support/text.h"
#include "kernels/reference/element_types.h"
#include "kernels/reference/families.h"
#include "kernels/reference/indices.h"
#include "kernels/reference/strided_copy.h"

namespace mezzo::kernels::reference {
namespace {

using Int = std::int64_t;

constexpr Int kMostExtent = Int{1} << 31;  // of kernels, strides, dilations and pads

StatusOr<Dims> positive_list(const Operands& operands, std::string_view name, std::size_t count,
                             Int fallback, Int least) {
  Dims list = operands.attributes().get_ints(name, Dims(count, fallback));
  const bool fits = list.size() == count && std::all_of(list.begin(), list.end(), [&](Int value) {
                      return value >= least && value < kMostExtent;
                    });
  if (fits) return list;
  return operands.error("attribute '" + std::string(name) + "' is " + format_dims(list) +
                        ", expected " + std::to_string(count) + " numbers from " +
                        std::to_string(least) + " on");
}

}  // namespace

// x, indices: places in a tensor of the dims that x was pooled from, N C and (d - 1) stride - pads
// + kernel; y may be larger, then that tensor is its first corner. The rest is zero; of several
// elements for one place the last stays.
PreparedKernel prepare_max_unpool(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:a indices:l -> y:a"));
  MEZZO_RETURN_IF_ERROR(expect_row_major(operands));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 3, kMaxRank));
  const Dims& x = operands.in(0).dims;
  MEZZO_RETURN_IF_ERROR(operands.expect_in(1, x));
  if (operands.out(0).dtype != operands.in(0).dtype) {
    return operands.out_error(0, "expected dtype " + std::string(dtype_name(operands.in(0).dtype)));
  }
  const std::size_t spatial = x.size() - 2;
  MEZZO_ASSIGN_OR_RETURN(const Dims kernel, positive_list(operands, "kernel_shape", spatial, 1, 1));
  MEZZO_ASSIGN_OR_RETURN(const Dims strides, positive_list(operands, "strides", spatial, 1, 1));
  MEZZO_ASSIGN_OR_RETURN(const Dims pads, positive_list(operands, "pads", 2 * spatial, 0, 0));
  const Dims& y = operands.out(0).dims;
  Dims pooled = {x[0], x[1]};
  bool fits = y.size() == x.size() && y[0] == x[0] && y[1] == x[1];
  Int elems = x[0] * x[1];
  for (std::size_t d = 0; fits && d < spatial; ++d) {
    if (x[d + 2] > kMostExtent) return unimplemented("MaxUnpool: a dim beyond 2^31");
    pooled.push_back((x[d + 2] - 1) * strides[d] - pads[d] - pads[spatial + d] + kernel[d]);
    fits = pooled.back() >= 0 && pooled.back() <= y[d + 2];
    elems *= std::max<Int>(pooled.back(), 0);
  }
  if (!fits) {
    return operands.out_error(
        0, "dims " + format_dims(y) + " have no room for the pooled " + format_dims(pooled));
  }
  const Dims y_strides = element_strides(operands.out(0));
  return make_kernel([pooled, y_strides, elems, same = pooled == y, count = operands.in(0).elems(),
                      y_bytes = operands.out(0).bytes(),
                      bytes = element_bytes(operands.in(0))](const KernelArguments& arguments) {
    if (y_bytes > 0) std::memset(arguments.outputs[0], 0, y_bytes);
    const auto* indices = static_cast<const Int*>(arguments.inputs[1]);
    return with_element_bytes(bytes, [&](auto element) {
      using T = typename decltype(element)::Type;
      const T* x = static_cast<const T*>(arguments.inputs[0]);
      T* y = static_cast<T*>(arguments.outputs[0]);
      for (Int i = 0; i < count; ++i) {
        Int place = indices[i];
        if (place < 0 || place >= elems) {
          return invalid_argument("MaxUnpool, operand 1 'indices': element " + std::to_string(i) +
                                  " is " + std::to_string(place) + ", expected 0 to " +
                                  std::to_string(elems - 1));
        }
        if (!same) {
          Int rest = place;
          place = 0;
          for (std::size_t d = pooled.size(); d > 0; --d) {
            place += rest % pooled[d - 1] * y_strides[d - 1];
            rest /= pooled[d - 1];
          }
        }
        y[place] = x[i];
      }
      return ok_status();
    });
  });
}

namespace {

// Letters: C channels, B elements of a block, L blocks: x[N, C B, L] -> y[N, C, image].
struct ColumnPlan {
  Int batches = 0, channels = 0, block = 1, blocks = 1, pixels = 1;
  Dims image, block_shape, counts, strides, dilations, pads;  // per image dim; pads: begins
};

// visit(column, pixel) for all columns of a channel [B, L] that lie on a pixel of its image.
template <typename Visit>
void for_each_column(const ColumnPlan& plan, Visit&& visit) {
  const std::size_t rank = plan.image.size();
  std::array<Int, kMaxRank> tap{};
  for (Int b = 0; b < plan.block; ++b) {
    std::array<Int, kMaxRank> at{};
    for (Int l = 0; l < plan.blocks; ++l) {
      Int place = 0;
      bool inside = true;
      for (std::size_t d = 0; d < rank; ++d) {
        const Int i = at[d] * plan.strides[d] - plan.pads[d] + tap[d] * plan.dilations[d];
        inside = inside && i >= 0 && i < plan.image[d];
        place = place * plan.image[d] + i;
        if (!inside) break;
      }
      if (inside) visit(b * plan.blocks + l, place);
      for (std::size_t d = rank; d > 0 && ++at[d - 1] == plan.counts[d - 1]; --d) at[d - 1] = 0;
    }
    for (std::size_t d = rank; d > 0 && ++tap[d - 1] == plan.block_shape[d - 1]; --d) {
      tap[d - 1] = 0;
    }
  }
}

StatusOr<ColumnPlan> read_columns(const Operands& operands, const Dims& columns,
                                  const Dims& image) {
  MEZZO_RETURN_IF_ERROR(expect_row_major(operands));
  if (columns.size() != 3 || image.size() < 3) {
    return operands.error("expected columns of rank 3 and an image of rank 3 or more, got " +
                          format_dims(columns) + " and " + format_dims(image));
  }
  const std::size_t rank = image.size() - 2;
  ColumnPlan plan;
  plan.image.assign(image.begin() + 2, image.end());
  MEZZO_ASSIGN_OR_RETURN(plan.block_shape, positive_list(operands, "block_shape", rank, 1, 1));
  MEZZO_ASSIGN_OR_RETURN(plan.strides, positive_list(operands, "strides", rank, 1, 1));
  MEZZO_ASSIGN_OR_RETURN(plan.dilations, positive_list(operands, "dilations", rank, 1, 1));
  MEZZO_ASSIGN_OR_RETURN(plan.pads, positive_list(operands, "pads", 2 * rank, 0, 0));
  bool fits = true;
  for (std::size_t d = 0; fits && d < rank; ++d) {
    const Int room = plan.image[d] + plan.pads[d] + plan.pads[rank + d] -
                     ((plan.block_shape[d] - 1) * plan.dilations[d] + 1);
    fits = room >= 0;
    plan.counts.push_back(fits ? room / plan.strides[d] + 1 : 0);
    fits = fits && plan.block_shape[d] <= kMaxElems / plan.block &&
           plan.counts[d] <= kMaxElems / plan.blocks;
    plan.block *= fits ? plan.block_shape[d] : 1;
    plan.blocks *= fits ? plan.counts[d] : 1;
    plan.pixels *= plan.image[d];
  }
  plan.batches = image[0];
  plan.channels = image[1];
  if (!fits || image[0] != columns[0] || plan.blocks != columns[2] ||
      columns[1] % plan.block != 0 || columns[1] / plan.block != image[1]) {
    return operands.error("columns " + format_dims(columns) + ", blocks of " +
                          format_dims(plan.block_shape) + " and the image " + format_dims(image) +
                          " do not go together");
  }
  return plan;
}

}  // namespace

// Every element of a block is added to the pixel it was taken from: in double, rounded once.
// Integers beyond 2^53 are not exact.
PreparedKernel prepare_col2im(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:v -> y:v"));
  MEZZO_RETURN_IF_ERROR(operands.expect_one_kind(true));
  MEZZO_ASSIGN_OR_RETURN(const ColumnPlan plan,
                         read_columns(operands, operands.in(0).dims, operands.out(0).dims));
  return make_kernel(
      [plan, dtype = operands.in(0).dtype,
       result = Elements(operands.out(0))](const KernelArguments& arguments) {
        auto* image = static_cast<double*>(arguments.workspace);
        with_element_type(dtype, [&](auto element) {
          using T = typename decltype(element)::Type;
          const T* x = static_cast<const T*>(arguments.inputs[0]);
          for (Int nc = 0; nc < plan.batches * plan.channels; ++nc) {
            std::fill_n(image, plan.pixels, 0.0);
            const T* columns = x + nc * plan.block * plan.blocks;
            for_each_column(plan, [&](Int column, Int pixel) {
              image[pixel] += static_cast<double>(decode(columns[column]));
            });
            for (Int p = 0; p < plan.pixels; ++p) {
              result.write<double>(arguments.outputs[0], nc * plan.pixels + p, image[p]);
            }
          }
        });
      },
      doubles_bytes(plan.pixels));
}

// dy, the image's gradient, goes to every column that lies on the pixel.
PreparedKernel prepare_col2im_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "dy:f -> dx:f"));
  MEZZO_ASSIGN_OR_RETURN(const ColumnPlan plan,
                         read_columns(operands, operands.out(0).dims, operands.in(0).dims));
  return make_kernel([plan, dy = Elements(operands.in(0)),
                      dx = Elements(operands.out(0))](const KernelArguments& arguments) {
    for (Int i = 0; i < dx.count(); ++i) dx.write<double>(arguments.outputs[0], i, 0.0);
    for (Int nc = 0; nc < plan.batches * plan.channels; ++nc) {
      for_each_column(plan, [&](Int column, Int pixel) {
        dx.write<double>(arguments.outputs[0], nc * plan.block * plan.blocks + column,
                         dy.read<double>(arguments.inputs[0], nc * plan.pixels + pixel));
      });
    }
  });
}

}  // namespace mezzo::kernels::reference
