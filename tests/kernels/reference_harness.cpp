#include "tests/kernels/reference_harness.h"

#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <new>
#include <sstream>

#include "compiler/support/half.h"

namespace mezzo::kernels::test {
namespace {

constexpr std::byte kBandByte{0xA5};
constexpr std::byte kGarbage{0x7B};
constexpr std::align_val_t kAlignment{64};

// Distance in the buffer of the element with row-major number i.
std::int64_t place_of(const TensorDesc& desc, std::int64_t i) {
  if (desc.layout == Layout::kRowMajor) return i;
  const std::int64_t channels = desc.dims[1];
  const std::int64_t pixels = desc.elems() / desc.dims[0] / channels;
  const std::int64_t n = i / pixels / channels;
  return (n * pixels + i % pixels) * channels + i / pixels % channels;
}

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

[[noreturn]] void fail(const std::string& what) {
  std::cerr << what << std::endl;
  std::abort();
}

}  // namespace

void Tensor::Free::operator()(std::byte* memory) const { ::operator delete[](memory, kAlignment); }

Tensor::Tensor(TensorDesc desc) : desc_(std::move(desc)) {
  if (!desc_.present()) return;
  const std::size_t bytes = desc_.bytes();
  memory_.reset(static_cast<std::byte*>(::operator new[](bytes + 2 * kBand, kAlignment)));
  std::memset(memory_.get(), static_cast<int>(kBandByte), bytes + 2 * kBand);
  if (bytes > 0) std::memset(data(), static_cast<int>(kGarbage), bytes);
}

Tensor::Tensor(DType dtype, Dims dims, const std::vector<double>& values, Layout layout)
    : Tensor(TensorDesc{dtype, std::move(dims), layout}) {
  if (!values.empty() && static_cast<std::int64_t>(values.size()) != elems()) {
    fail("a tensor of " + std::to_string(elems()) + " elements was given " +
         std::to_string(values.size()));
  }
  for (std::int64_t i = 0; i < elems(); ++i) {
    set(i, values.empty() ? 0.0 : values[static_cast<std::size_t>(i)]);
  }
}

Tensor::Tensor(const Tensor& other) : Tensor(other.desc_) {
  if (desc_.present() && desc_.bytes() > 0) std::memcpy(data(), other.data(), desc_.bytes());
}

Tensor& Tensor::operator=(Tensor other) noexcept {
  desc_ = std::move(other.desc_);
  memory_ = std::move(other.memory_);
  return *this;
}

bool Tensor::bands_are_whole() const {
  if (!desc_.present()) return true;
  const std::byte* after = memory_.get() + kBand + desc_.bytes();
  for (std::size_t i = 0; i < kBand; ++i) {
    if (memory_[i] != kBandByte || after[i] != kBandByte) return false;
  }
  return true;
}

std::byte* Tensor::element(std::int64_t i) const {
  return static_cast<std::byte*>(data()) + dtype_bytes(desc_.dtype, place_of(desc_, i));
}

double Tensor::at(std::int64_t i) const {
  switch (desc_.dtype) {
    case DType::kFloat64: return load<double>(element(i));
    case DType::kFloat32: return load<float>(element(i));
    case DType::kFloat16: return f16_to_float(load<std::uint16_t>(element(i)));
    case DType::kBFloat16: return bf16_to_float(load<std::uint16_t>(element(i)));
    case DType::kUInt64: return static_cast<double>(load<std::uint64_t>(element(i)));
    default: return static_cast<double>(integer_at(i));
  }
}

std::int64_t Tensor::integer_at(std::int64_t i) const {
  switch (desc_.dtype) {
    case DType::kInt8: return load<std::int8_t>(element(i));
    case DType::kInt16: return load<std::int16_t>(element(i));
    case DType::kInt32: return load<std::int32_t>(element(i));
    case DType::kInt64: return load<std::int64_t>(element(i));
    case DType::kUInt64: return load<std::int64_t>(element(i));  // the bits
    case DType::kBool:
    case DType::kUInt8: return load<std::uint8_t>(element(i));
    case DType::kUInt16: return load<std::uint16_t>(element(i));
    case DType::kUInt32: return load<std::uint32_t>(element(i));
    default: fail("integer_at of " + std::string(dtype_name(desc_.dtype)));
  }
}

void Tensor::set(std::int64_t i, double value) {
  const auto low = [&](std::uint16_t bits) { std::memcpy(element(i), &bits, sizeof bits); };
  switch (desc_.dtype) {
    case DType::kFloat64: std::memcpy(element(i), &value, sizeof value); break;
    case DType::kFloat32: {
      const auto narrow = static_cast<float>(value);
      std::memcpy(element(i), &narrow, sizeof narrow);
      break;
    }
    case DType::kFloat16: low(float_to_f16(static_cast<float>(value))); break;
    case DType::kBFloat16: low(float_to_bf16(static_cast<float>(value))); break;
    default: set_integer(i, static_cast<std::int64_t>(value));
  }
}

void Tensor::set_integer(std::int64_t i, std::int64_t value) {
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(element(i), &value, dtype_bytes(desc_.dtype, 1));
}

std::vector<double> Tensor::values() const {
  std::vector<double> values;
  for (std::int64_t i = 0; i < elems(); ++i) values.push_back(at(i));
  return values;
}

Tensor Tensor::as(DType dtype) const {
  return desc_.present() ? Tensor(dtype, desc_.dims, values(), desc_.layout) : Tensor();
}

Tensor Tensor::as(Layout layout) const {
  Tensor moved(TensorDesc{desc_.dtype, desc_.dims, layout});
  const std::size_t bytes = dtype_bytes(desc_.dtype, 1);
  for (std::int64_t i = 0; i < elems(); ++i) std::memcpy(moved.element(i), element(i), bytes);
  return moved;
}

Attributes attributes(const std::vector<AttributeValue>& values) {
  Attributes result;
  for (const AttributeValue& value : values) result.set(value.name, value.value);
  return result;
}

StatusOr<std::unique_ptr<Kernel>> prepare(const KernelRequest& request) {
  return prepare_kernel(request, Backend::kReference);
}

KernelRequest make_request(const std::string& op, const Attributes& attributes,
                           const std::vector<Tensor>& inputs,
                           const std::vector<TensorDesc>& results) {
  KernelRequest request{op, attributes, {}, results, 1};
  for (const Tensor& input : inputs) request.inputs.push_back(input.desc());
  return request;
}

Status run_prepared(Kernel& kernel, const std::vector<Tensor>& inputs,
                    std::vector<Tensor>& results) {
  std::vector<const void*> in;
  for (const Tensor& input : inputs) in.push_back(input.data());
  std::vector<void*> out;
  for (const Tensor& result : results) out.push_back(result.data());
  const Tensor workspace(TensorDesc{
      DType::kUInt8, {static_cast<std::int64_t>(kernel.workspace_bytes())}, Layout::kRowMajor});
  const Status status = kernel.run({in, out, workspace.data()});
  bool whole = workspace.bands_are_whole();
  for (const Tensor& result : results) whole = whole && result.bands_are_whole();
  return whole ? status : internal_error("the kernel wrote past the end of a buffer");
}

StatusOr<std::vector<Tensor>> run(const std::string& op, const Attributes& attributes,
                                  const std::vector<Tensor>& inputs,
                                  const std::vector<TensorDesc>& descs) {
  MEZZO_ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel,
                         prepare(make_request(op, attributes, inputs, descs)));
  std::vector<Tensor> results;
  for (const TensorDesc& desc : descs) results.emplace_back(desc);
  MEZZO_RETURN_IF_ERROR(run_prepared(*kernel, inputs, results));
  return results;
}

