// The skeleton of every elementwise operation: shapes, broadcasting, blocks and threads around one
// loop over runs, or a program of loops (block_program.h).
//
// Dims that every operand walks through alike are joined, which leaves few: an inner one, in which
// an operand is either dense or one repeated element, rows above it, and the rest. Work is cut
// into units of at most kPiece elements of the result. Operands that lie dense and have the loop's
// type go to the loop as they are; all others pass through blocks on the stack.
#pragma once

#include <array>

#include "kernels/cpu/block_program.h"
#include "kernels/cpu/convert.h"

namespace mezzo::kernels::cpu {

class ElementwisePlan {
 public:
  static constexpr std::size_t kMostOperands = 8;

  ElementwisePlan(const Isa& isa, int threads) : isa_(&isa), threads_(threads) {}

  // The loop: one on float32, or one on the types given with the operands and the result.
  void set_loop(ElementwiseLoop loop) { single_loop_ = loop; }
  void set_loop(TypedLoop loop) { typed_loop_ = loop; }
  void set_parameters(double first, double second) { parameters_ = {first, second}; }
  // Or several loops on float32, a block of elements after the other. The plan borrows the program.
  void set_loop(const BlockProgram* program) { program_ = program; }

  // The next operand, read as `loop`. An absent one is `fallback` everywhere, an element of that
  // type. REQUIRES: at most kMostOperands; is_convertible both.
  void add_operand(DType dtype, DType loop, const void* fallback = nullptr);
  void set_result(DType dtype, DType loop);

  // After all operands: lays out the loops. Unimplemented where operands lie in another order than
  // the result.
  Status join_dims(const KernelRequest& request);

  void run(const KernelArguments& arguments) const;

 private:
  struct Operand {
    DType dtype = DType::kNone;  // kNone: absent
    DType loop = DType::kNone;
    std::array<std::byte, 8> fallback{};
    std::array<Int, kMaxRank + 2> strides{};  // in elements, per joined dim; inner: 0 or 1
  };
  // Offsets in elements of every operand at the start of a unit.
  using Offsets = std::array<Int, kMostOperands>;
  struct Rooms {
    BlockRoom in[kMostOperands];
    BlockRoom out;
  };

  Int inner() const { return dims_[rank_ - 1]; }
  Int rows() const { return dims_[rank_ - 2]; }
  void call(const std::array<const void*, kMostOperands>& x, void* y, Int n) const;
  void read_one(const Operand& operand, const void* data, Int offset, void* to) const;
  void run_piece(const KernelArguments& arguments, const Offsets& offsets, Int out_offset, Int n,
                 Rooms& rooms) const;
  const void* gather_rows(const Operand& operand, const void* data, Int offset, Int rows,
                          void* room) const;
  void run_rows(const KernelArguments& arguments, const Offsets& offsets, Int out_offset, Int rows,
                Rooms& rooms) const;
  Offsets offsets_at(Int outer, Int row, Int column) const;

  const Isa* isa_;
  int threads_;
  ElementwiseLoop single_loop_ = nullptr;
  TypedLoop typed_loop_ = nullptr;
  const BlockProgram* program_ = nullptr;
  std::array<double, 2> parameters_{};
  std::size_t operand_count_ = 0;
  std::array<Operand, kMostOperands> operands_;
  DType out_ = DType::kNone;
  DType out_loop_ = DType::kNone;
  std::size_t rank_ = 0;  // at least 2: ..., rows, inner
  std::array<Int, kMaxRank + 2> dims_{};
};

}  // namespace mezzo::kernels::cpu
