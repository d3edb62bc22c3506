// Finds softmax(scale q k^T + bias) v where a model spells it out.
#pragma once

#include <optional>
#include <unordered_set>
#include <vector>

#include "compiler/ir/graph.h"

namespace mezzo::passes {

// What hides keys from queries or shifts their scores.
struct ScoreTerm {
  Value* bias = nullptr;          // added to the scores; null for a mask
  Value* condition = nullptr;     // of a mask, bool: scores become `hidden` where it is ...
  bool hides_where_true = false;  // ... true, or false
  double hidden = 0.0;
};

struct AttentionMatch {
  Node* softmax = nullptr;
  Node* last = nullptr;  // the product with v: its result is what the pattern gives
  Value* q = nullptr;    // [B,H,T,D], or [N,T,D] for one head
  Value* k = nullptr;    // [B,G,S,D], or where `k_transposed` [B,G,D,S]; without H, G as q
  Value* v = nullptr;    // [B,G,S,E]
  bool k_transposed = false;
  double scale = 1.0;
  bool causal = false;           // query t sees the keys up to t + S - T
  std::vector<ScoreTerm> terms;  // beside that
};

// All values of FP32 and static shape. No inner value is read elsewhere, so there is no dropout on
// the probabilities. A bias, mask or scale that gets a gradient (is among `active`) makes no match,
// nor does a mask whose value is so small a penalty that hidden keys might count.
std::optional<AttentionMatch> match_attention(Node& softmax,
                                              const std::unordered_set<const Value*>& active);

}  // namespace mezzo::passes
