// A model in ONNX's text syntax, run by the interpreter.
#pragma once

#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "compiler/interpreter/interpreter.h"
#include "compiler/ir/graph.h"

namespace mezzo::test {

template <typename T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::kFloat32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::kFloat64;
}
template <>
constexpr DType dtype_of<std::int64_t>() {
  return DType::kInt64;
}
template <>
constexpr DType dtype_of<std::uint8_t>() {
  return DType::kBool;
}

class Interpreted {
 public:
  // The model must import; `functions`: local functions are expanded first.
  explicit Interpreted(std::string_view text, InterpreterOptions options = {},
                       bool functions = false);

  template <typename T>
  RuntimeValue tensor(std::vector<std::int64_t> dims, const std::vector<T>& values) {
    auto made = interpreter_->make_tensor(
        dtype_of<T>(), std::move(dims),
        {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T)});
    return RuntimeValue(std::move(made).value());
  }
  template <typename T>
  RuntimeValue scalar(T value) {
    return tensor<T>({}, {value});
  }
  RuntimeValue truth(bool value) { return scalar<std::uint8_t>(value ? 1 : 0); }

  // Fails the test where the run does, and gives nothing.
  std::vector<RuntimeValue> run(std::vector<RuntimeValue> inputs);
  // The message of a run that must fail.
  std::string error(std::vector<RuntimeValue> inputs);
  Interpreter& interpreter() { return *interpreter_; }

 private:
  std::unique_ptr<Model> model_;
  std::unique_ptr<Interpreter> interpreter_;
};

template <typename T>
std::vector<T> values_of(const RuntimeValue& value) {
  std::vector<T> values(value.is_tensor() ? static_cast<std::size_t>(value.tensor.elems()) : 0);
  if (!values.empty() && value.tensor.dtype == dtype_of<T>())
    std::memcpy(values.data(), value.tensor.data.get(), values.size() * sizeof(T));
  return values;
}

}  // namespace mezzo::test
