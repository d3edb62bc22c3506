// GridSample and RoiAlign (average) of float32, float16 and bfloat16. Where a result looks is
// worked out once for all channels; each channel is then a weighted sum of elements found by index.
// Operands in 16 bits are unpacked as a whole first.
//
// Workspace: x as floats if it is not, then per thread the tables of one unit.
#include <cstring>

#include "kernels/cpu/common.h"
#include "kernels/cpu/number_at.h"
#include "kernels/roi_samples.h"
#include "kernels/sampling.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr Int kPoints = 512;  // results per unit of GridSample

struct Images {
  const Isa* isa = nullptr;
  DType x = DType::kNone, y = DType::kNone;
  Int batches = 0, channels = 0, in_pixels = 1, out_pixels = 1;
  int threads = 1;

  Int x_elems() const { return batches * channels * in_pixels; }
  Int unpacked() const { return x == DType::kFloat32 ? 0 : padded_floats(x_elems()); }
};

StatusOr<Images> read_images(const KernelRequest& request, const Isa& isa) {
  const TensorDesc& x = request.inputs[0];
  const TensorDesc& y = request.outputs[0];
  if (!is_packed_float(x.dtype) || !is_packed_float(y.dtype))
    return unimplemented("elements of another dtype");
  Images images;
  images.isa = &isa;
  images.x = x.dtype;
  images.y = y.dtype;
  images.batches = x.dims[0];
  images.channels = x.dims[1];
  for (std::size_t d = 2; d < x.dims.size(); ++d) {
    images.in_pixels *= x.dims[d];
    images.out_pixels *= y.dims[d];
  }
  constexpr Int kMostPixels = (Int{1} << 31) - 1;
  if (images.in_pixels > kMostPixels) return unimplemented("2^31 pixels or more");
  if (y.elems() == 0) return unimplemented("nothing to sample");
  images.threads = threads_for(y.elems() * 4, request.threads);
  return images;
}

const float* unpack_all(const Images& images, const KernelArguments& arguments) {
  if (images.x == DType::kFloat32) return static_cast<const float*>(arguments.inputs[0]);
  auto* room = static_cast<float*>(arguments.workspace);
  constexpr Int kUnit = 1 << 16;
  const Int all = images.x_elems();
  parallel_units(ceil_div(all, kUnit), images.threads, [&](Int unit, int) {
    const Int first = unit * kUnit;
    images.isa->unpack(images.x, at(arguments.inputs[0], first, images.x), room + first,
                       std::min(kUnit, all - first));
  });
  return room;
}

// Indices and weights of n results with `taps` each, tap by tap.
struct Table {
  std::int32_t* indices;
  float* weights;
  float* sums;  // n results of one channel

  static Int floats(Int n, Int taps) { return 2 * padded_floats(n * taps) + padded_floats(n); }
  Table(float* room, Int n, Int taps)
      : indices(reinterpret_cast<std::int32_t*>(room)),
        weights(room + padded_floats(n * taps)),
        sums(weights + padded_floats(n * taps)) {}
};

void store_results(const Images& images, const Table& table, void* y, Int first, Int n) {
  if (images.y == DType::kFloat32) {
    std::memcpy(static_cast<float*>(y) + first, table.sums, static_cast<std::size_t>(n) * 4);
  } else {
    images.isa->pack(images.y, table.sums, at(y, first, images.y), n);
  }
}

}  // namespace

