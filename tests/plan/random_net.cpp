#include "random_net.h"

#include <random>
#include <vector>

#include "model_text.h"

namespace mezzo::test {
namespace {

constexpr const char* kConv = "Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>";

class RandomNet {
 public:
  RandomNet(std::uint32_t seed, bool training) : random_(seed) {
    model_.input("float[2,4,6,5] x").ints("flat", {2, 4, 30}).ints("image", {2, 4, 6, 5});
    model_.ints("starts", {1}).ints("ends", {4}).ints("axis", {1}).ints("half", {2, 2});
    model_.ints("sides", {2, 3});
    for (int i = 0; i < 14; ++i) grow(i);
    if (training) {
      model_.output("float loss");
      model_.weight("last", {4, 4, 3, 3}, 0.2F);
      model_.nodes("conv_ = " + std::string(kConv) + "(" + images_.back() +
                   ", last)\nsum_ = Add(conv_, " + images_[images_.size() - 2] +
                   ")\ntanh_ = Tanh(sum_)\nloss = ReduceMean<keepdims = 0>(tanh_)");
      return;
    }
    for (std::size_t i = images_.size() - 3; i < images_.size(); ++i)
      model_.output("float[2,4,6,5] " + images_[i]);
  }
  std::string text() const { return model_.text(); }

 private:
  int pick(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  std::string any() {
    return images_[static_cast<std::size_t>(pick(static_cast<int>(images_.size())))];
  }

  void grow(int i) {
    const std::string y = "y" + std::to_string(i), t = "t" + std::to_string(i) + "_";
    const std::string w = "w" + std::to_string(i), a = any(), b = any();
    switch (pick(14)) {
      case 0:
      case 1:
      case 2:
      case 3:
        model_.weight(w, {4, 4, 3, 3}, 0.2F);
        model_.nodes(y + " = " + kConv + "(" + a + ", " + w + ")");
        break;
      case 4: model_.nodes(y + " = Tanh(" + a + ")"); break;
      case 5: model_.nodes(y + " = Add(" + a + ", " + b + ")"); break;
      case 6:
        model_.weight(w, {pick(2) == 0 ? 1 : 4, 1, pick(2) == 0 ? 1 : 5});
        model_.nodes(y + " = Mul(" + a + ", " + w + ")");
        break;
      case 7:
        model_.nodes(t + "a, " + t + "b = Split<axis = 1>(" + a + ", half)\n" + y +
                     " = Concat<axis = 1>(" + t + "b, " + t + "a)");
        break;
      case 8:
        model_.nodes(y + " = MaxPool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(" + a + ")");
        break;
      case 9:
        model_.nodes(t + "n = Transpose<perm = [0, 2, 3, 1]>(" + a + ")\n" + t + "s = Sigmoid(" +
                     t + "n)\n" + y + " = Transpose<perm = [0, 3, 1, 2]>(" + t + "s)");
        break;
      case 10:
        model_.nodes(t + "m = ReduceMean<keepdims = 1, axes = [2, 3]>(" + a + ")\n" + y +
                     " = Mul(" + b + ", " + t + "m)");
        break;
      case 11:
        model_.nodes(t + "p = GlobalAveragePool(" + a + ")\n" + y + " = Sub(" + b + ", " + t +
                     "p)");
        break;
      case 12:
        model_.nodes(t + "f = Reshape(" + a + ", flat)\n" + t + "g = Softmax<axis = -1>(" + t +
                     "f)\n" + y + " = Reshape(" + t + "g, image)");
        break;
      default:
        model_.weight(w, {4}).filled(w + "v", {4}, 1.5F);
        model_.nodes(y + " = BatchNormalization(" + a + ", " + w + ", " + w + ", " + w + ", " + w +
                     "v)");
        break;
    }
    images_.push_back(y);
  }

  std::mt19937 random_;
  ModelText model_;
  std::vector<std::string> images_ = {"x"};
};

}  // namespace

std::string random_image_net(std::uint32_t seed, bool training) {
  return RandomNet(seed, training).text();
}

}  // namespace mezzo::test
