// What the runs of a recurrent layer share: its form, its activations, its weights in panels where
// they are constant, and the parts of its workspace. Letters as in kernels/recurrent.h.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "kernels/cpu/product.h"
#include "kernels/recurrent.h"

namespace mezzo::kernels::cpu {

// Elements of a buffer as T, in place where they are already.
template <typename T>
const T* numbers(const Isa& isa, DType dtype, const void* data, Int first, Int n, T* room) {
  if constexpr (std::is_same_v<T, double>) {
    return static_cast<const double*>(data) + first;
  } else {
    return floats(isa, dtype, data, first, n, room);
  }
}
template <typename T>
void write_numbers(const Isa& isa, DType dtype, const T* from, void* to, Int first, Int n) {
  if constexpr (std::is_same_v<T, double>) {
    std::copy_n(from, n, static_cast<double*>(to) + first);
  } else {
    isa.pack(dtype, from, at(to, first, dtype), n);
  }
}

struct LayerActivation {
  ActivationChoice choice;
  ElementwiseLoop loop = nullptr;  // float32 only; null: one by one
  float parameters[2] = {0.0F, 0.0F};
};

inline ElementwiseLoop activation_loop(const Isa& isa, RecurrentActivation kind) {
  switch (kind) {
    case RecurrentActivation::kElu: return isa.elementwise(ElementwiseOp::kElu);
    case RecurrentActivation::kHardSigmoid: return isa.elementwise(ElementwiseOp::kHardSigmoid);
    case RecurrentActivation::kLeakyRelu: return isa.elementwise(ElementwiseOp::kLeakyRelu);
    case RecurrentActivation::kRelu: return isa.elementwise(ElementwiseOp::kRelu);
    case RecurrentActivation::kSigmoid: return isa.elementwise(ElementwiseOp::kSigmoid);
    case RecurrentActivation::kSoftplus: return isa.elementwise(ElementwiseOp::kSoftplus);
    case RecurrentActivation::kTanh: return isa.elementwise(ElementwiseOp::kTanh);
    default: return nullptr;
  }
}

// A prepared layer that computes in T (float or double): what its runs share.
template <typename T>
struct RecurrentLayer {
  static constexpr ProductKind kKind =
      std::is_same_v<T, double> ? ProductKind::kFloat64 : ProductKind::kFloat32;

  struct alignas(64) Line {
    std::byte bytes[64];
  };

  const Isa& isa;
  RecurrentForm form;
  std::string op;
  int threads;
  DType in[8], out[3];
  std::vector<LayerActivation> activations;
  std::vector<Line> kept[2];  // panels of all directions of w and r

  RecurrentLayer(const KernelRequest& request, const Isa& table, RecurrentForm read)
      : isa(table), form(std::move(read)), op(request.op), threads(std::max(request.threads, 1)) {
    for (std::size_t i = 0; i < 8; ++i) in[i] = in_desc(request, i).dtype;
    for (std::size_t i = 0; i < 3; ++i) out[i] = out_desc(request, i).dtype;
    for (const ActivationChoice& choice : form.activations) {
      LayerActivation activation;
      activation.choice = choice;
      if constexpr (std::is_same_v<T, float>) activation.loop = activation_loop(isa, choice.kind);
      activation.parameters[0] = static_cast<float>(choice.alpha);
      activation.parameters[1] = static_cast<float>(choice.beta);
      activations.push_back(activation);
    }
    for (const std::size_t operand : {std::size_t{1}, std::size_t{2}}) {
      const void* data = request.constant(operand);
      if (data == nullptr) continue;
      std::vector<T> room(static_cast<std::size_t>(width() * depth_of(operand)));
      std::vector<Line>& panels = kept[operand - 1];
      panels.resize(static_cast<std::size_t>(form.directions * panels_bytes(operand)) /
                    sizeof(Line));
      for (Int d = 0; d < form.directions; ++d) {
        pack(operand, data, d, room.data(),
             reinterpret_cast<char*>(panels.data()) + d * panels_bytes(operand));
      }
    }
  }

  std::size_t workspace_bytes() const {
    Int elems = 0;
    for (const Int part : parts()) elems += padded(part);
    return static_cast<std::size_t>(elems) * sizeof(T);
  }

  std::size_t held_bytes() const { return (kept[0].size() + kept[1].size()) * sizeof(Line); }

  // True if numbers() gives the buffer itself.
  bool in_place(std::size_t operand) const {
    return std::is_same_v<T, double> || in[operand] == DType::kFloat32;
  }
  static constexpr Int padded(Int elems) { return (elems + 15) / 16 * 16; }
  Int width() const { return form.gates * form.hidden; }
  Int rows() const { return form.steps * form.batch; }
  // GRU's last gate has panels of its own: its product may come later.
  std::array<Int, 2> parts_of(std::size_t operand) const {
    const bool apart = operand == 2 && form.cell == RecurrentCell::kGru;
    return {apart ? 2 * form.hidden : width(), apart ? form.hidden : 0};
  }
  Int depth_of(std::size_t operand) const { return operand == 1 ? form.input : form.hidden; }
  Int panels_bytes(std::size_t operand) const {
    const auto [first, second] = parts_of(operand);
    return panel_bytes(isa, kKind, first, depth_of(operand)) +
           panel_bytes(isa, kKind, second, depth_of(operand));
  }
  // Direction d of the weights of an operand into panels. room: width() x depth numbers.
  void pack(std::size_t operand, const void* data, Int d, T* room, char* to) const {
    const Int depth = depth_of(operand);
    const Int elems = width() * depth;
    const T* rows = numbers<T>(isa, in[operand], data, d * elems, elems, room);
    const auto [first, second] = parts_of(operand);
    pack_panels(isa, kKind, rows, 1, depth, first, depth, to, threads);
    to += panel_bytes(isa, kKind, first, depth);
    pack_panels(isa, kKind, rows + first * depth, 1, depth, second, depth, to, threads);
  }

  // Parts of the workspace in numbers: x unpacked; panels of W and R, and room to unpack them; x
  // W^T; h, c, gates, r h; biases and peepholes.
  std::array<Int, 10> parts() const {
    const Int n = form.hidden;
    const auto panels = [&](std::size_t operand) {
      return kept[operand - 1].empty() ? panels_bytes(operand) / static_cast<Int>(sizeof(T)) : 0;
    };
    const bool unpacks = (kept[0].empty() && !in_place(1)) || (kept[1].empty() && !in_place(2));
    return {in_place(0) ? 0 : rows() * form.input,
            panels(1),
            panels(2),
            unpacks ? width() * std::max(form.input, n) : 0,
            rows() * width(),
            form.batch * n,
            form.batch * n,
            form.batch * width(),
            form.batch * n,
            2 * width() + 3 * n};
  }
};

}  // namespace mezzo::kernels::cpu