Prepared prepare_grid_sample(const KernelRequest& request, const Isa& isa) {
  MEZZO_ASSIGN_OR_RETURN(const Images images, read_images(request, isa));
  MEZZO_ASSIGN_OR_RETURN(const GridSampling sampler, read_grid_sampling(request));
  const DType grid = request.inputs[1].dtype;
  const Int dims = sampler.rank;
  const Int taps = sampler.most_taps();
  const Int blocks = ceil_div(images.out_pixels, kPoints);
  const Int room = Table::floats(std::min(kPoints, images.out_pixels), taps);
  const auto bytes =
      static_cast<std::size_t>(images.unpacked() + room * std::max(images.threads, 1)) * 4;
  return make_kernel(isa, bytes, [=, &isa](const KernelArguments& arguments) {
    const float* x = unpack_all(images, arguments);
    float* rooms = static_cast<float*>(arguments.workspace) + images.unpacked();
    parallel_units(images.batches * blocks, images.threads, [&](Int unit, int thread) {
      const Int batch = unit / blocks;
      const Int first = unit % blocks * kPoints;
      const Int n = std::min(kPoints, images.out_pixels - first);
      const Table table(rooms + thread * room, n, taps);
      SampleTaps found;
      double point[kMostSampledDims];
      for (Int i = 0; i < n; ++i) {
        for (Int d = 0; d < dims; ++d) {
          point[d] = number_at(arguments.inputs[1], grid,
                               (batch * images.out_pixels + first + i) * dims + d);
        }
        sampler.taps_at(point, found);
        for (Int t = 0; t < taps; ++t) {
          const bool used = t < found.count;
          const auto tap = static_cast<std::size_t>(t);
          table.indices[t * n + i] = used ? static_cast<std::int32_t>(found.offsets[tap]) : 0;
          table.weights[t * n + i] = used ? static_cast<float>(found.weights[tap]) : 0.0F;
        }
      }
      for (Int c = batch * images.channels; c < (batch + 1) * images.channels; ++c) {
        isa.blend_taps(x + c * images.in_pixels, table.indices, table.weights, taps, table.sums, n);
        store_results(images, table, arguments.outputs[0], c * images.out_pixels + first, n);
      }
    });
  });
}

namespace {

constexpr Int kSamples = 4;  // of a bin per table
constexpr Int kRoiTaps = 4 * kSamples;

struct RoiPlan : RoiGeometry {
  Images images;
  DType rois = DType::kNone;
  bool wide_indices = false;

  Int image_of(const void* data, Int r) const {
    return wide_indices ? static_cast<const std::int64_t*>(data)[r]
                        : static_cast<const std::int32_t*>(data)[r];
  }
};

// The taps of samples [first, first + kSamples) of every bin; their weights add up to the share
// that these samples have in the bin's mean.
void write_samples(const RoiPlan& plan, const RoiRegion& region, Int first, const Table& table) {
  const Int bins = plan.rows * plan.columns;
  const Int samples = region.samples_down * region.samples_across;
  const double share = 1.0 / static_cast<double>(std::max<Int>(1, samples));
  for (Int bin = 0; bin < bins; ++bin) {
    for (Int s = 0; s < kSamples; ++s) {
      RoiNeighbours v, h;
      bool outside = first + s >= samples;
      if (!outside) {
        const Int i = (first + s) / region.samples_across, j = (first + s) % region.samples_across;
        v = roi_neighbours(region.sample_row(bin / plan.columns, i), plan.height);
        h = roi_neighbours(region.sample_column(bin % plan.columns, j), plan.width);
        outside = v.outside || h.outside;
      }
      const double down[2] = {1 - v.fraction, v.fraction}, across[2] = {1 - h.fraction, h.fraction};
      for (Int corner = 0; corner < 4; ++corner) {
        const Int row = corner < 2 ? v.low : v.high, column = corner % 2 == 0 ? h.low : h.high;
        const Int to = (s * 4 + corner) * bins + bin;
        table.indices[to] = outside ? 0 : static_cast<std::int32_t>(row * plan.width + column);
        table.weights[to] =
            outside ? 0.0F : static_cast<float>(share * down[corner / 2] * across[corner % 2]);
      }
    }
  }
}

// All channels of one region: a table of a few samples of every bin at a time. `sums`: the
// channels' bins.
void run_region(const RoiPlan& plan, const RoiRegion& region, const float* x, Int image, Int r,
                const Table& table, float* sums, void* y) {
  const Images& images = plan.images;
  const Int bins = plan.rows * plan.columns;
  const Int samples = std::max<Int>(1, region.samples_down * region.samples_across);
  const float* from = x + image * images.channels * images.in_pixels;
  for (Int first = 0; first < samples; first += kSamples) {
    write_samples(plan, region, first, table);
    for (Int c = 0; c < images.channels; ++c) {
      float* to = first == 0 ? sums + c * bins : table.sums;
      images.isa->blend_taps(from + c * images.in_pixels, table.indices, table.weights, kRoiTaps,
                             to, bins);
      for (Int i = 0; first > 0 && i < bins; ++i) sums[c * bins + i] += to[i];
    }
  }
  const Int all = images.channels * bins;
  images.isa->pack(images.y, sums, at(y, r * all, images.y), all);
}

Status check_regions(const RoiPlan& plan, Int regions, const KernelArguments& arguments) {
  for (Int r = 0; r < regions; ++r) {
    const Int image = plan.image_of(arguments.inputs[2], r);
    if (image < 0 || image >= plan.images.batches) {
      return invalid_argument("RoiAlign, operand 2 'batch_indices': element " + std::to_string(r) +
                              " is " + std::to_string(image) + ", expected 0 to " +
                              std::to_string(plan.images.batches - 1));
    }
  }
  return ok_status();
}

RoiRegion region_at(const RoiPlan& plan, const void* rois, Int r) {
  double corners[4];
  for (Int i = 0; i < 4; ++i) corners[i] = number_at(rois, plan.rois, 4 * r + i);
  return roi_region(plan, corners);
}

}  // namespace

