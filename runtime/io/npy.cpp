#include "runtime/io/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>

#include "compiler/support/text.h"
#include "runtime/io/little_endian.h"

namespace mezzo::runtime {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxRank = 64;  // numpy's own limit

struct TypeCode {
  std::string_view code;  // without the byte order
  DType dtype;
};
constexpr std::array<TypeCode, 12> kTypeCodes = {{{"b1", DType::kBool},
                                                  {"u1", DType::kUInt8},
                                                  {"i1", DType::kInt8},
                                                  {"u2", DType::kUInt16},
                                                  {"i2", DType::kInt16},
                                                  {"u4", DType::kUInt32},
                                                  {"i4", DType::kInt32},
                                                  {"u8", DType::kUInt64},
                                                  {"i8", DType::kInt64},
                                                  {"f2", DType::kFloat16},
                                                  {"f4", DType::kFloat32},
                                                  {"f8", DType::kFloat64}}};

StatusOr<DType> parse_descr(std::string_view descr) {
  const std::string_view code = descr.empty() ? descr : descr.substr(1);
  const auto row = std::find_if(kTypeCodes.begin(), kTypeCodes.end(),
                                [&](const TypeCode& entry) { return entry.code == code; });
  const char order = descr.empty() ? '?' : descr[0];
  const bool known_order = order == '<' || order == '|' || order == '=';
  if (row != kTypeCodes.end() && known_order) return row->dtype;
  const std::string text = "element type '" + printable(descr, 40) + "'";
  if (row != kTypeCodes.end() && order == '>') {
    return unimplemented(text +
                         " is big-endian. Hint: save array.astype(array.dtype."
                         "newbyteorder('<'))");
  }
  if (code == "O")
    return unimplemented(text + " (Python objects) is never read: it would run code");
  std::string hint;
  if (code.starts_with('V')) hint = ". Hint: save bfloat16 arrays as float32";
  if (code.starts_with('U') || code.starts_with('S')) hint = ". Hint: save labels as int64";
  return unimplemented(text +
                       " is not supported; bool, int8..int64, uint8..uint64 and "
                       "float16/32/64 are" +
                       hint);
}

// Reads the dict literal {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class DictReader {
 public:
  explicit DictReader(std::string_view text) : text_(text) {}

  StatusOr<NpyHeader> read() {
    NpyHeader header;
    bool has_descr = false, has_order = false, has_shape = false;
    if (!take('{')) return broken();
    while (!take('}')) {
      const auto key = quoted();
      if (!key || !take(':')) return broken();
      bool* seen = *key == "descr"           ? &has_descr
                   : *key == "fortran_order" ? &has_order
                   : *key == "shape"         ? &has_shape
                                             : nullptr;
      if (seen == nullptr || *seen) return broken();
      *seen = true;
      if (*key == "descr") {
        if (peek() == '[') return unimplemented("structured elements are not supported");
        const auto descr = quoted();
        if (!descr) return broken();
        MEZZO_ASSIGN_OR_RETURN(header.dtype, parse_descr(*descr));
      } else if (*key == "fortran_order") {
        header.fortran_order = peek() == 'T';
        if (!take_word(header.fortran_order ? "True" : "False")) return broken();
      } else if (!shape(header.shape)) {
        return broken();
      }
      take(',');
    }
    skip_blanks();
    if (at_ != text_.size() || !has_descr || !has_order || !has_shape) return broken();
    return header;
  }

 private:
  Status broken() const {
    return invalid_argument("its header '" + printable(text_, 120) + "' is not numpy's");
  }
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  char peek() {
    skip_blanks();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  bool take_word(std::string_view word) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  std::optional<std::string_view> quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return std::nullopt;
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return inside;
  }
  bool shape(std::vector<std::int64_t>& dims) {
    if (!take('(')) return false;
    while (!take(')')) {
      skip_blanks();
      std::int64_t dim = 0;
      const char* begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), dim);
      if (error != std::errc() || dim < 0 || dims.size() == kMaxRank) return false;
      at_ += static_cast<std::size_t>(end - begin);
      if (peek() == 'L') ++at_;  // written by Python 2
      dims.push_back(dim);
      if (!take(',') && peek() != ')') return false;
    }
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// elems and data_bytes of the header's shape; false if they overflow.
bool count_elements(NpyHeader& header) {
  const auto elem_bytes = static_cast<std::uint64_t>(dtype_bits(header.dtype)) / 8;
  const std::uint64_t most = std::uint64_t{std::numeric_limits<std::int64_t>::max()} / elem_bytes;
  std::uint64_t product = 1;
  const bool empty = std::find(header.shape.begin(), header.shape.end(), 0) != header.shape.end();
  for (const std::int64_t dim : header.shape) {
    const auto size = static_cast<std::uint64_t>(empty ? 0 : dim);
    if (size != 0 && product > most / size) return false;
    product *= size;
  }
  header.elems = product;
  header.data_bytes = product * elem_bytes;
  return true;
}

