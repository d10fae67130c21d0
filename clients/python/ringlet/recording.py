"""Reads recordings without conversion: NumPy views onto the mapped files, no copies. docs/analysis.md has an example,
docs/format describes the bytes: recording.md (index), mep.md, mfp.md, mdf.md.

Python 3.9 or newer, and NumPy. Files are only read. A program that cuts a file while it is mapped ends the reader by
SIGBUS, as with every mapped file; Ringlet cuts no closed segment.
"""

import collections
import functools
import json
import mmap
import os
import re
import stat
import struct

import numpy as np

FORMATS = {1: "mep", 2: "mdf", 3: "mfp"}
MISSING, CONTAINER, RECORD = 92, 240, 241  # types: docs/format/rawbank.md

_MEP, _MFP, _WIDE, _WORDED, _BANK, _PIECE = 0xCEFA, 0x40CE, 0x40CF, 0x40D0, 0xCBCB, 242
_NO_WORD = (1 << 64) - 1  # there is no trigger number, or no time stamp
_MOST_FRAGMENT = 1 << 30  # bytes
_MOST_MANIFEST = 64 << 20  # bytes of run.json that are read
_MOST_OPEN = 64  # files that are mapped at once
_MOST_MEPS = 1 << 40
_END = 2**64 - 1  # event id of the end of a run
_HEADER = struct.Struct("<8sIIIIII16sQII")
_MFP_HEADER = struct.Struct("<HHIQHBB")
_MDF_HEADER = struct.Struct("<IIIIBBBB")
_NAME = re.compile(r"(bu\d+-\d{5,})\.(mep|mdf|mfp)(\.open)?")
_ENTRY = np.dtype([("mep", "<u8"), ("first", "<u8"), ("offset", "<u8"), ("length", "<u8"), ("events", "<u4"),
                   ("attempt", "<u4"), ("crc", "<u4"), ("sum", "<u4")])
_PLACE = np.dtype([("mep", "u8"), ("first", "u8"), ("offset", "u8"), ("length", "u8"), ("events", "u4"),
                   ("attempt", "u4"), ("crc", "u4"), ("before", "u4"), ("proven", "?"), ("file", "u4")])


class Damaged(Exception):
    """A file is not as its format says: path, offset (bytes from the file's start; None: the whole file), what."""

    def __init__(self, path, offset, what):
        super().__init__(f"{path}: {what}" if offset is None else f"{path}, at byte {offset}: {what}")
        self.path, self.offset, self.what = path, offset, what


class Fragment:
    """A fragment of one source, or a raw bank: event (its number), source, type, version, and data, bytes of the file
    (NumPy u8, read-only). trigger is its trigger number, stamp its time in ns since 1970, or None."""

    __slots__ = ("event", "source", "type", "version", "data", "trigger", "stamp")

    def __init__(self, event, source, kind, version, data, trigger=_NO_WORD, stamp=_NO_WORD):
        self.event, self.source, self.type, self.version, self.data = event, source, kind, version, data
        self.trigger = None if trigger == _NO_WORD else trigger
        self.stamp = None if stamp == _NO_WORD else stamp

    @property
    def missing(self):
        """Whether the fragment did not come: it marks the place."""
        return self.type == MISSING

    def banks(self):
        """Returns the raw banks of a container (type 240), as fragments. Their offsets in Damaged count from data."""
        return list(_banks(self.data, 0, len(self.data), self.event, f"container of source {self.source}"))


class Event:
    """The fragments of one event: number, and fragments in the order of the file; of MDF also run, orbit and bunch."""

    __slots__ = ("number", "fragments", "run", "orbit", "bunch")

    def __init__(self, number, fragments, run=None, orbit=None, bunch=None):
        self.number, self.fragments, self.run, self.orbit, self.bunch = number, fragments, run, orbit, bunch

    def __getitem__(self, source):
        """Returns the data of the first fragment of a source. KeyError: it has none."""
        for fragment in self.fragments:
            if fragment.source == source:
                return fragment.data
        raise KeyError(source)


