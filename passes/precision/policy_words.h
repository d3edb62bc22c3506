// The words of policies: how a policy file, a report and an option spell a setting.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "passes/precision/policy.h"

namespace mezzo::passes {

// What a text means.
template <typename T>
struct Word {
  std::string_view text;
  T value;
};

inline constexpr Word<IoTypes> kIoWords[] = {{"keep", IoTypes::kKeep}, {"low", IoTypes::kLow}};
inline constexpr Word<AssignMethod> kAssignWords[] = {{"cut", AssignMethod::kCut},
                                                      {"propagate", AssignMethod::kPropagate}};
// Which of them a pin takes depends on its kind, see policy_file.cpp.
inline constexpr Word<Pin> kPinWords[] = {{"fp32", Pin::kFp32},
                                          {"fp32-statistics", Pin::kFp32Statistics},
                                          {"low", Pin::kLow},
                                          {"free", Pin::kFree}};
inline constexpr Word<CategoryRun> kRunWords[] = {
    {"low", CategoryRun::kLow}, {"free", CategoryRun::kFree}, {"fp32", CategoryRun::kFp32}};
inline constexpr Word<RuleEffect> kEffectWords[] = {
    {"fp32", RuleEffect::kFp32},
    {"low", RuleEffect::kLow},
    {"fp32-statistics", RuleEffect::kFp32Statistics},
    {"allow", RuleEffect::kAllow},
    {"infer", RuleEffect::kInfer},
    {"clear", RuleEffect::kClear},
    {"deny", RuleEffect::kDeny}};
inline constexpr Word<RangeChecks> kRangeCheckWords[] = {{"graph", RangeChecks::kGraph},
                                                         {"constants", RangeChecks::kConstants},
                                                         {"off", RangeChecks::kOff}};

template <typename T, std::size_t kCount>
constexpr std::string_view word_of(T value, const Word<T> (&words)[kCount]) {
  for (const Word<T>& word : words) {
    if (word.value == value) return word.text;
  }
  return "?";
}

// What the word stands for, which must be one of them.
template <typename T, std::size_t kCount>
T value_of(std::string_view text, const Word<T> (&words)[kCount]) {
  for (const Word<T>& word : words) {
    if (word.text == text) return word.value;
  }
  return words[0].value;
}

template <typename T, std::size_t kCount>
std::vector<std::string> texts_of(const Word<T> (&words)[kCount]) {
  std::vector<std::string> texts;
  for (const Word<T>& word : words) texts.emplace_back(word.text);
  return texts;
}

// "fp16" or "bf16".
constexpr std::string_view low_word(DType low) { return low == DType::kBFloat16 ? "bf16" : "fp16"; }
// What names of low copies end in: "_fp16" or "_bf16".
constexpr const char* low_suffix(DType low) { return low == DType::kBFloat16 ? "_bf16" : "_fp16"; }
// "fp32" where the policy keeps everything, else its low type.
constexpr std::string_view precision_word(const PrecisionPolicy& policy) {
  return policy.force_fp32 ? "fp32" : low_word(policy.low);
}

}  // namespace mezzo::passes
