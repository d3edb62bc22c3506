#include "kernels/cpu/elementwise_plan.h"

#include <cstring>

namespace mezzo::kernels::cpu {
namespace {

constexpr Int kPiece = 16384;  // elements per unit where the inner dim is long

}  // namespace

void ElementwisePlan::add_operand(DType dtype, DType loop, const void* fallback) {
  Operand& operand = operands_[operand_count_++];
  operand.dtype = dtype;
  operand.loop = loop;
  if (fallback != nullptr) {
    std::memcpy(operand.fallback.data(), fallback, static_cast<std::size_t>(elem_bytes(loop)));
  }
}

void ElementwisePlan::set_result(DType dtype, DType loop) {
  out_ = dtype;
  out_loop_ = loop;
}

void ElementwisePlan::call(const std::array<const void*, kMostOperands>& x, void* y, Int n) const {
  if (typed_loop_ != nullptr) return typed_loop_(x.data(), y, n, parameters_.data());
  std::array<const float*, kMostOperands> singles{};
  for (std::size_t k = 0; k < operand_count_; ++k) singles[k] = static_cast<const float*>(x[k]);
  const float parameters[2] = {static_cast<float>(parameters_[0]),
                               static_cast<float>(parameters_[1])};
  if (program_ != nullptr) return program_->run(singles.data(), static_cast<float*>(y), n);
  single_loop_(singles.data(), static_cast<float*>(y), n, parameters);
}

// The element at `offset` of an operand, or its fallback.
void ElementwisePlan::read_one(const Operand& operand, const void* data, Int offset,
                               void* to) const {
  const void* from = operand.fallback.data();
  std::array<std::byte, 8> room{};
  if (operand.dtype != DType::kNone) {
    from = load_block(*isa_, operand.dtype, operand.loop, data, offset, 1, room.data());
  }
  std::memcpy(to, from, static_cast<std::size_t>(elem_bytes(operand.loop)));
}

// Elements [first, first + n) of one row.
void ElementwisePlan::run_piece(const KernelArguments& arguments, const Offsets& offsets,
                                Int out_offset, Int n, Rooms& rooms) const {
  const std::size_t inner = rank_ - 1;
  std::array<const void*, kMostOperands> x{};
  bool direct = out_ == out_loop_;
  for (std::size_t k = 0; k < operand_count_; ++k) {
    const Operand& operand = operands_[k];
    const void* data = in_buffer(arguments, k);
    if (operand.dtype == DType::kNone || operand.strides[inner] == 0) {
      std::array<std::byte, 8> value;
      read_one(operand, data, offsets[k], value.data());
      fill_elements(operand.loop, value.data(), rooms.in[k].bytes, std::min(n, kBlock));
      x[k] = rooms.in[k].bytes;
      direct = false;
    } else if (operand.dtype != operand.loop) {
      direct = false;
    } else {
      x[k] = at(data, offsets[k], operand.dtype);
    }
  }
  void* out = arguments.outputs[0];
  if (direct) return call(x, at(out, out_offset, out_), n);
  for (Int done = 0; done < n; done += kBlock) {
    const Int count = std::min(kBlock, n - done);
    std::array<const void*, kMostOperands> block = x;
    for (std::size_t k = 0; k < operand_count_; ++k) {
      const Operand& operand = operands_[k];
      if (x[k] == rooms.in[k].bytes) continue;
      block[k] = load_block(*isa_, operand.dtype, operand.loop, in_buffer(arguments, k),
                            offsets[k] + done, count, rooms.in[k].bytes);
    }
    call(block, block_target(out_, out_loop_, out, out_offset + done, rooms.out.bytes), count);
    store_block(*isa_, out_, out_loop_, rooms.out.bytes, out, out_offset + done, count);
  }
}

// `rows` rows of a short inner dim as one block: what the operand holds for them, in `room`.
const void* ElementwisePlan::gather_rows(const Operand& operand, const void* data, Int offset,
                                         Int rows, void* room) const {
  const Int step = operand.strides[rank_ - 1];
  const Int row_step = operand.strides[rank_ - 2];
  const Int width = inner();
  const Int n = rows * width;
  auto* bytes = static_cast<std::byte*>(room);
  const Int size = elem_bytes(operand.loop);
  // Elements [from, from + count) of the operand at place `to` of the room.
  const auto copy = [&](Int from, Int count, Int to) {
    std::byte* target = bytes + to * size;
    const void* lies = load_block(*isa_, operand.dtype, operand.loop, data, from, count, target);
    if (lies != target) std::memcpy(target, lies, static_cast<std::size_t>(count * size));
  };
  if (operand.dtype == DType::kNone || (step == 0 && row_step == 0)) {
    std::array<std::byte, 8> value;
    read_one(operand, data, offset, value.data());
    fill_elements(operand.loop, value.data(), room, n);
  } else if (step == 1 && (row_step == width || rows == 1)) {
    return load_block(*isa_, operand.dtype, operand.loop, data, offset, n, room);
  } else if (step == 1 && row_step == 0) {
    copy(offset, width, 0);
    for (Int filled = width; filled < n; filled *= 2) {
      std::memcpy(bytes + filled * size, bytes,
                  static_cast<std::size_t>(std::min(filled, n - filled) * size));
    }
  } else if (step == 1) {
    for (Int r = 0; r < rows; ++r) copy(offset + r * row_step, width, r * width);
  } else if (row_step == 1) {
    BlockRoom firsts;
    const auto* lie = static_cast<const std::byte*>(
        load_block(*isa_, operand.dtype, operand.loop, data, offset, rows, firsts.bytes));
    for (Int r = 0; r < rows; ++r) {
      fill_elements(operand.loop, lie + r * size, bytes + r * width * size, width);
    }
  } else {
    for (Int r = 0; r < rows; ++r) {
      std::array<std::byte, 8> value;
      read_one(operand, data, offset + r * row_step, value.data());
      fill_elements(operand.loop, value.data(), bytes + r * width * size, width);
    }
  }
  return room;
}

void ElementwisePlan::run_rows(const KernelArguments& arguments, const Offsets& offsets,
                               Int out_offset, Int rows, Rooms& rooms) const {
  std::array<const void*, kMostOperands> x{};
  for (std::size_t k = 0; k < operand_count_; ++k) {
    x[k] = gather_rows(operands_[k], in_buffer(arguments, k), offsets[k], rows, rooms.in[k].bytes);
  }
  const Int n = rows * inner();
  void* out = arguments.outputs[0];
  call(x, block_target(out_, out_loop_, out, out_offset, rooms.out.bytes), n);
  store_block(*isa_, out_, out_loop_, rooms.out.bytes, out, out_offset, n);
}

// Element offsets of the operands at place (outer, row, column).
ElementwisePlan::Offsets ElementwisePlan::offsets_at(Int outer, Int row, Int column) const {
  Offsets offsets{};
  const auto add = [&](std::size_t dim, Int index) {
    for (std::size_t k = 0; k < operand_count_; ++k) {
      offsets[k] += operands_[k].strides[dim] * index;
    }
  };
  add(rank_ - 1, column);
  add(rank_ - 2, row);
  for (std::size_t dim = rank_ - 2; dim > 0; --dim) {
    add(dim - 1, outer % dims_[dim - 1]);
    outer /= dims_[dim - 1];
  }
  return offsets;
}

void ElementwisePlan::run(const KernelArguments& arguments) const {
  Int outer = 1;
  for (std::size_t dim = 0; dim + 2 < rank_; ++dim) outer *= dims_[dim];
  if (outer * rows() * inner() == 0) return;
  const bool by_piece = inner() > kBlock / 2;
  const Int rows_per_unit = by_piece ? 1 : kBlock / inner();
  const Int pieces = by_piece ? ceil_div(inner(), kPiece) : 1;
  const Int groups = ceil_div(rows(), rows_per_unit);
  const int threads = threads_for(outer * rows() * inner(), threads_);
  parallel_units(outer * groups * pieces, threads, [&](Int unit, int) {
    Rooms rooms;
    const Int first = unit % pieces * kPiece;
    const Int row = unit / pieces % groups * rows_per_unit;
    const Int place = unit / pieces / groups;
    const Offsets offsets = offsets_at(place, row, first);
    const Int out_offset = (place * rows() + row) * inner() + first;
    if (by_piece) {
      run_piece(arguments, offsets, out_offset, std::min(kPiece, inner() - first), rooms);
    } else {
      run_rows(arguments, offsets, out_offset, std::min(rows_per_unit, rows() - row), rooms);
    }
  });
}

// Joins dims (in the order of the result's memory) that all operands walk through alike.
Status ElementwisePlan::join_dims(const KernelRequest& request) {
  const TensorDesc& y = request.outputs[0];
  const std::size_t rank = y.dims.size();
  std::array<Dims, kMostOperands> strides;
  for (std::size_t k = 0; k < operand_count_; ++k) {
    if (operands_[k].dtype != DType::kNone) {
      strides[k] = strides_within(request.inputs[k], y.dims);
    } else {
      strides[k].assign(rank, 0);
    }
  }
  dims_[0] = 1;  // rows, if nothing else is above the inner dim
  rank_ = 1;
  for (const std::size_t dim : memory_order(rank, y.layout)) {
    const Int size = y.dims[dim];
    if (size == 1) continue;
    bool joins = rank_ > 1;
    for (std::size_t k = 0; k < operand_count_ && joins; ++k) {
      joins = operands_[k].strides[rank_ - 1] == strides[k][dim] * size;
    }
    if (!joins) {
      dims_[rank_++] = 1;
    }
    dims_[rank_ - 1] *= size;
    for (std::size_t k = 0; k < operand_count_; ++k) {
      operands_[k].strides[rank_ - 1] = strides[k][dim];
    }
  }
  if (rank_ == 1) dims_[rank_++] = 1;
  for (std::size_t k = 0; k < operand_count_; ++k) {
    if (operands_[k].strides[rank_ - 1] > 1) {
      return unimplemented("operand " + std::to_string(k) + " lies in another layout");
    }
  }
  return ok_status();
}

}  // namespace mezzo::kernels::cpu
