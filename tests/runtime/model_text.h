// Small models in ONNX's text syntax with seeded random weights, and data for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mezzo::test {

// Numbers that are the same everywhere, uniform in [-scale, scale].
std::vector<float> random_floats(std::int64_t count, std::uint64_t seed, float scale = 1.0F);

// Collects a graph piece by piece; text() gives the model. Initializers get seeded random values.
class ModelText {
 public:
  ModelText& input(const std::string& declaration);   // "float[N,3] x"
  ModelText& output(const std::string& declaration);  // "float loss"
  ModelText& weight(const std::string& name, const std::vector<std::int64_t>& dims,
                    float scale = 0.5F);
  ModelText& filled(const std::string& name, const std::vector<std::int64_t>& dims, float value);
  ModelText& values(const std::string& name, const std::vector<std::int64_t>& dims,
                    const std::vector<float>& values);
  ModelText& ints(const std::string& name, const std::vector<std::int64_t>& values);
  ModelText& nodes(const std::string& lines);
  std::string text() const;

 private:
  void initializer(const std::string& type, const std::string& name,
                   const std::vector<std::int64_t>& dims, const std::vector<std::string>& values);

  std::vector<std::string> inputs_, outputs_, initializers_, nodes_;
  std::uint64_t seed_ = 1;
};

// x [N, 5] -> 7 hidden -> 3 classes; inputs x, labels; outputs logits, loss.
std::string mlp_text(bool dropout = false);
// x [N, 3, 6, 6]: channels 5 and 11, BatchNorm, Sigmoid, SiLU spelled out and as one node, a
// residual, both pools, Flatten, Gemm to 10 classes.
std::string cnn_text();
// x [N, 4, 6]: LayerNorm, MatMul to 13, Gelu, MatMul back, residual, Gemm to 3 classes.
std::string transformer_mlp_text(bool dropout = false);

}  // namespace mezzo::test
