"""Data movement, shapes, dropout."""
import numpy as np

from reference_case_writer import IA, IB, I64, case, data

# --- data movement -----------------------------------------------------------------------------
x = data(2, 3, 4)
A, COLUMN = data(2, 3), data(2, 1)
case("Reshape:", [x], [x.reshape(4, 6)])
case("Flatten:", [x], [x.reshape(2, 12)])
case("Squeeze:", [x[:, :1]], [x[:, 0]])
case("Unsqueeze: int64", [IA], [IA[None, :, None]])
case("Identity: bool", [np.array([True, False])], [np.array([True, False])])
case("Transpose: reversed", [x], [x.transpose()])
case("Transpose: perm", [x], [x.transpose(1, 0, 2)], perm=[1, 0, 2])
case("Transpose: int8", [np.array([[1, 2, 3]], np.int8)], [np.array([[1], [2], [3]], np.int8)])
case("Concat: middle axis", [x, x[:, :1], x[:, :0]], [np.concatenate([x, x[:, :1]], 1)], axis=1)
case("Concat: int64, negative axis", [IA[None], IB[None]], [np.concatenate([IA, IB])[None]], axis=-1)
case("Split: unequal", [x], [x[..., :1], x[..., 1:]], axis=-1)
for title, index, kw in [
    ("steps", np.s_[:, 0:3:2, 1:], dict(starts=[0, 1], ends=[3, 4], axes=[1, 2], steps=[2, 1])),
    ("backwards to the first element", np.s_[:, ::-1, ::-2],
     dict(starts=[-1, 2**63 - 1], ends=[-2**63, -2**63], axes=[1, 2], steps=[-1, -2])),
    ("backwards with an end", np.s_[:, :, 2:0:-1], dict(starts=[2], ends=[0], axes=[-1], steps=[-1])),
    ("negative bounds", np.s_[:, -2:, :-1], dict(starts=[-2, 0], ends=[100, -1], axes=[1, 2])),
    ("no axes", np.s_[1:, :2], dict(starts=[1, 0], ends=[2, 2])),
    ("nothing left", np.s_[:, 2:1], dict(starts=[2], ends=[1], axes=[1])),
]:
    y = x[index]
    case(f"Slice: {title}", [x], [y], **kw)
    dy = data(*y.shape)
    dx = np.zeros_like(x)
    dx[index] = dy
    case(f"SliceGrad: {title}", [dy], [dx], **kw)
case("Slice: int64", [IA], [IA[1:3]], starts=[1], ends=[3])
index = np.array([[0, -1], [2, 0]])
case("Gather: axis 1, negative index", [x, index], [x[:, index]], axis=1)
case("Gather: scalar index", [x, np.array(1, np.int32)], [x[1]])
case("Gather: int64 values", [IA, np.array([4, 0])], [IA[[4, 0]]])
dy = data(2, 2, 2, 4)
dx = np.zeros_like(x)
for j in np.ndindex(2, 2):
    dx[:, index[j]] += dy[:, j[0], j[1]]
case("GatherGrad: repeated rows", [dy, index], [dx], axis=1)
case("GatherGrad: rows without gradient", [data(1, 2) * 0 + 3.0, np.array([1])],
     [np.array([[0.0, 0.0], [3.0, 3.0]])])
case("Expand: both kinds", [COLUMN], [np.broadcast_to(COLUMN, (2, 2, 3))])
case("Expand: int64", [np.array(7)], [np.array([7, 7])])
case("Pad: value", [A], [np.pad(A, ((1, 0), (0, 2)), constant_values=1.5)], pads=[1, 0, 0, 2],
     value=1.5)
case("Pad: cuts off", [x], [np.pad(x[:, 1:, :-2], ((0, 0), (0, 1), (2, 0)))], pads=[0, -1, 2, 0, 1, -2])
case("Pad: int64", [IA], [np.pad(IA, (2, 1), constant_values=-1)], pads=[2, 1], value=-1)
case("Reorder: same layout", [data(1, 2, 2, 2) * 0 + 4.0], [np.full((1, 2, 2, 2), 4.0)])
case("Trilu: upper", [x], [np.triu(x)])
case("Trilu: lower, k", [x], [np.tril(x, -1)], upper=0, k=-1)
case("Trilu: bool", [np.ones((2, 3), bool)], [np.triu(np.ones((2, 3), bool), 1)], k=1)
case("Shape:", [x], [np.array([2, 3, 4])])
case("Shape: part", [x], [np.array([3])], start=1, end=-1)
case("Size:", [x], [np.array(24)])
case("ConstantOfShape: fill", [np.array([2, 2]), np.array([7])], [np.full((2, 2), 7)])
case("ConstantOfShape: default", [np.array([3])], [np.zeros(3)])
case("Range: int64 down", [np.array(10), np.array(1), np.array(-4)], [np.arange(10, 1, -4)])
case("Range: reals", [np.array(1.0), np.array(2.1), np.array(0.5)], [np.arange(1.0, 2.1, 0.5)])
case("Range: empty", [np.array(3), np.array(3), np.array(1)], [np.zeros(0, I64)])


# --- dropout: Philox 4x32-10 written from the paper --------------------------------------------
def philox(counter, key):
    counter, key, low = list(counter), list(key), 0xFFFFFFFF
    for _ in range(10):
        p0, p1 = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(p1 >> 32) ^ counter[1] ^ key[0], p1 & low, (p0 >> 32) ^ counter[3] ^ key[1],
                   p0 & low]
        key = [(key[0] + 0x9E3779B9) & low, (key[1] + 0xBB67AE85) & low]
    return counter


def dropout_mask(elems, seed, step, ratio):
    words = []
    for block in range((elems + 3) // 4):
        words += philox([block & 0xFFFFFFFF, block >> 32, step & 0xFFFFFFFF, step >> 32],
                        [seed & 0xFFFFFFFF, seed >> 32])
    return np.array(words[:elems]) >= int(ratio * 2**32)


# Known answers of the paper's authors (Random123, kat_vectors).
assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
for ratio, seed, step in [(0.5, 7, 3), (0.1, 2**40 + 1, 2**33), (0.0, 1, 0), (1.0, 1, 0)]:
    x = data(2, 7)
    keep = dropout_mask(14, seed, step, ratio).reshape(2, 7)
    factor = 0.0 if ratio == 1.0 else 1 / (1 - ratio)
    case(f"Dropout: ratio {ratio}", [x, np.array(step)], [np.where(keep, x * factor, 0.0), keep],
         ratio=ratio, seed=seed)
    case(f"DropoutGrad: ratio {ratio}", [x, keep], [np.where(keep, x * factor, 0.0)], ratio=ratio)
