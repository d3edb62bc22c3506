#include "runtime/train/data.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "compiler/support/json_util.h"
#include "compiler/support/text.h"
#include "runtime/train/random.h"

namespace mezzo::runtime {
namespace {

constexpr std::int64_t kMostShuffled = std::int64_t{1} << 32;

std::string type_and_dims(DType dtype, std::span<const std::int64_t> dims) {
  std::string text = std::string(dtype_name(dtype)) + "[N";
  for (const std::int64_t dim : dims.subspan(1)) text += dim < 0 ? ",?" : "," + std::to_string(dim);
  return text + "]";
}

bool dims_fit(std::span<const std::int64_t> expected, std::span<const std::int64_t> got) {
  return expected.size() == got.size() &&
         std::equal(expected.begin() + 1, expected.end(), got.begin() + 1,
                    [](std::int64_t want, std::int64_t have) { return want < 0 || want == have; });
}

std::string_view fault_text(ElementFault fault) {
  switch (fault) {
    case ElementFault::kNotANumber: return "NaN";
    case ElementFault::kInfinite: return "infinite";
    default: return "out of the input's range";
  }
}

// "[3,0,7]": where the element at a position of a C-ordered array lies.
std::string index_text(std::span<const std::int64_t> shape, std::int64_t position) {
  std::vector<std::int64_t> index(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    index[i] = position % shape[i];
    position /= shape[i];
  }
  return format_dims(index);
}

}  // namespace

StatusOr<Dataset> Dataset::open(const std::string& path, std::vector<InputExpectation> inputs,
                                const DatasetOptions& options) {
  if (options.batch_size < 1) {
    return invalid_argument("--batch-size: expected at least 1, got " +
                            std::to_string(options.batch_size));
  }
  MEZZO_ASSIGN_OR_RETURN(const NpzFile file, NpzFile::open(path));
  Dataset dataset(std::move(inputs), options);
  for (const InputExpectation& input : dataset.inputs_) {
    MEZZO_RETURN_IF_ERROR(dataset.add_source(file, input));
  }
  if (dataset.sources_.empty()) return invalid_argument(printable(path) + ": no input takes data");
  if (options.shuffle) {
    if (dataset.samples_ > kMostShuffled) {
      return unimplemented(printable(path) + ": " + format_count(dataset.samples_) +
                           " samples are too many to shuffle. Hint: use --no-shuffle");
    }
    dataset.order_.resize(static_cast<std::size_t>(dataset.samples_));
  }
  dataset.seek(0);
  return dataset;
}

Status Dataset::add_source(const NpzFile& file, const InputExpectation& input) {
  MEZZO_ASSIGN_OR_RETURN(const ArrayInfo* array, file.get(input.name));
  const std::string where = printable(file.path()) + ": array '" + printable(input.name) + "'";
  if (input.dims.empty()) {
    return unimplemented(where + ": the graph's input is a scalar. Inputs need a batch axis");
  }
  if (!dims_fit(input.dims, array->shape)) {
    return invalid_argument(where + ": expected " + type_and_dims(input.dtype, input.dims) +
                            " with N samples, got " + std::string(dtype_name(array->dtype)) +
                            format_dims(array->shape));
  }
  const CastFunction cast = element_cast(array->dtype, input.dtype);
  if (cast == nullptr) {
    return invalid_argument(where + ": expected " + std::string(dtype_name(input.dtype)) +
                            ", got " + std::string(dtype_name(array->dtype)) +
                            ". Hint: cast it before saving, for example labels.astype('int64')");
  }
  const std::int64_t samples = array->shape[0];
  if (samples == 0) return invalid_argument(where + ": has no samples");
  if (!sources_.empty() && samples != samples_) {
    return invalid_argument(where + ": has " + std::to_string(samples) + " samples, but '" +
                            printable(inputs_[0].name) + "' has " + std::to_string(samples_));
  }
  samples_ = samples;

  Source source;
  source.cast = cast;
  source.dims.assign(array->shape.begin() + 1, array->shape.end());
  source.sample_elems = static_cast<std::int64_t>(array->elems) / samples;
  source.from_bytes = source.sample_elems * dtype_bits(array->dtype) / 8;
  source.to_bytes = source.sample_elems * dtype_bits(input.dtype) / 8;
  const auto most = std::numeric_limits<std::int64_t>::max() / options_.batch_size;
  if (source.to_bytes > most) return invalid_argument(where + ": a batch is too large");
  MEZZO_ASSIGN_OR_RETURN(source.data, file.read(input.name, Alignment::kAny));
  if (options_.check_values) {
    const auto faulty = check_elements(array->dtype, input.dtype, source.data.bytes.data(),
                                       static_cast<std::int64_t>(array->elems));
    if (faulty) {
      const bool in_range = faulty->fault == ElementFault::kOutOfRange;
      return invalid_argument(where + ": the element at " +
                              index_text(array->shape, faulty->position) + " is " +
                              std::string(fault_text(faulty->fault)) +
                              (in_range ? " (" + std::string(dtype_name(input.dtype)) + ")"
                                        : std::string(". Hint: clean the data before training")));
    }
  }
  sources_.push_back(std::move(source));
  return ok_status();
}

std::int64_t Dataset::batches_per_epoch() const { return (samples_ - 1) / options_.batch_size + 1; }

std::vector<std::int64_t> Dataset::batch_dims(std::size_t input) const {
  std::vector<std::int64_t> dims = {options_.batch_size};
  dims.insert(dims.end(), sources_[input].dims.begin(), sources_[input].dims.end());
  return dims;
}

void Dataset::seek(std::int64_t position) {
  position_ = position;
  const std::int64_t epoch = position / samples_;
  if (epoch != epoch_ && !order_.empty()) {
    shuffle_indices(options_.seed, static_cast<std::uint64_t>(epoch), order_);
  }
  epoch_ = epoch;
}

void Dataset::next(std::span<void* const> buffers) {
  for (std::int64_t filled = 0; filled < options_.batch_size;) {
    // In file order as many samples as are left of the epoch go in one piece.
    const std::int64_t at = position_ % samples_;
    const std::int64_t count =
        order_.empty() ? std::min(options_.batch_size - filled, samples_ - at) : 1;
    const std::int64_t sample = order_.empty() ? at : order_[static_cast<std::size_t>(at)];
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const Source& source = sources_[i];
      source.cast(source.data.bytes.data() + sample * source.from_bytes,
                  static_cast<std::byte*>(buffers[i]) + filled * source.to_bytes,
                  count * source.sample_elems);
    }
    filled += count;
    seek(position_ + count);
  }
}

nlohmann::json Dataset::save() const {
  return {{"position", position_},
          {"samples", samples_},
          {"shuffle", options_.shuffle},
          {"seed", options_.seed}};
}

Status Dataset::load(const nlohmann::json& saved) {
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t position, json_int(saved, "position"));
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t samples, json_int(saved, "samples"));
  MEZZO_ASSIGN_OR_RETURN(const bool shuffle, json_bool(saved, "shuffle"));
  MEZZO_ASSIGN_OR_RETURN(const std::uint64_t seed, json_uint(saved, "seed"));
  if (position < 0) return invalid_argument("key 'position': is negative");
  if (samples != samples_) {
    return invalid_argument("the checkpoint was written with " + std::to_string(samples) +
                            " samples, the data now has " + std::to_string(samples_) +
                            ". Hint: resume with the same --data");
  }
  if (shuffle != options_.shuffle || (shuffle && seed != options_.seed)) {
    return invalid_argument(
        "the checkpoint was written with another order of samples. Hint: "
        "resume with the same --seed and --no-shuffle setting");
  }
  seek(position);
  return ok_status();
}

}  // namespace mezzo::runtime
