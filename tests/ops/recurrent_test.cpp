// Recurrent layers against their definition.
#include <cmath>
#include <numeric>

#include "tests/ops/decomposed.h"
#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// One direction of a recurrent layer as its definition says, one number at a time.
struct Cell {
  std::string op;
  std::int64_t i, h;
  const double *w, *r, *bias;  // of this direction; bias: input part, then recurrent part
  bool linear_before_reset = false;

  double input_part(std::int64_t row, const double* x) const {
    return std::inner_product(x, x + i, w + row * i, bias[row]);
  }
  double recurrent_part(std::int64_t row, const Doubles& state) const {
    const std::int64_t gates = op == "LSTM" ? 4 : op == "GRU" ? 3 : 1;
    return std::inner_product(state.begin(), state.end(), r + row * h, bias[gates * h + row]);
  }

  void step(const double* x, Doubles& state, Doubles& c) const {
    const Doubles old = state;
    const auto sum = [&](std::int64_t gate, std::int64_t unit) {
      return input_part(gate * h + unit, x) + recurrent_part(gate * h + unit, old);
    };
    Doubles gated = old;
    for (std::int64_t u = 0; op == "GRU" && u < h; ++u) gated[u] *= sigmoid(sum(1, u));
    for (std::int64_t u = 0; u < h; ++u) {
      if (op == "LSTM") {
        c[u] = sigmoid(sum(2, u)) * c[u] + sigmoid(sum(0, u)) * std::tanh(sum(3, u));
        state[u] = sigmoid(sum(1, u)) * std::tanh(c[u]);
      } else if (op == "GRU") {
        const std::int64_t row = 2 * h + u;
        const double recurrent = linear_before_reset ? sigmoid(sum(1, u)) * recurrent_part(row, old)
                                                     : recurrent_part(row, gated);
        const double z = sigmoid(sum(0, u));
        state[u] = (1 - z) * std::tanh(input_part(row, x) + recurrent) + z * old[u];
      } else {
        state[u] = std::tanh(sum(0, u));
      }
    }
  }
};

TEST(Recurrent, LayersEqualTheirDefinition) {
  for (const std::string op : {"RNN", "LSTM", "GRU"}) {
    for (const int form : {0, 1, 2, 3}) {
      SCOPED_TRACE(op + std::to_string(form));
      const bool bidirectional = form % 2 == 1;
      auto layer = decomposed(recurrent(op, bidirectional, form / 2));
      ASSERT_THAT(layer, IsOk());
      const Doubles x = layer->input(0), w = layer->input(1), r = layer->input(2),
                    bias = layer->input(3);
      const std::int64_t directions = bidirectional ? 2 : 1;
      Doubles all(kT * directions * kB * kH), last;
      for (std::int64_t d = 0; d < directions; ++d) {
        const Cell cell{op,
                        kI,
                        kH,
                        &w[d * w.size() / directions],
                        &r[d * r.size() / directions],
                        &bias[d * bias.size() / directions],
                        form / 2 == 1};
        for (std::int64_t b = 0; b < kB; ++b) {
          Doubles state(kH, 0.0), c(kH, 0.0);
          for (std::int64_t step = 0; step < kT; ++step) {
            const std::int64_t t = d == 1 ? kT - 1 - step : step;
            cell.step(&x[(t * kB + b) * kI], state, c);
            std::copy(state.begin(), state.end(), &all[((t * directions + d) * kB + b) * kH]);
          }
          last.insert(last.end(), state.begin(), state.end());
        }
      }
      expect_near(layer->run(0), all);
      expect_near(layer->run(1), last);
    }
  }
}

}  // namespace
}  // namespace mezzo::test
