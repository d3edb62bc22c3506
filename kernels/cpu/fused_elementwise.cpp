// FusedElementwise: a program of the vectorised loops, block after block.
#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/cpu/block_program.h"
#include "kernels/cpu/elementwise_plan.h"

namespace mezzo::kernels::cpu {
namespace {

// The loop of an operation; those that are made of other loops are left out.
struct LoopOf {
  ElementOp op;
  ElementwiseOp loop;
};
constexpr LoopOf kLoops[] = {
    {ElementOp::kRelu, ElementwiseOp::kRelu},
    {ElementOp::kSigmoid, ElementwiseOp::kSigmoid},
    {ElementOp::kTanh, ElementwiseOp::kTanh},
    {ElementOp::kErf, ElementwiseOp::kErf},
    {ElementOp::kExp, ElementwiseOp::kExp},
    {ElementOp::kLog, ElementwiseOp::kLog},
    {ElementOp::kSqrt, ElementwiseOp::kSqrt},
    {ElementOp::kReciprocal, ElementwiseOp::kReciprocal},
    {ElementOp::kNeg, ElementwiseOp::kNeg},
    {ElementOp::kAbs, ElementwiseOp::kAbs},
    {ElementOp::kSoftplus, ElementwiseOp::kSoftplus},
    {ElementOp::kHardSigmoid, ElementwiseOp::kHardSigmoid},
    {ElementOp::kHardSwish, ElementwiseOp::kHardSwish},
    {ElementOp::kLeakyRelu, ElementwiseOp::kLeakyRelu},
    {ElementOp::kElu, ElementwiseOp::kElu},
    {ElementOp::kSin, ElementwiseOp::kSin},
    {ElementOp::kCos, ElementwiseOp::kCos},
    {ElementOp::kGelu, ElementwiseOp::kGelu},
    {ElementOp::kGeluTanh, ElementwiseOp::kGeluTanh},
    {ElementOp::kSwish, ElementwiseOp::kSwish},
    {ElementOp::kFloor, ElementwiseOp::kFloor},
    {ElementOp::kCeil, ElementwiseOp::kCeil},
    {ElementOp::kRound, ElementwiseOp::kRound},
    {ElementOp::kSign, ElementwiseOp::kSign},
    {ElementOp::kSelu, ElementwiseOp::kSelu},
    {ElementOp::kMish, ElementwiseOp::kMish},
    {ElementOp::kSoftsign, ElementwiseOp::kSoftsign},
    {ElementOp::kThresholdedRelu, ElementwiseOp::kThresholdedRelu},
    {ElementOp::kShrink, ElementwiseOp::kShrink},
    {ElementOp::kIsNan, ElementwiseOp::kIsNan},
    {ElementOp::kIsInf, ElementwiseOp::kIsInf},
    {ElementOp::kAdd, ElementwiseOp::kAdd},
    {ElementOp::kSub, ElementwiseOp::kSub},
    {ElementOp::kMul, ElementwiseOp::kMul},
    {ElementOp::kDiv, ElementwiseOp::kDiv},
    {ElementOp::kPow, ElementwiseOp::kPow},
    {ElementOp::kMax, ElementwiseOp::kMax},
    {ElementOp::kMin, ElementwiseOp::kMin},
    {ElementOp::kPRelu, ElementwiseOp::kPRelu},
    {ElementOp::kEqual, ElementwiseOp::kEqual},
    {ElementOp::kLess, ElementwiseOp::kLess},
    {ElementOp::kGreater, ElementwiseOp::kGreater},
    {ElementOp::kLessOrEqual, ElementwiseOp::kLessOrEqual},
    {ElementOp::kGreaterOrEqual, ElementwiseOp::kGreaterOrEqual},
    {ElementOp::kAtLeast, ElementwiseOp::kClip},
    {ElementOp::kAtMost, ElementwiseOp::kClip},
    {ElementOp::kReluGrad, ElementwiseOp::kReluGrad},
    {ElementOp::kSigmoidGrad, ElementwiseOp::kSigmoidGrad},
    {ElementOp::kTanhGrad, ElementwiseOp::kTanhGrad},
    {ElementOp::kExpGrad, ElementwiseOp::kExpGrad},
    {ElementOp::kSqrtGrad, ElementwiseOp::kSqrtGrad},
    {ElementOp::kReciprocalGrad, ElementwiseOp::kReciprocalGrad},
    {ElementOp::kGeluGrad, ElementwiseOp::kGeluGrad},
    {ElementOp::kGeluTanhGrad, ElementwiseOp::kGeluTanhGrad},
    {ElementOp::kSwishGrad, ElementwiseOp::kSwishGrad},
    {ElementOp::kErfGrad, ElementwiseOp::kErfGrad},
    {ElementOp::kSoftplusGrad, ElementwiseOp::kSoftplusGrad},
    {ElementOp::kHardSwishGrad, ElementwiseOp::kHardSwishGrad},
    {ElementOp::kHardSigmoidGrad, ElementwiseOp::kHardSigmoidGrad},
    {ElementOp::kLeakyReluGrad, ElementwiseOp::kLeakyReluGrad},
    {ElementOp::kEluGrad, ElementwiseOp::kEluGrad},
    {ElementOp::kLogGrad, ElementwiseOp::kLogGrad},
    {ElementOp::kAbsGrad, ElementwiseOp::kAbsGrad},
    {ElementOp::kSinGrad, ElementwiseOp::kSinGrad},
    {ElementOp::kCosGrad, ElementwiseOp::kCosGrad},
    {ElementOp::kDropoutGrad, ElementwiseOp::kDropoutGrad},
    {ElementOp::kWhere, ElementwiseOp::kWhere},
    {ElementOp::kPowGrad, ElementwiseOp::kPowGrad},
    {ElementOp::kAtLeastGrad, ElementwiseOp::kClipGrad},
    {ElementOp::kAtMostGrad, ElementwiseOp::kClipGrad},
    {ElementOp::kIsTrue, ElementwiseOp::kEqual},
};

ElementwiseLoop find_loop(ElementOp op, const Isa& isa) {
  const auto* found = std::find_if(std::begin(kLoops), std::end(kLoops),
                                   [=](const LoopOf& each) { return each.op == op; });
  return found == std::end(kLoops) ? nullptr : isa.elementwise(found->loop);
}

}  // namespace

BlockProgram::Place BlockProgram::number(double value) {
  const auto single = static_cast<float>(value);
  numbers_.emplace_back();
  numbers_.back().fill(single);
  return {Place::Kind::kNumber, static_cast<int>(numbers_.size()) - 1};
}

Status BlockProgram::add(const ElementStatement& statement, const std::vector<Place>& sources,
                         int room) {
  Step step;
  step.room = room;
  step.parameters = {static_cast<float>(statement.alpha), static_cast<float>(statement.beta)};
  std::vector<Place> from = sources;
  if (statement.op == ElementOp::kToHalf || statement.op == ElementOp::kToBrain) {
    step.round = statement.op == ElementOp::kToHalf ? DType::kFloat16 : DType::kBFloat16;
  } else {
    step.loop = find_loop(statement.op, *isa_);
    if (step.loop == nullptr) return unimplemented("an operation without a loop on float32");
  }
  // Clip and ClipGrad have two bounds, each of which leaves the other alone.
  const double infinity = HUGE_VAL;
  if (statement.op == ElementOp::kAtLeast || statement.op == ElementOp::kAtLeastGrad) {
    from.push_back(number(infinity));
  } else if (statement.op == ElementOp::kAtMost || statement.op == ElementOp::kAtMostGrad) {
    from.insert(from.end() - 1, number(-infinity));
  } else if (statement.op == ElementOp::kIsTrue) {  // (a == 0) == 0
    const Place zero = number(0.0);
    from.push_back(zero);
    std::copy(from.begin(), from.end(), step.from.begin());
    step.from_count = from.size();
    steps_.push_back(step);
    from = {Place{room < 0 ? Place::Kind::kOperand : Place::Kind::kRoom, room}, zero};
  }
  std::copy(from.begin(), from.end(), step.from.begin());
  step.from_count = from.size();
  steps_.push_back(step);
  return ok_status();
}

StatusOr<BlockProgram> BlockProgram::make(const ElementProgram& program, const Isa& isa) {
  BlockProgram result(isa);
  const std::size_t count = program.statements.size();
  std::vector<int> last_use(count, -1), room_of(count, -1);
  for (std::size_t i = 0; i < count; ++i) {
    for (const ElementSource& source : program.statements[i].sources) {
      if (source.kind == ElementSource::Kind::kResult)
        last_use[static_cast<std::size_t>(source.index)] = static_cast<int>(i);
    }
  }
  std::array<int, kRooms> holds{};  // the statement whose result is in a room
  holds.fill(-1);
  for (std::size_t i = 0; i < count; ++i) {
    const ElementStatement& statement = program.statements[i];
    std::vector<Place> sources;
    for (const ElementSource& source : statement.sources) {
      if (source.kind == ElementSource::Kind::kOperand) {
        sources.push_back({Place::Kind::kOperand, source.index});
      } else if (source.kind == ElementSource::Kind::kNumber) {
        sources.push_back(result.number(source.number));
      } else {
        sources.push_back({Place::Kind::kRoom, room_of[static_cast<std::size_t>(source.index)]});
      }
    }
    int room = -1;
    if (i + 1 < count) {
      auto* free = std::find_if(holds.begin(), holds.end(), [&](int held) {
        return held < 0 || last_use[static_cast<std::size_t>(held)] <= static_cast<int>(i);
      });
      if (free == holds.end()) return unimplemented("too many intermediate results at a time");
      *free = static_cast<int>(i);
      room = static_cast<int>(free - holds.begin());
      room_of[i] = room;
    }
    MEZZO_RETURN_IF_ERROR(result.add(statement, sources, room));
  }
  return result;
}

void BlockProgram::run(const float* const* x, float* y, std::int64_t n) const {
  alignas(64) float rooms[kRooms][kBlock];
  alignas(64) std::uint16_t rounded[kBlock];
  for (std::int64_t done = 0; done < n; done += kBlock) {
    const std::int64_t size = std::min(kBlock, n - done);
    for (const Step& step : steps_) {
      const float* from[4] = {};
      for (std::size_t k = 0; k < step.from_count; ++k) {
        const Place& place = step.from[k];
        const auto index = static_cast<std::size_t>(place.index);
        if (place.kind == Place::Kind::kRoom) {
          from[k] = rooms[index];
        } else if (place.kind == Place::Kind::kNumber) {
          from[k] = numbers_[index].data();
        } else {
          from[k] = place.index < 0 ? y + done : x[index] + done;
        }
      }
      float* to = step.room < 0 ? y + done : rooms[step.room];
      if (step.loop != nullptr) {
        step.loop(from, to, size, step.parameters.data());
      } else {
        isa_->pack(step.round, from[0], rounded, size);
        isa_->unpack(step.round, rounded, to, size);
      }
    }
  }
}

Prepared prepare_fused_elementwise(const KernelRequest& request, const Isa& isa) {
  MEZZO_ASSIGN_OR_RETURN(
      const ElementProgram program,
      parse_element_program(request.attributes.get_string("program", ""), request.inputs.size()));
  MEZZO_ASSIGN_OR_RETURN(BlockProgram blocks, BlockProgram::make(program, isa));
  const auto shared = std::make_shared<const BlockProgram>(std::move(blocks));
  ElementwisePlan plan(isa, request.threads);
  plan.set_loop(shared.get());
  for (const auto* side : {&request.inputs, &request.outputs}) {
    for (const TensorDesc& desc : *side) {
      if (desc.dtype == DType::kFloat64 || !is_convertible(desc.dtype))
        return unimplemented("dtype " + std::string(dtype_name(desc.dtype)));
    }
  }
  if (request.inputs.size() > ElementwisePlan::kMostOperands)
    return unimplemented("more than 8 operands");
  for (const TensorDesc& x : request.inputs) plan.add_operand(x.dtype, DType::kFloat32);
  plan.set_result(request.outputs[0].dtype, DType::kFloat32);
  MEZZO_RETURN_IF_ERROR(plan.join_dims(request));
  return make_kernel(isa, 0,
                     [plan, shared](const KernelArguments& arguments) { plan.run(arguments); });
}

}  // namespace mezzo::kernels::cpu
