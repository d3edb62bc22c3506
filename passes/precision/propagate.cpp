#include "passes/precision/propagate.h"

#include <cstdint>

namespace mezzo::passes {
namespace {

enum class Paint : std::uint8_t { kNone, kFp32, kLow };

class Painter {
 public:
  Painter(const CutProblem& problem, const std::vector<PrecisionCategory>& categories)
      : categories_(categories),
        paint_(problem.vertices.size(), Paint::kNone),
        next_(paint_.size()),
        all_(paint_.size()) {
    for (std::size_t i = 0; i < paint_.size(); ++i) {
      if (problem.vertices[i].fixed == CutProblem::Fixed::kFp32) paint_[i] = Paint::kFp32;
      if (problem.vertices[i].fixed == CutProblem::Fixed::kLow) paint_[i] = Paint::kLow;
    }
    for (const CutProblem::Tensor& tensor : problem.tensors) {
      for (const int consumer : tensor.consumers) {
        if (tensor.producer < 0 || consumer < 0) continue;
        next_[static_cast<std::size_t>(tensor.producer)].push_back(consumer);
        all_[static_cast<std::size_t>(tensor.producer)].push_back(consumer);
        all_[static_cast<std::size_t>(consumer)].push_back(tensor.producer);
      }
    }
  }

  std::vector<bool> run() {
    // What a deny vertex computes may carry a wide range: infer vertices behind it stay FP32.
    spread(Paint::kFp32, next_);
    spread(Paint::kLow, all_);
    std::vector<bool> low;
    for (const Paint paint : paint_) low.push_back(paint == Paint::kLow);
    return low;
  }

 private:
  bool may_pass(int vertex) const {
    const PrecisionCategory category = categories_[static_cast<std::size_t>(vertex)];
    return category == PrecisionCategory::kInfer || category == PrecisionCategory::kClear;
  }

  // Paints unpainted vertices reached from painted ones of that colour; clear ones let it through
  // and are painted with it.
  void spread(Paint colour, const std::vector<std::vector<int>>& edges) {
    std::vector<int> stack;
    for (std::size_t i = 0; i < paint_.size(); ++i) {
      if (paint_[i] == colour) stack.push_back(static_cast<int>(i));
    }
    while (!stack.empty()) {
      const int at = stack.back();
      stack.pop_back();
      for (const int other : edges[static_cast<std::size_t>(at)]) {
        Paint& paint = paint_[static_cast<std::size_t>(other)];
        if (paint != Paint::kNone || !may_pass(other)) continue;
        paint = colour;
        stack.push_back(other);
      }
    }
  }

  const std::vector<PrecisionCategory>& categories_;
  std::vector<Paint> paint_;
  std::vector<std::vector<int>> next_, all_;
};

}  // namespace

std::vector<bool> propagate(const CutProblem& problem,
                            const std::vector<PrecisionCategory>& categories) {
  return Painter(problem, categories).run();
}

}  // namespace mezzo::passes
