#include "tools/mezzo/loss_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "compiler/support/text.h"
#include "runtime/io/npz.h"
#include "runtime/train/element_cast.h"
#include "tools/mezzo/option_checks.h"

namespace mezzo::cli {
namespace {

using passes::LossKind;

constexpr std::array kKinds = {LossKind::kCrossEntropy, LossKind::kBce, LossKind::kMse,
                               LossKind::kL1, LossKind::kCosine};
// What arrays of targets are called where nobody says.
constexpr std::array<const char*, 3> kTargetNames = {"target", "targets", "labels"};
constexpr std::uint64_t kMostClasses = std::uint64_t{1} << 24;

LossKind kind_of(const std::string& word) {
  const auto found = std::find_if(kKinds.begin(), kKinds.end(),
                                  [&](LossKind kind) { return passes::loss_word(kind) == word; });
  return found == kKinds.end() ? LossKind::kNone : *found;
}

Status check_weights(const std::vector<double>& weights, const std::string& option) {
  for (const double weight : weights) {
    if (std::isfinite(weight) && weight >= 0) continue;
    return invalid_argument(option + ": expected finite numbers of at least 0, got " +
                            format_number(weight));
  }
  if (weights.empty()) return invalid_argument(option + ": expected numbers, got none");
  return ok_status();
}

// "1,2,0.5"; nothing where the text is no list.
std::vector<double> parse_list(const std::string& text) {
  std::vector<double> numbers;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    double number = 0;
    const auto [rest, error] = std::from_chars(text.data() + at, text.data() + end, number);
    if (error != std::errc() || rest != text.data() + end) return {};
    numbers.push_back(number);
    at = end + 1;
  }
  return numbers;
}

// A list, or the only array of an npz (or npy) file.
StatusOr<std::vector<double>> read_weights(const std::string& text, const std::string& option) {
  if (text.empty()) return std::vector<double>();
  std::vector<double> weights = parse_list(text);
  if (weights.empty()) {
    if (!text.ends_with(".npz") && !text.ends_with(".npy")) {
      return invalid_argument(option +
                              ": expected numbers such as 1,2,0.5, or an .npz file, got '" +
                              printable(text) + "'");
    }
    MEZZO_ASSIGN_OR_RETURN(const runtime::NpzFile file, runtime::NpzFile::open(text));
    if (file.arrays().size() != 1 || file.arrays()[0].shape.size() != 1 ||
        file.arrays()[0].elems > kMostClasses) {
      return invalid_argument(option + " " + printable(text) +
                              ": expected one array of one dimension");
    }
    const runtime::ArrayInfo& array = file.arrays()[0];
    const runtime::CastFunction cast = runtime::element_cast(array.dtype, DType::kFloat32);
    if (cast == nullptr) {
      return invalid_argument(option + " " + printable(text) + ": expected floating-point numbers");
    }
    MEZZO_ASSIGN_OR_RETURN(const runtime::ArrayData data, file.read(array.name));
    std::vector<float> floats(static_cast<std::size_t>(array.elems));
    cast(data.bytes.data(), reinterpret_cast<std::byte*>(floats.data()),
         static_cast<std::int64_t>(floats.size()));
    weights.assign(floats.begin(), floats.end());
  }
  MEZZO_RETURN_IF_ERROR(check_weights(weights, option));
  return weights;
}

bool is_input(const Graph* graph, const std::string& name) {
  const Value* value = graph == nullptr ? nullptr : graph->find(name);
  return value != nullptr && value->is_graph_input();
}

// The array that holds the targets.
StatusOr<std::string> find_target(const runtime::NpzFile& file, const Graph* graph) {
  for (const char* name : kTargetNames) {
    if (file.find(name) != nullptr && !is_input(graph, name)) return std::string(name);
  }
  for (const char* name : kTargetNames) {
    if (file.find(name) != nullptr) return std::string(name);
  }
  return invalid_argument(printable(file.path()) +
                          ": no array named target, targets or labels for the loss; there are " +
                          join(file.names(), ", ") + ". Hint: name it with --loss-target NAME");
}

StatusOr<passes::ArrayShape> header_of(const runtime::NpzFile& file, const std::string& name) {
  MEZZO_ASSIGN_OR_RETURN(const runtime::ArrayInfo* array, file.get(name));
  if (array->shape.empty()) {
    return invalid_argument(printable(file.path()) + ": array '" + printable(name) +
                            "': expected samples along the first axis, got a scalar");
  }
  return passes::ArrayShape{array->dtype, array->shape};
}

}  // namespace

void LossArguments::add_to(CLI::App& app) {
  app.option_defaults()->group("Loss, for a model without one");
  std::vector<std::string> words;
  for (const LossKind kind : kKinds) words.emplace_back(passes::loss_word(kind));
  app.add_option("--loss", kind_, "Loss to add to the model, with PyTorch's meaning")
      ->type_name("KIND")
      ->check(one_of(words));
  repeatable(app.add_option("--loss-input", outputs_,
                            "Output that is scored (default: the only floating-point one); given "
                            "twice with cosine: the pair that is compared"))
      ->type_name("NAME");
  app.add_option("--loss-target", target_,
                 "Array of the targets (default: target, targets or labels)")
      ->type_name("NAME");
  app.add_option("--label-smoothing", label_smoothing_, "Of cross-entropy, from 0 to 1")
      ->type_name("F")
      ->check(number_from(0));
  app.add_option("--class-weights", class_weights_,
                 "Weight of every class: 1,2,0.5 or a file with one array")
      ->type_name("LIST|NPZ");
  app.add_option("--pos-weights", pos_weights_, "Weight of the positive answers of bce, likewise")
      ->type_name("LIST|NPZ");
  app.add_option("--ignore-index", ignore_index_,
                 "Label of places that do not count, of cross-entropy (default: -100)")
      ->type_name("N");
  app.add_option("--padding-mask", padding_mask_,
                 "Input or array with the weight of every place in the mean, such as 0 and 1")
      ->type_name("NAME");
  app.add_option("--class-axis", class_axis_,
                 "Axis of the classes: 1 or -1 (default: the one that the target lacks)")
      ->type_name("N");
  app.add_option("--margin", margin_, "Of cosine with two outputs")->type_name("F");
}

