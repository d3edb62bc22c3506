#include "tools/mezzo/samples.h"

#include <cstring>

namespace mezzo::cli {
namespace {

bool fits(const std::vector<Dim>& declared, std::size_t from, const std::vector<std::int64_t>& dims,
          std::size_t offset) {
  if (declared.size() + offset != dims.size()) return false;
  for (std::size_t i = from; i < declared.size(); ++i) {
    if (declared[i].known() && declared[i].value != dims[i + offset]) return false;
  }
  return true;
}

Type without_shape(const Type& type) {
  if (!type.is_tensor()) return type;
  TensorType open;
  open.dtype = type.tensor.dtype;
  return open;
}

}  // namespace

StatusOr<Samples> Samples::open(const std::vector<std::string>& paths, const Graph& graph) {
  Samples samples;
  for (const Value* input : graph.inputs()) {
    samples.declared_.push_back({input->name(), input->type, input->is_initializer()});
    samples.open_.push_back(samples.declared_.back());
    samples.open_.back().type = without_shape(input->type);
  }
  for (const std::string& path : paths) MEZZO_RETURN_IF_ERROR(samples.add(path));
  return samples;
}

Status Samples::add(const std::string& path) {
  MEZZO_ASSIGN_OR_RETURN(InputFiles files, InputFiles::open(path));
  files_.push_back({path, std::move(files), count_, 1});
  MEZZO_RETURN_IF_ERROR(load(files_.size() - 1));
  std::uint64_t& count = files_.back().count;
  std::size_t counted = SIZE_MAX;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    MEZZO_ASSIGN_OR_RETURN(const std::uint64_t own, samples_in(path, i, values_[i]));
    if (own == 0) continue;
    if (counted != SIZE_MAX && own != count) {
      return invalid_argument(path + ": input '" + declared_[counted].name + "' has " +
                              std::to_string(count) + " samples, and input '" + declared_[i].name +
                              "' " + std::to_string(own));
    }
    counted = i;
    count = own;
  }
  count_ += count;
  return ok_status();
}

StatusOr<std::uint64_t> Samples::samples_in(const std::string& path, std::size_t input,
                                            const RuntimeValue& value) const {
  const Type& type = declared_[input].type;
  if (!value.is_tensor() || !type.is_tensor() || !type.tensor.shape) return 0;
  const std::vector<Dim>& declared = *type.tensor.shape;
  const std::vector<std::int64_t>& dims = value.tensor.dims;
  if (fits(declared, 0, dims, 0)) return 0;
  if (fits(declared, 0, dims, 1) && dims[0] > 0) return static_cast<std::uint64_t>(dims[0]);
  if (!declared.empty() && fits(declared, 1, dims, 0) && declared[0].value > 0 && dims[0] > 0 &&
      dims[0] % declared[0].value == 0)
    return static_cast<std::uint64_t>(dims[0] / declared[0].value);
  return invalid_argument(path + ": input '" + declared_[input].name + "': expected " +
                          to_string(type) + ", or several of them along a first axis, got " +
                          to_string(value.tensor.type()));
}

Status Samples::load(std::size_t file) {
  if (loaded_ == file) return ok_status();
  values_.clear();
  MEZZO_ASSIGN_OR_RETURN(values_, files_[file].files.read(open_));
  loaded_ = file;
  return ok_status();
}

StatusOr<std::vector<RuntimeValue>> Samples::read(std::uint64_t index) {
  std::size_t file = 0;
  while (index >= files_[file].first + files_[file].count) ++file;
  MEZZO_RETURN_IF_ERROR(load(file));
  const std::uint64_t within = index - files_[file].first;
  std::vector<RuntimeValue> inputs;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    MEZZO_ASSIGN_OR_RETURN(const std::uint64_t own, samples_in(files_[file].path, i, values_[i]));
    if (own == 0) {
      inputs.push_back(values_[i]);
      continue;
    }
    const HostTensor& all = values_[i].tensor;
    HostTensor one{all.dtype, all.dims, nullptr};
    const bool further_axis = all.dims.size() > declared_[i].type.tensor.shape->size();
    if (further_axis) one.dims.erase(one.dims.begin());
    if (!further_axis) one.dims[0] /= static_cast<std::int64_t>(own);
    const std::size_t bytes = one.bytes();
    MEZZO_ASSIGN_OR_RETURN(const std::shared_ptr<std::byte> copy, pool_->allocate(bytes));
    if (bytes > 0) std::memcpy(copy.get(), all.data.get() + within * bytes, bytes);
    one.data = copy;
    inputs.emplace_back(std::move(one));
  }
  return inputs;
}

}  // namespace mezzo::cli
