// MatMulActivation, MatMulActivationGrad and MatMulSums, made of the kernels of their parts: the
// product is left in float32, so that there is one rounding as if it were one kernel.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "kernels/cpu/common.h"

namespace mezzo::kernels::cpu {
namespace {

// Where an operand or result of a part lies: operand or result `number` of the whole, or the
// product.
struct Place {
  enum class Kind : std::uint8_t { kInput, kOutput, kProduct } kind = Kind::kProduct;
  std::size_t number = 0;
};

struct Part {
  std::unique_ptr<Kernel> kernel;
  std::vector<Place> from;
  Place to;
};

// What a request asks for, as one kernel after another.
class Parts final : public Kernel {
 public:
  // `request` is the whole's and outlives the calls of add().
  Parts(const KernelRequest& request, const Isa& isa)
      : request_(&request), product_(request.outputs[0]), implementation_(isa.name) {
    product_.dtype = DType::kFloat32;
    product_.layout = Layout::kRowMajor;
  }

  static Place input(std::size_t number) { return {Place::Kind::kInput, number}; }
  static Place output(std::size_t number) { return {Place::Kind::kOutput, number}; }
  static Place product() { return {}; }

  Status add(std::string op, Attributes attributes, const std::vector<Place>& from, Place to) {
    KernelRequest part{std::move(op), std::move(attributes), {}, {desc(to)}, request_->threads};
    for (const Place& place : from) {
      part.inputs.push_back(desc(place));
      const bool is_input = place.kind == Place::Kind::kInput;
      part.constants.push_back(is_input ? request_->constant(place.number) : nullptr);
    }
    MEZZO_ASSIGN_OR_RETURN(auto kernel, prepare_kernel(part, Backend::kCpu));
    uses_product_ = uses_product_ || to.kind == Place::Kind::kProduct;
    inner_bytes_ = std::max(inner_bytes_, kernel->workspace_bytes());
    parts_.push_back({std::move(kernel), from, to});
    return ok_status();
  }

  std::size_t workspace_bytes() const override { return product_bytes() + inner_bytes_; }
  std::size_t held_bytes() const override {
    std::size_t bytes = 0;
    for (const Part& part : parts_) bytes += part.kernel->held_bytes();
    return bytes;
  }
  std::string_view implementation() const override { return implementation_; }

  Status run(const KernelArguments& arguments) override {
    auto* workspace = static_cast<std::byte*>(arguments.workspace);
    for (Part& part : parts_) {
      const void* from[3] = {};
      for (std::size_t i = 0; i < part.from.size(); ++i) {
        const Place& place = part.from[i];
        from[i] = place.kind == Place::Kind::kInput    ? arguments.inputs[place.number]
                  : place.kind == Place::Kind::kOutput ? arguments.outputs[place.number]
                                                       : workspace;
      }
      void* to[] = {part.to.kind == Place::Kind::kOutput ? arguments.outputs[part.to.number]
                                                         : workspace};
      std::byte* inner = part.kernel->workspace_bytes() > 0 ? workspace + product_bytes() : nullptr;
      MEZZO_RETURN_IF_ERROR(
          part.kernel->run({std::span<const void* const>(from, part.from.size()), to, inner}));
    }
    return ok_status();
  }

 private:
  TensorDesc desc(const Place& place) const {
    switch (place.kind) {
      case Place::Kind::kInput: return request_->inputs[place.number];
      case Place::Kind::kOutput: return request_->outputs[place.number];
      case Place::Kind::kProduct: return product_;
    }
    return {};
  }
  std::size_t product_bytes() const {
    return uses_product_ ? (product_.bytes() + 63) / 64 * 64 : 0;
  }