std::vector<TensorDesc> Case::result_descs() const {
  std::vector<TensorDesc> descs;
  for (const Tensor& result : results) descs.push_back(result.desc());
  return descs;
}

namespace {

bool is_real(const std::string& text) { return text.find_first_of(".einf") != std::string::npos; }

Ints parse_list(std::string text) {  // [1,2]
  for (char& c : text) c = c == '[' || c == ']' || c == ',' ? ' ' : c;
  std::istringstream stream(text);
  Ints values;
  for (std::string item; stream >> item;) {
    // Unsigned text too large for int64 stands for ONNX's "to the end".
    values.push_back(std::strtoll(item.c_str(), nullptr, 10));
  }
  return values;
}

std::vector<double> parse_reals(std::string text) {  // [0.5,2]
  for (char& c : text) c = c == '[' || c == ']' || c == ',' ? ' ' : c;
  std::istringstream stream(text);
  std::vector<double> values;
  for (double item = 0.0; stream >> item;) values.push_back(item);
  return values;
}

Attributes::Value parse_value(const std::string& text) {
  if (text.front() == '"') return text.substr(1, text.size() - 2);
  if (text.front() == '[' && text.find('.') != std::string::npos) return parse_reals(text);
  if (text.front() == '[') return parse_list(text);
  if (is_real(text)) return std::strtod(text.c_str(), nullptr);
  return static_cast<std::int64_t>(std::strtoll(text.c_str(), nullptr, 10));
}

Tensor parse_tensor(std::istringstream& line) {
  std::string dtype_text, dims_text;
  line >> dtype_text >> dims_text;
  if (dtype_text == "-") return {};
  const auto dtype = dtype_from_name(dtype_text);
  if (!dtype) fail("reference_cases.txt: dtype '" + dtype_text + "'");
  Tensor tensor(*dtype, parse_list(dims_text), {});
  std::int64_t i = 0;
  for (std::string item; line >> item; ++i) {
    if (i == tensor.elems()) break;
    if (is_floating(*dtype)) {
      tensor.set(i, std::strtod(item.c_str(), nullptr));
    } else if (item.front() == '-') {
      tensor.set_integer(i, std::strtoll(item.c_str(), nullptr, 10));
    } else {
      tensor.set_integer(i, static_cast<std::int64_t>(std::strtoull(item.c_str(), nullptr, 10)));
    }
  }
  if (i != tensor.elems() || !line.eof()) fail("reference_cases.txt: wrong number of elements");
  return tensor;
}

void read_cases(const std::string& name, std::vector<Case>& cases) {
  std::ifstream file(name);
  const std::size_t before = cases.size();
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string word;
    line >> word;
    if (word == "case") {
      std::string title;
      std::getline(line >> std::ws, title);
      cases.push_back({title, title.substr(0, title.find(':')), {}, {}, {}});
    } else if (word == "attr") {
      std::string name, value;
      line >> name >> value;
      cases.back().attributes.set(name, parse_value(value));
    } else if (word == "in") {
      cases.back().inputs.push_back(parse_tensor(line));
    } else if (word == "out") {
      cases.back().results.push_back(parse_tensor(line));
    } else if (!word.empty() && word != "#") {
      fail(name + ": line '" + text + "'");
    }
  }
  if (cases.size() == before) fail(name + " is not in the working folder");
}

}  // namespace

const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases = [] {
    std::vector<Case> all;
    read_cases("reference_cases.txt", all);
    read_cases("reference_cases_layers.txt", all);
    read_cases("reference_cases_gradients.txt", all);
    return all;
  }();
  return cases;
}

std::vector<std::string> listed_ops() {
  std::ifstream file("../../kernels/README.md");
  std::vector<std::string> ops;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("| ") || line.starts_with("| op ")) continue;
    int depth = 0;  // of parentheses: attributes stand in them
    std::string word;
    for (const char c : line.substr(2, line.find('|', 2) - 1)) {
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
      if (depth == 0 && std::isalnum(static_cast<unsigned char>(c)) != 0) {
        word += c;
        continue;
      }
      if (word.size() > 1 && std::isupper(static_cast<unsigned char>(word[0])) != 0) {
        ops.push_back(word);
      }
      word.clear();
    }
  }
  return ops;
}

}  // namespace mezzo::kernels::test
