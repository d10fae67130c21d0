"""Reads files of HDF5 with h5py and of NumPy without pickle, and writes the rows of each FILE to FILE.read, as the
converter writes JSON lines: python3 arrays.py FILE..."""

import base64
import json
import sys

import h5py
import numpy as np

NUMBERS = "run event orbit bunch source type version missing size".split()
TYPES = "<u4 <u8 <u4 <u4 <u2 |u1 |u1 |b1 <u4".split()
NONE = 2**64 - 1


def rows(table):
    columns = {name: np.asarray(table[name][:]) for name in [*NUMBERS, "trigger", "stamp", "offset", "data"]}
    assert [columns[name].dtype.str for name in NUMBERS] == TYPES, [c.dtype.str for c in columns.values()]
    for i in range(len(columns["run"])):
        row = {name: columns[name][i].item() for name in NUMBERS}
        row.update((name, columns[name][i].item()) for name in ("trigger", "stamp") if columns[name][i] != NONE)
        begin = int(columns["offset"][i])
        row["data"] = base64.b64encode(columns["data"][begin:begin + row["size"]].tobytes()).decode()
        yield json.dumps(row, separators=(",", ":")) + "\n"


for path in sys.argv[1:]:
    with open(path + ".read", "w") as out:
        if path.endswith(".npz"):
            with np.load(path, allow_pickle=False) as table:
                assert json.loads(table["about"][0])["inputs"]
                out.writelines(rows(table))
        else:
            with h5py.File(path, "r") as file:
                assert json.loads(file.attrs["about"])["inputs"]
                for table in file.values():
                    out.writelines(rows(table))
