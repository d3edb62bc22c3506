#include "compiler/interpreter/interpreter.h"

#include <cstring>

#include "compiler/interpreter/machine.h"

namespace mezzo {

class Interpreter::Impl : public interpreter::Machine {
  using Machine::Machine;
};

Interpreter::Interpreter(const Model& model, InterpreterOptions options)
    : impl_(std::make_unique<Impl>(model, std::move(options))) {}

Interpreter::~Interpreter() = default;

StatusOr<std::vector<RuntimeValue>> Interpreter::run(std::vector<RuntimeValue> inputs) {
  return impl_->run(std::move(inputs));
}

StatusOr<HostTensor> Interpreter::make_tensor(DType dtype, std::vector<std::int64_t> dims,
                                              std::span<const std::byte> bytes) {
  MEZZO_ASSIGN_OR_RETURN(interpreter::NewTensor made, impl_->allocate(dtype, std::move(dims)));
  if (!bytes.empty()) std::memcpy(made.data.get(), bytes.data(), bytes.size());
  return std::move(made).finish();
}

std::uint64_t Interpreter::peak_bytes() const { return impl_->peak_bytes(); }

}  // namespace mezzo
