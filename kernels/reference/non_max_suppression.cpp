// NonMaxSuppression. Letters: B batch, N boxes, C classes: boxes[B,N,4], scores[B,C,N],
// max_output_boxes_per_class?, iou_threshold?, score_threshold? -> y[count,3] of (batch, class,
// box), per class by falling score, the lower box first among equal scores. A box is dropped if it
// overlaps a kept one of its class by more than the threshold.
#include <algorithm>

#include "compiler/support/text.h"
#include "kernels/reference/element_types.h"
#include "kernels/reference/families.h"
#include "kernels/reference/indices.h"
#include "kernels/reference/sized_kernel.h"

namespace mezzo::kernels::reference {
namespace {

using Int = std::int64_t;

struct Box {
  double x_low, x_high, y_low, y_high, area;
};

Box make_box(double x_low, double x_high, double y_low, double y_high) {
  return {x_low, x_high, y_low, y_high, (x_high - x_low) * (y_high - y_low)};
}

// Corners y1 x1 y2 x2 in any order, or the centre x y, width and height.
template <typename T>
Box box_at(const T* p, bool center) {
  const double a = decode(p[0]), b = decode(p[1]), c = decode(p[2]), d = decode(p[3]);
  if (center) return make_box(a - c / 2, a + c / 2, b - d / 2, b + d / 2);
  return make_box(std::min(b, d), std::max(b, d), std::min(a, c), std::max(a, c));
}

bool overlap(const Box& a, const Box& b, double threshold) {
  const double width = std::min(a.x_high, b.x_high) - std::max(a.x_low, b.x_low);
  const double height = std::min(a.y_high, b.y_high) - std::max(a.y_low, b.y_low);
  if (!(width > 0 && height > 0)) return false;
  const double shared = width * height;
  const double all = a.area + b.area - shared;
  return a.area > 0 && b.area > 0 && all > 0 && shared / all > threshold;
}

struct Suppression {
  Int batches = 0, boxes = 0, classes = 0, bound = 0;
  bool center = false, has_score_threshold = false;
  DType dtype = DType::kNone, score_dtype = DType::kNone;
  Elements most, iou, score;  // the three scalars

  explicit Suppression(const Operands& operands)
      : most(operands.in(2)), iou(operands.in(3)), score(operands.in(4)) {}
};

struct Limits {
  Int most = 0;
  double iou = 0.0, score = 0.0;
};

// Candidates of one class stand in `order`, the kept ones in its front part again, and their boxes
// in `kept_boxes`: each candidate is compared with all of them.
template <typename T, typename S>
Int keep_boxes(const Suppression& plan, const Limits& limits, const T* boxes, const S* scores,
               Int* order, Box* kept_boxes) {
  Int candidates = 0;
  for (Int n = 0; n < plan.boxes; ++n) {
    const double score = decode(scores[n]);
    if (plan.has_score_threshold ? score > limits.score : !std::isnan(score)) {
      order[candidates++] = n;
    }
  }
  std::sort(order, order + candidates, [&](Int a, Int b) {
    const double first = decode(scores[a]), second = decode(scores[b]);
    return first != second ? first > second : a < b;
  });
  Int kept = 0;
  for (Int i = 0; i < candidates && kept < limits.most; ++i) {
    const Box box = box_at(boxes + 4 * order[i], plan.center);
    bool free = true;
    for (Int j = 0; free && j < kept; ++j) {
      free = !overlap(box, kept_boxes[j], limits.iou);
    }
    if (!free) continue;
    order[kept] = order[i];
    kept_boxes[kept++] = box;
  }
  return kept;
}

template <typename T, typename S>
StatusOr<Int> suppress(const Suppression& plan, const Limits& limits,
                       const KernelArguments& arguments) {
  const T* boxes = static_cast<const T*>(arguments.inputs[0]);
  const S* scores = static_cast<const S*>(arguments.inputs[1]);
  Int* y = static_cast<Int*>(arguments.outputs[0]);
  Box* kept_boxes = static_cast<Box*>(arguments.workspace);
  Int* order = reinterpret_cast<Int*>(kept_boxes + plan.boxes);
  Int count = 0;
  for (Int b = 0; b < plan.batches; ++b) {
    for (Int c = 0; c < plan.classes; ++c) {
      const Int kept = keep_boxes(plan, limits, boxes + b * plan.boxes * 4,
                                  scores + (b * plan.classes + c) * plan.boxes, order, kept_boxes);
      if (kept > plan.bound - count) {
        return beyond_bound("NonMaxSuppression", count + kept, plan.bound);
      }
      for (Int k = 0; k < kept; ++k, ++count) {
        y[3 * count] = b;
        y[3 * count + 1] = c;
        y[3 * count + 2] = order[k];
      }
    }
  }
  return count;
}

}  // namespace

PreparedKernel prepare_non_max_suppression(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(
      const Operands operands,
      Operands::check(request,
                      "boxes:f scores:f max_output_boxes_per_class?:i iou_threshold?:f "
                      "score_threshold?:f -> y:l"));
  MEZZO_RETURN_IF_ERROR(expect_row_major(operands));
  const Dims& boxes = operands.in(0).dims;
  const Dims& scores = operands.in(1).dims;
  if (boxes.size() != 3 || boxes[2] != 4) {
    return operands.in_error(0, "expected dims [B,N,4], got " + format_dims(boxes));
  }
  if (scores.size() != 3 || scores[0] != boxes[0] || scores[2] != boxes[1]) {
    return operands.in_error(1, "expected dims [" + std::to_string(boxes[0]) + ",C," +
                                    std::to_string(boxes[1]) + "], got " + format_dims(scores));
  }
  for (const std::size_t i : {2, 3, 4}) MEZZO_RETURN_IF_ERROR(operands.expect_in_scalar(i));
  const Dims& y = operands.out(0).dims;
  if (y.size() != 2 || y[1] != 3) {
    return operands.out_error(0, "expected dims [count,3], got " + format_dims(y));
  }
  Suppression plan(operands);
  plan.batches = boxes[0];
  plan.boxes = boxes[1];
  plan.classes = scores[1];
  plan.bound = y[0];
  plan.dtype = operands.in(0).dtype;
  plan.score_dtype = operands.in(1).dtype;
  plan.has_score_threshold = operands.in(4).present();
  MEZZO_ASSIGN_OR_RETURN(plan.center, operands.flag("center_point_box", false));
  return make_sized_kernel(
      [plan](const KernelArguments& arguments) {
        Limits limits;
        if (const void* most = in_buffer(arguments, 2)) {
          limits.most = std::max<Int>(0, static_cast<Int>(plan.most.read<Integer>(most, 0)));
        }
        if (const void* iou = in_buffer(arguments, 3)) limits.iou = plan.iou.read<double>(iou, 0);
        if (const void* score = in_buffer(arguments, 4)) {
          limits.score = plan.score.read<double>(score, 0);
        }
        return with_float_type(plan.dtype, [&](auto box) {
          return with_float_type(plan.score_dtype, [&](auto score) {
            return suppress<typename decltype(box)::Type, typename decltype(score)::Type>(
                plan, limits, arguments);
          });
        });
      },
      {{0, 0}}, static_cast<std::size_t>(plan.boxes) * (sizeof(Box) + sizeof(Int)));
}

}  // namespace mezzo::kernels::reference