  const KernelRequest* request_;  // until prepared
  TensorDesc product_;
  std::string implementation_;
  std::vector<Part> parts_;
  std::size_t inner_bytes_ = 0;
  bool uses_product_ = false;
};

Attributes product_attributes(const KernelRequest& request) {
  Attributes attributes;
  for (const char* name : {"trans_a", "trans_b"})
    attributes.set(name, request.attributes.get_int(name, 0));
  attributes.set("alpha", request.attributes.get_float("alpha", 1.0));
  return attributes;
}

Attributes tanh_form() {
  Attributes attributes;
  attributes.set("approximate", std::string("tanh"));
  return attributes;
}

Status take_row_major_floats(const KernelRequest& request) {
  for (const auto* descs : {&request.inputs, &request.outputs}) {
    for (const TensorDesc& desc : *descs) {
      if (desc.dtype == DType::kFloat64) return unimplemented("float64");
      if (desc.layout != Layout::kRowMajor) return unimplemented("channels-last matrices");
    }
  }
  return ok_status();
}

bool has_result(const KernelRequest& request, std::size_t number) {
  return number < request.outputs.size() && request.outputs[number].present();
}

}  // namespace

Prepared prepare_matmul_activation(const KernelRequest& request, const Isa& isa) {
  MEZZO_RETURN_IF_ERROR(take_row_major_floats(request));
  auto parts = std::make_unique<Parts>(request, isa);
  MEZZO_RETURN_IF_ERROR(parts->add("MatMulT", product_attributes(request),
                                   {Parts::input(0), Parts::input(1)}, Parts::product()));
  if (request.inputs.size() > 2 && request.inputs[2].present()) {
    MEZZO_RETURN_IF_ERROR(
        parts->add("Add", {}, {Parts::product(), Parts::input(2)}, Parts::product()));
  }
  const auto cast_to = [&](std::size_t result) {
    Attributes attributes;
    attributes.set("to", static_cast<std::int64_t>(request.outputs[result].dtype));
    return parts->add("Cast", std::move(attributes), {Parts::product()}, Parts::output(result));
  };
  if (has_result(request, 1)) MEZZO_RETURN_IF_ERROR(cast_to(1));
  const std::string name = request.attributes.get_string("activation", "none");
  if (name == "none") {
    MEZZO_RETURN_IF_ERROR(cast_to(0));
  } else if (name == "relu") {
    MEZZO_RETURN_IF_ERROR(parts->add("Relu", {}, {Parts::product()}, Parts::output(0)));
  } else {
    MEZZO_RETURN_IF_ERROR(parts->add("Gelu", tanh_form(), {Parts::product()}, Parts::output(0)));
  }
  return std::unique_ptr<Kernel>(std::move(parts));
}

Prepared prepare_matmul_activation_grad(const KernelRequest& request, const Isa& isa) {
  MEZZO_RETURN_IF_ERROR(take_row_major_floats(request));
  auto parts = std::make_unique<Parts>(request, isa);
  MEZZO_RETURN_IF_ERROR(parts->add("MatMulT", product_attributes(request),
                                   {Parts::input(0), Parts::input(1)}, Parts::product()));
  const bool relu = request.attributes.get_string("activation", "none") == "relu";
  MEZZO_RETURN_IF_ERROR(parts->add(relu ? "ReluGrad" : "GeluGrad",
                                   relu ? Attributes() : tanh_form(),
                                   {Parts::product(), Parts::input(2)}, Parts::output(0)));
  return std::unique_ptr<Kernel>(std::move(parts));
}

Prepared prepare_matmul_sums(const KernelRequest& request, const Isa& isa) {
  MEZZO_RETURN_IF_ERROR(take_row_major_floats(request));
  auto parts = std::make_unique<Parts>(request, isa);
  MEZZO_RETURN_IF_ERROR(parts->add("MatMulT", product_attributes(request),
                                   {Parts::input(0), Parts::input(1)}, Parts::output(0)));
  const bool of_a = request.attributes.get_string("of", "b") == "a";
  const bool trans = request.attributes.get_int(of_a ? "trans_a" : "trans_b", 0) != 0;
  Attributes attributes;
  attributes.set("axes", std::vector<std::int64_t>{of_a != trans ? 1 : 0});
  attributes.set("keepdims", std::int64_t{0});
  MEZZO_RETURN_IF_ERROR(parts->add("ReduceSum", std::move(attributes), {Parts::input(of_a ? 0 : 1)},
                                   Parts::output(1)));
  return std::unique_ptr<Kernel>(std::move(parts));
}

}  // namespace mezzo::kernels::cpu
