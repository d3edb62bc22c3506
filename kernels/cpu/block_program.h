// Programs of elementwise operations (kernels/element_program.h) as loops over blocks: what one
// operation leaves for the next stays in the first-level cache.
#pragma once

#include <array>
#include <vector>

#include "kernels/cpu/isa.h"
#include "kernels/element_program.h"

namespace mezzo::kernels::cpu {

class BlockProgram {
 public:
  // Unimplemented: an operation without a loop on float32, or more intermediate results at a time
  // than there is room for.
  static StatusOr<BlockProgram> make(const ElementProgram& program, const Isa& isa);

  // y[i] from x[k][i], i < n. y may be any of the x.
  void run(const float* const* x, float* y, std::int64_t n) const;

 private:
  static constexpr int kRooms = kElementRegisters + 1;  // for intermediate results

  struct Place {
    enum class Kind : std::uint8_t { kOperand, kRoom, kNumber } kind = Kind::kRoom;
    int index = 0;  // kOperand: -1 is y
  };
  struct Step {
    ElementwiseLoop loop = nullptr;  // null: `a` through `round` and back
    DType round = DType::kNone;
    std::array<float, 2> parameters{};
    std::array<Place, 4> from{};
    std::size_t from_count = 0;
    int room = -1;  // -1: y
  };
  using Block = std::array<float, kBlock>;

  explicit BlockProgram(const Isa& isa) : isa_(&isa) {}
  Status add(const ElementStatement& statement, const std::vector<Place>& sources, int room);
  Place number(double value);

  const Isa* isa_;
  std::vector<Step> steps_;
  std::vector<Block> numbers_;  // a block of each
};

}  // namespace mezzo::kernels::cpu