class MFP:
    """The fragments of one source for consecutive events: source, first (event), version; and as NumPy arrays types,
    sizes and offsets (bytes in data), and data, the whole packet. len is the number of events; mfp[i] is the data of
    event first+i. triggers and stamps are the trigger numbers and times (ns since 1970) of the fragments, 2^64-1 where
    there is none; None if the packet has none."""

    __slots__ = ("source", "first", "version", "types", "sizes", "offsets", "data", "triggers", "stamps")

    def __init__(self, path, base, data):
        """Takes the packet at the start of data, which may be longer; base is its offset in the file."""
        if len(data) < 20:
            raise Damaged(path, base, f"{len(data)} bytes are left, the header of an MFP has 20")
        magic, n, size, self.first, self.source, align, self.version = _MFP_HEADER.unpack_from(data)
        if magic not in (_MFP, _WIDE, _WORDED):
            raise Damaged(path, base, f"0x{magic:04X} is not the magic of an MFP")
        table, wide = 20 + (n + 3 & ~3), magic != _MFP
        words = table + (4 * n if wide else 2 * n + 3 & ~3)
        header = words + (16 * n if magic == _WORDED else 0)
        if align > 16:
            raise Damaged(path, base + 18, f"fragments cannot be padded to 2^{align} bytes: 2^16 is the most")
        if size < header or size > len(data):
            raise Damaged(path, base + 4, f"the MFP has {size} bytes, its header {header}, and {len(data)} are left")
        if n > _END - self.first:
            raise Damaged(path, base + 8, f"{n} events from {self.first} run into the mark of the end of a run")
        self.data = data[:size]
        self.types = self.data[20 : 20 + n]
        self.sizes = self.data[table : table + (4 if wide else 2) * n].view("<u4" if wide else "<u2")
        if wide and n and int(self.sizes.max()) > _MOST_FRAGMENT:
            raise Damaged(path, base + table, f"a fragment of {self.sizes.max()} bytes: 2^30 are the most")
        ends = header + np.cumsum((self.sizes.astype("u8") + ((1 << align) - 1)) >> align << align, dtype="u8")
        if (int(ends[-1]) if n else header) != size:
            raise Damaged(path, base + 4, f"the MFP has {size} bytes, its tables say {int(ends[-1]) if n else header}")
        self.offsets = np.empty(n, "u8")
        self.offsets[:1], self.offsets[1:] = header, ends[:-1]
        self.triggers = self.stamps = None
        if magic == _WORDED:
            table = self.data[words:header].view("<u8").reshape(n, 2)
            self.triggers, self.stamps = table[:, 0], table[:, 1]

    def _words(self):
        """The trigger numbers and the times of all fragments."""
        if self.triggers is None:
            return (none := [_NO_WORD] * len(self)), none
        return self.triggers.tolist(), self.stamps.tolist()

    def __len__(self):
        return len(self.types)

    def __getitem__(self, i):
        if not -len(self) <= i < len(self):
            raise IndexError(i)
        at = int(self.offsets[i])
        return self.data[at : at + int(self.sizes[i])]


class MEP:
    """A MEP: number (of the MEP; in a file without an index: of the unit), first (event), events (how many), and mfps
    by ascending source."""

    __slots__ = ("number", "first", "events", "mfps")

    def __init__(self, number, first, events, mfps):
        self.number, self.first, self.events, self.mfps = number, first, events, mfps

    def __iter__(self):
        """Iterates over the events."""
        lists = [(p.source, p.version, p.data, p.types.tolist(), p.offsets.tolist(), p.sizes.tolist(), *p._words())
                 for p in self.mfps]
        for i in range(self.events):
            number = self.first + i
            yield Event(number, [Fragment(number, source, kinds[i], version, data[at[i] : at[i] + size[i]], trigger[i],
                                          stamp[i])
                                 for source, version, data, kinds, at, size, trigger, stamp in lists])