bool order_matters(std::span<const std::int64_t> shape) {
  return std::count_if(shape.begin(), shape.end(), [](auto dim) { return dim > 1; }) > 1;
}

template <typename Element>
void reorder(const std::byte* from, std::byte* to, std::span<const std::int64_t> shape) {
  const std::size_t rank = shape.size();
  std::vector<std::size_t> stride(rank), index(rank);
  std::size_t count = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    stride[i] = count;
    count *= static_cast<std::size_t>(shape[i]);
  }
  std::size_t at = 0;  // the source position of the element that index[] names
  for (std::size_t done = 0; done < count; ++done) {
    std::memcpy(to + done * sizeof(Element), from + at * sizeof(Element), sizeof(Element));
    for (std::size_t i = rank; i-- > 0;) {  // next index in C order
      at += stride[i];
      if (++index[i] < static_cast<std::size_t>(shape[i])) break;
      at -= stride[i] * static_cast<std::size_t>(shape[i]);
      index[i] = 0;
    }
  }
}

}  // namespace

StatusOr<NpyHeader> read_npy_header(std::span<const std::byte> bytes, std::string_view where) {
  const auto broken = [&](std::string_view what) {
    return invalid_argument(std::string(where) + ": not a numpy array: " + std::string(what));
  };
  if (bytes.size() < 10 || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    return broken("it does not start with numpy's magic");
  }
  const auto major = load<std::uint8_t>(bytes, 6);
  if (major < 1 || major > 3) {
    return unimplemented(std::string(where) + ": numpy format version " + std::to_string(major) +
                         "; 1, 2 and 3 are supported");
  }
  const std::size_t start = major == 1 ? 10 : 12;
  if (bytes.size() < start) return broken("its header is truncated");
  const std::uint64_t length =
      major == 1 ? load<std::uint16_t>(bytes, 8) : load<std::uint32_t>(bytes, 8);
  if (length > kMaxNpyHeaderBytes - start) return broken("its header is too long");
  if (length > bytes.size() - start) return broken("its header is truncated");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + start, length);
  auto header = DictReader(text).read();
  if (!header.ok()) return header.status().with_context(where);
  header->data_offset = start + length;
  if (!count_elements(*header)) return broken("its shape is too large");
  header->fortran_order = header->fortran_order && order_matters(header->shape);
  return header;
}

StatusOr<std::string> make_npy_header(DType dtype, std::span<const std::int64_t> shape) {
  const auto row = std::find_if(kTypeCodes.begin(), kTypeCodes.end(),
                                [&](const TypeCode& entry) { return entry.dtype == dtype; });
  if (row == kTypeCodes.end()) {
    return unimplemented("numpy has no element type " + std::string(dtype_name(dtype)));
  }
  const char order = row->code[1] == '1' ? '|' : '<';
  std::string dims = join(shape, ", ");
  if (shape.size() == 1) dims += ",";
  std::string text = "{'descr': '" + std::string(1, order) + std::string(row->code) +
                     "', 'fortran_order': False, 'shape': (" + dims + "), }";
  const bool is_long = text.size() > 0xff00;
  const std::size_t start = is_long ? 12 : 10;
  text.append((64 - (start + text.size() + 1) % 64) % 64, ' ');
  text += '\n';
  std::string header(kMagic);
  append(header, static_cast<std::uint8_t>(is_long ? 3 : 1));
  append(header, std::uint8_t{0});
  if (is_long) {
    append(header, static_cast<std::uint32_t>(text.size()));
  } else {
    append(header, static_cast<std::uint16_t>(text.size()));
  }
  return header + text;
}

void reorder_from_fortran(std::span<const std::byte> from, std::span<std::byte> to,
                          std::span<const std::int64_t> shape, std::size_t elem_bytes) {
  switch (elem_bytes) {
    case 1: return reorder<std::uint8_t>(from.data(), to.data(), shape);
    case 2: return reorder<std::uint16_t>(from.data(), to.data(), shape);
    case 4: return reorder<std::uint32_t>(from.data(), to.data(), shape);
    default: return reorder<std::uint64_t>(from.data(), to.data(), shape);
  }
}

}  // namespace mezzo::runtime
