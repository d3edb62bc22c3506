#include "tests/gpu/network_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>

#include "runtime/io/npz.h"

namespace mezzo::gpu {
namespace {

constexpr std::int64_t kBatches = 2;  // of data; steps wrap around

// Uniform numbers of the given mean and deviation, as fast as they can be written.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed * 2 + 1) {}
  float next(double mean, double deviation) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    const double unit = static_cast<double>(state_ >> 11) * 0x1p-53;
    return static_cast<float>(mean + deviation * std::sqrt(12.0) * (unit - 0.5));
  }
  std::int64_t below(std::int64_t limit) {
    return std::min<std::int64_t>(
        limit - 1, static_cast<std::int64_t>(next(0.5, 0.2886) * static_cast<double>(limit)));
  }

 private:
  std::uint64_t state_;
};

void expect(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

}  // namespace

void write_weights(const std::string& path, const Json& recipe) {
  const auto bytes = recipe.at("weights_bytes").get<std::size_t>();
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (bytes == 0 && file >= 0) {  // all weights are in the model
    close(file);
    return;
  }
  if (file < 0 || posix_fallocate(file, 0, static_cast<off_t>(bytes)) != 0)
    throw std::runtime_error("cannot write " + path);
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (data == MAP_FAILED) throw std::runtime_error("cannot map " + path);
  Draws draws(1);
  for (const Json& tensor : recipe.at("tensors")) {
    const auto offset = tensor.at("offset").get<std::size_t>();
    const auto elems = tensor.at("elems").get<std::size_t>();
    const double mean = tensor.at("mean"), deviation = tensor.at("deviation");
    if (offset % sizeof(float) != 0 || offset > bytes || elems > (bytes - offset) / sizeof(float))
      throw std::runtime_error("a tensor beyond the weights of " + path);
    auto* to = reinterpret_cast<float*>(static_cast<char*>(data) + offset);
    for (std::size_t i = 0; i < elems; ++i) to[i] = draws.next(mean, deviation);
  }
  munmap(data, bytes);
}

void write_data(const std::string& path, const Json& recipe) {
  auto writer = runtime::NpzWriter::create(path);
  expect(writer.status());
  Draws draws(2);
  for (const Json& input : recipe.at("inputs")) {
    auto shape = input.at("shape").get<std::vector<std::int64_t>>();
    shape.at(0) *= kBatches;
    std::size_t elems = 1;
    for (const std::int64_t dim : shape) elems *= static_cast<std::size_t>(dim);
    const auto name = input.at("name").get<std::string>();
    const auto classes = input.at("classes").get<std::int64_t>();
    if (classes > 0) {
      std::vector<std::int64_t> values(elems);
      for (std::int64_t& value : values) value = draws.below(classes);
      expect(writer->add(name, DType::kInt64, shape, std::as_bytes(std::span(values))));
    } else {
      std::vector<float> values(elems);
      for (float& value : values) value = draws.next(0, 1);
      expect(writer->add(name, DType::kFloat32, shape, std::as_bytes(std::span(values))));
    }
  }
  expect(writer->commit());
}

}  // namespace mezzo::gpu