class Recording:
    """A recording: the directory of a run, or one file of MEPs, MFPs or MDF records. Iterating gives the events in
    order, each once: of copies of a MEP the one with the highest attempt. len is the number of events. Use it by with,
    or close it.

    damaged is called with each Damaged, and what it names is left out: an entry, or a MEP with all its events. Without
    it, Damaged is raised. check=True compares the checksums (CRC-32C) of the MEPs with the index, at some 70 MB/s;
    `ringlet verify` looks for more.

    Attributes: path; format (mep, mdf, mfp); manifest (of a directory: run.json as a dict; else {}); run (number; None
    for a file without an index). FileNotFoundError: there is no such file.

    A run that is being written is read as far as its indexes reached at the opening. In a backlog, segments that were
    drained are not there, and not told of. Compressed MDF records are not read: convert them."""

    def __init__(self, path, damaged=None, check=False):
        self.path, self.format, self.manifest, self.run = os.fspath(path), None, {}, None
        self._damaged, self._check, self._key = damaged or _raise, check, None
        self._paths, self._maps, self._last = [], collections.OrderedDict(), None
        files = self._run_files() if os.path.isdir(self.path) else [(self.path, _index_of(self.path), None)]
        lists = [self._places(*file) for file in files]
        places = np.concatenate(lists) if lists else np.empty(0, _PLACE)
        if any(index for _, index, _ in files):
            order = np.lexsort((np.arange(len(places)), ~places["attempt"], places["mep"]))
            places = places[order]
            places = places[np.append(True, places["mep"][1:] != places["mep"][:-1])] if len(places) else places
        self._all = places
        self._by_first = np.argsort(places["first"], kind="stable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Lets go of the files. A file stays mapped while the caller has a view of it."""
        self._maps.clear()
        self._last = None

    def __len__(self):
        return int(self._all["events"].sum(dtype="u8"))

    def __iter__(self):
        """Iterates over the events, in order of number."""
        for place in self._all:
            try:
                events = self._events(place)
            except Damaged as error:
                self._damaged(error)
                continue
            yield from events

    def event(self, number):
        """Returns the event with a number. KeyError: the recording does not have it."""
        i = int(np.searchsorted(self._all["first"], np.uint64(number), "right", self._by_first)) - 1
        place = self._all[self._by_first[i]] if i >= 0 else None
        if place is None or number - int(place["first"]) >= int(place["events"]):
            raise KeyError(number)
        if self._last is None or self._last[0] != i:
            self._last = (i, list(self._events(place)))
        return self._last[1][number - int(place["first"])]

    def meps(self):
        """Iterates over the MEPs, in order, of a recording of MEPs or MFPs: for work on whole arrays."""
        if self.format == "mdf":
            raise ValueError(f"{self.path} has MDF records, and no MEPs: iterate over its events")
        for place in self._all:
            try:
                mep = self._mep(place)
            except Damaged as error:
                self._damaged(error)
                continue
            yield mep

    # What is in the files.

    def _run_files(self):
        """Returns (segment, index, size or None) of each segment of the directory."""
        path = os.path.join(self.path, "run.json")
        try:
            self.manifest = json.loads(_read(path, _MOST_MANIFEST))
            self.run, self._key = int(self.manifest["run"]), bytes.fromhex(self.manifest["key"])
            listed = [s for b in self.manifest.get("builders") or [] for s in b.get("segments") or []]
            sizes = {str(s["name"]): int(s["bytes"]) for s in listed}
            merged, backlog = self.manifest.get("merged"), self.manifest.get("backlog_bytes")
            merged = str(merged["path"]) if merged else None
        except FileNotFoundError:
            raise Damaged(path, None, "there is no manifest: this is not the directory of a run; "
                          "or ringlet recover makes one of the indexes") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise Damaged(path, None, f"it is not the manifest of a run: {error!r}") from None
        files = {}
        for name in sorted(os.listdir(self.path)):
            found = _NAME.fullmatch(name)
            if found:
                files[name] = tuple(os.path.join(self.path, n) for n in (name, found[1] + ".idx"))
        if merged and not any(name in files for name in sizes):
            return [(merged, merged + ".idx", int(self.manifest["merged"]["bytes"]))]
        for name in sizes:
            if name not in files and not backlog:
                self._damaged(Damaged(os.path.join(self.path, name), None, "the manifest lists it: it is missing"))
        return [(*where, sizes.get(name)) for name, where in files.items()]

    def _places(self, path, index, size):
        """Returns where the MEPs of a file are; without an index, its units (MEP, MFP, record)."""
        number = len(self._paths)
        self._paths.append(path)
        try:
            file = self._map(number)
            if size is not None and len(file) != size:
                self._damaged(Damaged(path, None, f"it has {len(file)} bytes, the manifest says {size}"))
            places = self._indexed(path, index, len(file)) if index else self._scanned(path, file)
        except Damaged as error:
            self._damaged(error)
            return np.empty(0, _PLACE)
        places["file"] = number
        return places

    def _indexed(self, path, index, size):
        """Reads an index: the entries that are sound, and lie in the size bytes of the data."""
        try:
            raw = _read(index, None)
        except FileNotFoundError:
            raise Damaged(index, None, "it is missing: without it nobody knows the events of the segment") from None
        if len(raw) < 64:
            raise Damaged(index, 0, f"it has {len(raw)} bytes, the header of an index has 64")
        magic, version, form, run, _, _, _, key, _, _, crc = _HEADER.unpack_from(raw)
        head = np.frombuffer(raw, "u1", 64).reshape(1, 64)
        if magic != b"RNGLIDX2" or version != 2 or int(_crc_rows(head[:, :60])[0]) != crc:
            raise Damaged(index, 0, "it is not the header of an index of version 2, or its checksum is wrong")
        if self._key not in (None, key):
            raise Damaged(index, 32, f"it is the index of another run, {run}")
        self._set_format(index, FORMATS.get(form))
        self.run, self._key = run, key
        n, torn = divmod(len(raw) - 64, 48)
        is_open = path.endswith(".open")
        if torn and not is_open:
            self._damaged(Damaged(index, 64 + 48 * n, f"{torn} bytes follow the last whole entry"))
        entries = np.frombuffer(raw, _ENTRY, n, 64)
        sums = _crc_rows(np.frombuffer(raw, "u1", 48 * n, 64).reshape(n, 48)[:, :44])
        return self._sound(index, entries, sums, size, is_open)

    def _sound(self, index, entries, sums, size, is_open):
        """Returns the entries that can be used, as places, and tells of the others."""
        good, end = np.zeros(len(entries), bool), 0
        packing, live = self.manifest.get("packing"), self.manifest.get("live")
        out = np.zeros(len(entries), _PLACE)
        for name in ("mep", "first", "offset", "length", "events", "attempt", "crc"):
            out[name] = entries[name]
        before, gap = 0, False
        rows = zip(entries["mep"].tolist(), entries["first"].tolist(), entries["offset"].tolist(),
                   entries["length"].tolist(), entries["events"].tolist(), entries["crc"].tolist(),
                   (sums == entries["sum"]).tolist())
        for i, (mep, first, offset, length, events, crc, whole) in enumerate(rows):
            what = None
            if not whole:
                what = "the checksum of the entry is wrong"
            elif length == 0 or mep >= _MOST_MEPS or first > _END - events or events > 65535:
                what = f"no MEP can be so: number {mep}, {events} events from {first}, {length} bytes"
            elif packing and (events > packing or not live and first != mep * packing):
                what = f"MEP {mep} has {events} events from {first}, and the run has {packing} in a MEP"
            elif offset < end or offset > end and not gap:
                what = f"MEP {mep} begins at byte {offset}, the one before it ends at byte {end}"
            elif offset + length > size:
                what = f"MEP {mep} ends at byte {offset + length}, the data at byte {size}"
                if is_open:  # as a loss of power leaves it
                    break
            if what:
                if is_open and i == len(entries) - 1:
                    break
                self._damaged(Damaged(index, 64 + 48 * i, what))
            else:
                good[i], out["before"][i], out["proven"][i] = True, before, offset == end
                end, before = offset + length, crc
            gap = what is not None
        if not is_open and end != size:
            self._damaged(Damaged(index, None, f"its MEPs end at byte {end}, the data at byte {size}"))
        return out[good]

    def _set_format(self, path, form):
        """Takes the format of a file."""
        if form is None or self.format not in (None, form):
            raise Damaged(path, None, f"its data are {form or 'of no known format'}, others of the run {self.format}")
        self.format = form

    def _scanned(self, path, file):
        """Finds the units of a file without an index; events of MDF are numbered from 0."""
        self._set_format(path, _format_of(path, file))
        rows, at = [], 0
        while at < len(file):
            try:
                if self.format == "mdf":
                    first, events, size = len(rows), 1, _record(path, at, file[at:])[0]
                elif self.format == "mfp":
                    mfps = _group(path, at, file)
                    first, events, size = mfps[0].first, len(mfps[0]), sum(len(p.data) for p in mfps)
                else:
                    mfps, size = _parse_mep(path, at, file[at:])
                    first, events = (mfps[0].first, len(mfps[0])) if mfps else (0, 0)
            except Damaged as error:  # where the next unit begins is not known
                self._damaged(error)
                break
            rows.append((len(rows), first, at, size, events, 1, 0, 0, False, 0))
            at += size
        return np.array(rows, _PLACE)

    # What is in a MEP.

    def _map(self, number):
        """Returns the bytes of a file, mapped."""
        file = self._maps.get(number)
        if file is None:
            while len(self._maps) >= _MOST_OPEN:
                self._maps.popitem(last=False)
            file = self._maps[number] = _mapped(self._paths[number])
        return file

    def _bytes(self, place):
        """Returns path, offset and bytes of a MEP."""
        path, file = self._paths[place["file"]], self._map(int(place["file"]))
        at, length = int(place["offset"]), int(place["length"])
        if at + length > len(file):
            raise Damaged(path, at, f"the MEP has {length} bytes, and the file ends at byte {len(file)}")
        data = file[at : at + length]
        if self._check and place["proven"] and crc32c(data, int(place["before"])) != int(place["crc"]):
            raise Damaged(path, at, f"the bytes of MEP {place['mep']} have been changed")
        return path, at, data

    def _mep(self, place):
        """Reads a MEP."""
        path, at, data = self._bytes(place)
        if self.format == "mep":
            mfps, size = _parse_mep(path, at, data)
        else:
            mfps = _group(path, 0, data, at)
            size = sum(len(p.data) for p in mfps)
        first, events = int(place["first"]), int(place["events"])
        if size != len(data):
            raise Damaged(path, at, f"the MEP has {size} bytes, its entry says {len(data)}")
        for p in mfps:
            if p.first != first or len(p) != events:
                raise Damaged(path, at, f"source {p.source} has {len(p)} events from {p.first}, its entry says "
                              f"{events} from {first}")
        return MEP(int(place["mep"]), first, events, mfps)

    def _events(self, place):
        """Returns an iterable of the events of a MEP, all of whose bytes are checked."""
        if self.format != "mdf":
            return self._mep(place)
        path, base, data = self._bytes(place)
        events, at, first = [], 0, int(place["first"])
        for i in range(int(place["events"])):
            size, begin, ids = _record(path, base + at, data[at:])
            fragments = list(_banks(data[at : at + size], begin, size, first + i, path, base + at))
            events.append(Event(first + i, fragments, *ids))
            at += size
        if at != len(data):
            raise Damaged(path, base + at, f"{len(data) - at} bytes follow the {place['events']} records of the MEP")
        return events


def _raise(error):
    raise error


def _open(path):
    """Opens a plain file. A link, a pipe or a device is not opened."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Damaged(path, None, f"it cannot be opened: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise Damaged(path, None, "it is not a plain file")
    return file


def _read(path, most):
    """Reads a file of at most so many bytes."""
    with os.fdopen(_open(path), "rb") as file:
        raw = file.read() if most is None else file.read(most + 1)
    if most is not None and len(raw) > most:
        raise Damaged(path, None, f"it has more than {most} bytes")
    return raw


def _mapped(path):
    """Maps a file."""
    with os.fdopen(_open(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            return np.empty(0, "u1")
        return np.frombuffer(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ), "u1")


def _index_of(path):
    """Returns the path of the index of a segment or of a merged file, or None if there is none."""
    found = _NAME.fullmatch(os.path.basename(path))
    beside = [os.path.join(os.path.dirname(path), found[1] + ".idx")] if found else []
    return next((p for p in [*beside, path + ".idx"] if os.path.exists(p)), None)


def _format_of(path, file):
    """Returns the format of a file: by its name, else by its first bytes."""
    ending = path.rsplit(".", 1)[-1]
    if ending in FORMATS.values():
        return ending
    magic = int.from_bytes(file[:2].tobytes(), "little")
    if magic in (_MFP, _WIDE, _WORDED):
        return "mfp"
    if magic == _MEP:
        return "mep"
    if len(file) >= 12 and len(set(struct.unpack_from("<III", file))) == 1:
        return "mdf"
    raise Damaged(path, 0, "it does not begin as a MEP, an MFP or an MDF record does")


def _parse_mep(path, base, data):
    """Returns the MFPs of the MEP at the start of data, and its bytes."""
    if len(data) < 8:
        raise Damaged(path, base, f"{len(data)} bytes are left, the header of a MEP has 8")
    magic, m, words = struct.unpack_from("<HHI", data)
    table, size = 8 + (2 * m + 3 & ~3), 4 * words
    if magic != _MEP:
        raise Damaged(path, base, f"0x{magic:04X} is not the magic of a MEP")
    if size < table + 4 * m or size > len(data):
        raise Damaged(path, base + 4, f"the MEP has {size} bytes, its header {table + 4 * m}, and {len(data)} are left")
    sources = data[8 : 8 + 2 * m].view("<u2").tolist()
    mfps, end = [], table + 4 * m
    for i, word in enumerate(data[table : table + 4 * m].view("<u4").tolist()):
        if 4 * word < end or 4 * word > size:
            raise Damaged(path, base + table + 4 * i, f"MFP {i} begins at byte {4 * word}, not within {end} to {size}")
        p = MFP(path, base + 4 * word, data[4 * word : size])
        if p.source != sources[i] or i and sources[i] <= sources[i - 1]:
            raise Damaged(path, base + 8 + 2 * i, f"MFP {i} is of source {p.source}, the table says {sources[i]}, and "
                          "sources ascend")
        if mfps and (p.first, len(p)) != (mfps[0].first, len(mfps[0])):
            raise Damaged(path, base + 4 * word, f"source {p.source} has other events than source {mfps[0].source}")
        mfps.append(p)
        end = 4 * word + len(p.data)
    return mfps, size


def _group(path, at, data, base=0):
    """Returns the MFPs from at on that are of the same events, by ascending source; base is the offset of data."""
    mfps = [MFP(path, base + at, data[at:])]
    at += len(mfps[0].data)
    while at < len(data):
        p = MFP(path, base + at, data[at:])
        if (p.first, len(p)) != (mfps[0].first, len(mfps[0])) or p.source <= mfps[-1].source:
            break
        mfps.append(p)
        at += len(p.data)
    return mfps


def _record(path, base, data):
    """Returns the bytes of the MDF record at the start of data, where its banks begin, and run, orbit and bunch."""
    if len(data) < 20:
        raise Damaged(path, base, f"{len(data)} bytes are left, the header of an MDF record has 20")
    size, second, third, _, packed, version, kind, _ = _MDF_HEADER.unpack_from(data)
    begin = 20 + 4 * (version & 15)
    if not size == second == third:
        raise Damaged(path, base, f"the three sizes {size}, {second} and {third} of the record disagree")
    if size < begin or size > len(data) or version >> 4 == 3 and begin < 48:
        raise Damaged(path, base, f"the record has {size} bytes, its header {begin}, and {len(data)} are left")
    if packed & 15 or kind != 1:
        raise Damaged(path, base + 16, "the record is compressed, or has no raw banks: ringlet-convert may read it")
    ids = struct.unpack_from("<III", data, 36) if version >> 4 == 3 else (None, None, None)
    return size, begin, ids


def _banks(data, at, end, event, path, base=0):
    """Iterates over the raw banks in data from at to end."""
    while at < end:
        if end - at < 8:
            raise Damaged(path, base + at, f"{end - at} bytes are left, the header of a bank has 8")
        magic, length, kind, version, source = struct.unpack_from("<HHBBH", data, at)
        if magic != _BANK or length < 8 or at + (length + 3 & ~3) > end:
            raise Damaged(path, base + at, f"no bank: magic 0x{magic:04X}, length {length}, {end - at} bytes are left")
        if kind == _PIECE:
            whole, at = _chain(data, at, end, event, path, base)
            yield whole
            continue
        yield Fragment(event, source, kind, version, data[at + 8 : at + length])
        at += length + 3 & ~3


def _chain(data, at, end, event, path, base):
    """Joins the chain of banks that begins in data at a place, and returns the fragment and the place behind it."""
    begin, parts, source, left = at, [], None, 8
    while left > 0:
        magic, length, kind, version, from_ = struct.unpack_from("<HHBBH", data, at) if end - at >= 8 else (0,) * 5
        first = source is None
        if first and length >= 16:
            source = from_
            size, what, more, zero = struct.unpack_from("<IBBH", data, at + 8)
            left += size
            if zero or not 65527 < size <= 1 << 30 or size > end - at:
                break
        if (magic, kind, version, from_) != (_BANK, _PIECE, 0 if first else 1, source) or (
                length != 8 + min(left, 65524) or at + (length + 3 & ~3) > end):
            break
        parts.append(data[at + 16 if first else at + 8 : at + length])
        left -= length - 8
        at += length + 3 & ~3
    else:
        return Fragment(event, source, what, more, np.concatenate(parts)), at
    raise Damaged(path, base + begin, "a chain of banks is not whole")


# CRC-32C (polynomial 0x82F63B78), many rows of bytes at once.


def _table():
    crc = np.arange(256, dtype="u4")
    for _ in range(8):
        crc = np.where(crc & 1, crc >> 1 ^ np.uint32(0x82F63B78), crc >> 1).astype("u4")
    return crc


_TABLE = _table()
_ROW = 256  # bytes


def _step(crc, columns):
    """Takes rows of bytes, given as columns, into their checksums."""
    for column in columns:
        crc = _TABLE[(crc ^ column) & 0xFF] ^ crc >> 8
    return crc


def _crc_rows(rows):
    """Returns the CRC-32C of each row."""
    return ~_step(np.full(len(rows), 0xFFFFFFFF, "u4"), np.ascontiguousarray(rows.T))


def crc32c(data, before=0):
    """Returns the CRC-32C of bytes (NumPy u8) that follow bytes with the checksum before."""
    crc, count = np.array([~before & 0xFFFFFFFF], "u4"), len(data) // _ROW
    if count > 1:  # the checksums of rows are joined in pairs; rows of zeros in front make their number a power of 2
        sums = np.zeros(count, "u4")
        sums[0], pairs = crc[0], _pairs()
        for column in np.ascontiguousarray(data[: count * _ROW].view("<u2").reshape(count, _ROW // 2).T):
            sums = pairs[(sums ^ column) & 0xFFFF] ^ sums >> 16
        sums, level = np.append(np.zeros((1 << (count - 1).bit_length()) - count, "u4"), sums), 0
        while len(sums) > 1:
            sums, level = _apply(_shift(level), sums[0::2]) ^ sums[1::2], level + 1
        crc, data = sums, data[count * _ROW :]
    return int(~_step(crc, data)[0])


@functools.lru_cache(None)
def _pairs():
    """Returns the table for two bytes at once."""
    pair = np.arange(1 << 16, dtype="u4")
    return _step(pair, [np.uint32(0), np.uint32(0)])


@functools.lru_cache(None)
def _shift(level):
    """Returns what 2^level rows of zero bytes make of each value of each of the 4 bytes of a checksum."""
    sums = np.arange(256, dtype="u4") << (8 * np.arange(4, dtype="u4"))[:, None]
    if level == 0:
        return _step(sums, np.zeros(_ROW, "u1"))
    half = _shift(level - 1)
    return _apply(half, _apply(half, sums))


def _apply(shift, sums):
    return shift[0][sums & 255] ^ shift[1][sums >> 8 & 255] ^ shift[2][sums >> 16 & 255] ^ shift[3][sums >> 24]