Prepared prepare_roi_align(const KernelRequest& request, const Isa& isa) {
  const Attributes& attributes = request.attributes;
  if (attributes.get_string("mode", "avg") != "avg") return unimplemented("mode max");
  RoiPlan plan;
  MEZZO_ASSIGN_OR_RETURN(plan.images, read_images(request, isa));
  plan.height = request.inputs[0].dims[2];
  plan.width = request.inputs[0].dims[3];
  plan.rows = request.outputs[0].dims[2];
  plan.columns = request.outputs[0].dims[3];
  plan.sampling = attributes.get_int("sampling_ratio", 0);
  plan.scale = attributes.get_float("spatial_scale", 1.0);
  plan.half_pixel =
      attributes.get_string("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  plan.rois = request.inputs[1].dtype;
  plan.wide_indices = request.inputs[2].dtype == DType::kInt64;
  const Int bins = plan.rows * plan.columns;
  if (bins > (Int{1} << 24)) return unimplemented("too many bins");
  const Int regions = request.inputs[1].dims[0];
  const Int table_floats = Table::floats(bins, kRoiTaps);
  const Int room = table_floats + padded_floats(plan.images.channels * bins);
  const int threads = plan.images.threads;
  const auto bytes = static_cast<std::size_t>(plan.images.unpacked() + room * threads) * 4;
  return make_kernel(isa, bytes, [=](const KernelArguments& arguments) {
    MEZZO_RETURN_IF_ERROR(check_regions(plan, regions, arguments));
    for (Int r = 0; r < regions; ++r) {
      if (region_at(plan, arguments.inputs[1], r).sensible) continue;
      return invalid_argument("RoiAlign, operand 1 'rois': region " + std::to_string(r) +
                              " is not finite or too large");
    }
    const float* x = unpack_all(plan.images, arguments);
    float* rooms = static_cast<float*>(arguments.workspace) + plan.images.unpacked();
    parallel_units(regions, threads, [&](Int r, int thread) {
      float* own = rooms + thread * room;
      run_region(plan, region_at(plan, arguments.inputs[1], r), x,
                 plan.image_of(arguments.inputs[2], r), r, Table(own, bins, kRoiTaps),
                 own + table_floats, arguments.outputs[0]);
    });
    return ok_status();
  });
}

}  // namespace mezzo::kernels::cpu