Status LossArguments::check() const {
  const LossKind kind = kind_of(kind_);
  const auto only_for = [&](bool is_given, const char* option, std::initializer_list<LossKind> of) {
    if (!is_given || std::find(of.begin(), of.end(), kind) != of.end()) return ok_status();
    std::string words;
    for (const LossKind each : of)
      words += (words.empty() ? "" : " or ") + std::string(passes::loss_word(each));
    return invalid_argument(std::string(option) + ": belongs to --loss " + words +
                            (kind_.empty() ? ", which is not given" : ", got " + kind_));
  };
  const std::initializer_list<LossKind> all = {LossKind::kCrossEntropy, LossKind::kBce,
                                               LossKind::kMse, LossKind::kL1, LossKind::kCosine};
  MEZZO_RETURN_IF_ERROR(only_for(!outputs_.empty(), "--loss-input", all));
  MEZZO_RETURN_IF_ERROR(only_for(!target_.empty(), "--loss-target", all));
  MEZZO_RETURN_IF_ERROR(only_for(!padding_mask_.empty(), "--padding-mask", all));
  MEZZO_RETURN_IF_ERROR(
      only_for(label_smoothing_ != 0, "--label-smoothing", {LossKind::kCrossEntropy}));
  MEZZO_RETURN_IF_ERROR(
      only_for(ignore_index_ != kUnset, "--ignore-index", {LossKind::kCrossEntropy}));
  MEZZO_RETURN_IF_ERROR(only_for(class_axis_ != kUnset, "--class-axis", {LossKind::kCrossEntropy}));
  MEZZO_RETURN_IF_ERROR(only_for(!class_weights_.empty(), "--class-weights",
                                 {LossKind::kCrossEntropy, LossKind::kBce}));
  MEZZO_RETURN_IF_ERROR(only_for(!pos_weights_.empty(), "--pos-weights", {LossKind::kBce}));
  MEZZO_RETURN_IF_ERROR(only_for(margin_ != 0, "--margin", {LossKind::kCosine}));
  if (label_smoothing_ > 1) {
    return invalid_argument("--label-smoothing: expected a number from 0 to 1, got " +
                            format_number(label_smoothing_));
  }
  if (!(margin_ >= -1 && margin_ <= 1)) {
    return invalid_argument("--margin: expected a number from -1 to 1, got " +
                            format_number(margin_));
  }
  if (outputs_.size() > (kind == LossKind::kCosine ? 2U : 1U)) {
    return invalid_argument("--loss-input: expected one output, got " +
                            std::to_string(outputs_.size()));
  }
  if (margin_ != 0 && outputs_.size() != 2) {
    return invalid_argument("--margin: needs two outputs, given by --loss-input");
  }
  return ok_status();
}

StatusOr<passes::LossOptions> LossArguments::resolve(const std::string& data,
                                                     std::int64_t batch_size,
                                                     const Graph* graph) const {
  passes::LossOptions options;
  options.kind = kind_of(kind_);
  if (options.kind == LossKind::kNone) return options;
  options.outputs = outputs_;
  options.padding_mask = padding_mask_;
  options.batch_size = batch_size;
  options.label_smoothing = label_smoothing_;
  options.margin = margin_;
  if (ignore_index_ != kUnset) options.ignore_index = ignore_index_;
  if (class_axis_ != kUnset) options.class_axis = static_cast<int>(class_axis_);
  MEZZO_ASSIGN_OR_RETURN(options.class_weights, read_weights(class_weights_, "--class-weights"));
  MEZZO_ASSIGN_OR_RETURN(options.pos_weights, read_weights(pos_weights_, "--pos-weights"));
  if (!target_.empty()) options.target = target_;
  if (data.empty()) return options;
  MEZZO_ASSIGN_OR_RETURN(const runtime::NpzFile file, runtime::NpzFile::open(data));
  if (target_.empty()) {
    MEZZO_ASSIGN_OR_RETURN(options.target, find_target(file, graph));
  }
  MEZZO_ASSIGN_OR_RETURN(options.target_array, header_of(file, options.target));
  if (!padding_mask_.empty()) {
    MEZZO_ASSIGN_OR_RETURN(options.mask_array, header_of(file, padding_mask_));
  }
  return options;
}

std::string LossArguments::describe() const {
  std::string text;
  for (const std::string& word :
       {kind_, join(outputs_, ","), target_, class_weights_, pos_weights_, padding_mask_,
        format_number(label_smoothing_), format_number(margin_), std::to_string(ignore_index_),
        std::to_string(class_axis_)})
    text += word + " ";
  return text;
}

}  // namespace mezzo::cli
