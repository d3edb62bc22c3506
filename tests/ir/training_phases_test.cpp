// Which nodes run before the backward pass.
#include "compiler/ir/training_phases.h"

#include <gtest/gtest.h>

#include "graph_maker.h"

namespace mezzo {
namespace {

using ::mezzo::testing::add_op;
using ::mezzo::testing::floats;

// x -> a -> loss, and gradient/w made of `saved`, what a cast to `to` makes of a.
class TrainingPhases : public ::testing::Test {
 protected:
  TrainingPhases() : graph_("main") {
    x_ = graph_.add_input("x", floats({2}));
    a_ = add_op(graph_, "Exp", {x_}, "a");
    graph_.add_output(add_op(graph_, "Relu", {a_}, "loss"));
    roles_.loss = "loss";
    roles_.gradients = {{"w", "gradient/w"}};
  }

  Value* cast(Value* from, DType to, const std::string& name) {
    Value* result = add_op(graph_, "Cast", {from}, name);
    result->type = from->type;
    result->type.tensor.dtype = to;
    return result;
  }
  Value* gradient_of(std::vector<Value*> operands) {
    Value* gradient = add_op(graph_, "Sum", std::move(operands), "gradient/w");
    graph_.add_output(gradient);
    return gradient;
  }
  bool is_forward(const Value* value) const {
    return forward_nodes(graph_, roles_).count(value->producer()) > 0;
  }

  Graph graph_;
  TrainingRoles roles_;
  Value *x_, *a_;
};

TEST_F(TrainingPhases, EndWithWhatTheLossNeeds) {
  Value* gradient = gradient_of({a_});
  EXPECT_TRUE(is_forward(a_));
  EXPECT_TRUE(is_forward(graph_.find("loss")));
  EXPECT_FALSE(is_forward(gradient));
  roles_.gradients.clear();  // an output like any other
  EXPECT_TRUE(is_forward(gradient));
}

TEST_F(TrainingPhases, ASmallerCopyIsMadeBeforeTheBackwardPass) {
  a_->type = floats({2});
  Value* saved = cast(a_, DType::kFloat16, "saved");
  Value* other = cast(a_, DType::kBFloat16, "other");
  EXPECT_FALSE(is_forward(gradient_of({saved, other})));
  EXPECT_TRUE(is_forward(saved));
  EXPECT_TRUE(is_forward(other));
}

TEST_F(TrainingPhases, ACopyBesideWhatIsReadAnywayIsMadeWhenItIsRead) {
  a_->type = floats({2});
  Value* saved = cast(a_, DType::kFloat16, "saved");
  gradient_of({saved, a_});
  EXPECT_FALSE(is_forward(saved));
}

TEST_F(TrainingPhases, ALargerCopyIsMadeWhenItIsRead) {
  a_->type = floats({2});
  Value* saved = cast(a_, DType::kFloat64, "saved");
  gradient_of({saved});
  EXPECT_FALSE(is_forward(saved));
}

TEST_F(TrainingPhases, InputsAndWhatGradientsAreMadeOfStayWhole) {
  Value* input = cast(x_, DType::kFloat16, "input");
  Value* late = add_op(graph_, "Exp", {a_}, "late");
  late->type = floats({2});
  Value* later = cast(late, DType::kFloat16, "later");
  gradient_of({input, later});
  EXPECT_FALSE(is_forward(input));
  EXPECT_FALSE(is_forward(later));
}

}  // namespace
}  // namespace mezzo
