"""Makes the npz and npy files of this folder with numpy, and checks written.npz, which npz_test
compares with what NpzWriter writes.

Usage: python make_data.py    (numpy 1.24 or later; the files do not depend on the version)
"""
import pathlib
import zipfile

import numpy as np

HERE = pathlib.Path(__file__).parent
TYPES = ["b1", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"]


def sample(code):
    """2x3 numbers 0..5, or 0 and 1."""
    return (np.arange(6).reshape(2, 3) % (2 if code == "b1" else 6)).astype("<" + code)


def write_npy(name, array, version=None):
    with open(HERE / name, "wb") as file:
        np.lib.format.write_array(file, array, version=version)


def main():
    arrays = {code: sample(code) for code in TYPES}
    arrays["scalar"] = np.float32(2.5)
    arrays["empty"] = np.zeros((0, 4), np.float32)
    arrays["fortran"] = np.asfortranarray(np.arange(24, dtype=np.int32).reshape(2, 3, 4))
    arrays["vector"] = np.linspace(0, 1, 1000, dtype=np.float32)
    np.savez(HERE / "stored.npz", **arrays)
    np.savez_compressed(HERE / "deflated.npz", **arrays)
    write_npy("version2.npy", sample("f4"), (2, 0))
    write_npy("version3.npy", sample("f4"), (3, 0))
    write_npy("big_endian.npy", sample("f4").astype(">f4"))
    write_npy("structured.npy", np.zeros(2, [("a", "<f4"), ("b", "<i4")]))
    write_npy("complex.npy", np.zeros(2, np.complex64))
    write_npy("text.npy", np.array(["a", "bc"]))
    np.savez(HERE / "objects.npz", x=np.array([{}, None], dtype=object))
    with zipfile.ZipFile(HERE / "bzip2.npz", "w", zipfile.ZIP_BZIP2) as file:
        file.writestr("x.npy", b"0" * 100)

    written = np.load(HERE / "written.npz")
    np.testing.assert_array_equal(written["weights"], np.arange(6, dtype=np.float32).reshape(2, 3) / 2)
    np.testing.assert_array_equal(written["labels"], np.array([-1, 1 << 40], dtype=np.int64))
    np.testing.assert_array_equal(written["mask"], np.array(True))
    np.testing.assert_array_equal(written["low"], np.array([1.0, -2.5], dtype=np.float32))
    assert written["weights"].dtype == np.float32 and written["mask"].shape == ()


if __name__ == "__main__":
    main()
