"""Rates of large fragments: whole runs, from a front-end to MEPs in the page cache, beside a bare socket and a copy.

    python3 rates.py [--rounds 5] [--bytes 1000000000] [--other TREE]

Each round has all rows, one after the other; of each row the median over the rounds is told, with the least and the most.
CPU s per GB are those of all processes, front-end and control too, and bear other programs on the machine better than
Gbit/s. With --other the runs are made with program and clients of another tree, too, by turns. Needs cc.
"""

import argparse
import atexit
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

here = os.path.dirname(os.path.abspath(__file__))
top = os.path.join(here, "..", "..")
SIZES = {"1 kB": 1000, "3 MB": 3000000, "100 MB": 100000000}

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--bytes", type=int, default=1000000000)
parser.add_argument("--other", help="tree with bin/ringlet and clients")
parser.add_argument("--sizes", default=",".join(SIZES))
parser.add_argument("--only", default="", help="rows whose name has this word")
args = parser.parse_args()
work = tempfile.mkdtemp(prefix="rates-")
atexit.register(shutil.rmtree, work)
trees = {"": top} if args.other is None else {"": top, ", other": os.path.abspath(args.other)}
for word, tree in trees.items():
    subprocess.check_call([os.environ.get("CC", "cc"), "-std=c11", "-O2", "-I" + os.path.join(tree, "clients", "c"),
                           os.path.join(here, "sizes.c"), "-o", os.path.join(work, "sizes" + word)])
sizes = os.path.join(work, "sizes")


def cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def bare(how, size, events):
    begin = time.monotonic()
    subprocess.check_call([sizes, "bare", how, str(size), str(events)])
    return time.monotonic() - begin


def run(tree, sender, kind, size, events):
    """A run with one front-end; its time from the first event to the last."""
    address = "shm:rates-%d" % os.getpid() if kind == "shm" else "tcp:127.0.0.1:%d" % free_port()
    declared = "?max=%d" % size if size > 65535 else ""
    out = os.path.join(work, "out")
    ringlet = subprocess.Popen([os.path.join(tree, "bin", "ringlet"), "run", "--nodes", "1", "--input", address + declared,
                                "--format", "mep", "--output", out + "/", "--json"], stdout=subprocess.PIPE)
    if subprocess.call([*sender, address, str(size), str(events)], env={
            **os.environ, "PYTHONPATH": os.path.join(tree, "clients", "python")}):
        ringlet.terminate()
    report = json.loads(ringlet.communicate()[0])
    if ringlet.returncode or report["events_built"] != events:
        sys.exit("%s of %d bytes: %s" % (address, size, json.dumps(report)[:2000]))
    shutil.rmtree(out)
    return report.get("events_s") or report["duration_s"]  # which older programs have


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


rows = {}
for size in args.sizes.split(","):
    n = SIZES[size]
    for how in ("copy", "socket"):
        rows["bare %s, %s" % (how, size)] = (bare, (how,), n)
    for word, tree in trees.items():
        for kind in ("shm", "tcp"):
            rows["C, %s, %s%s" % (kind, size, word)] = (run, (tree, [sizes + word, "rate"], kind), n)
        python = [sys.executable, os.path.join(here, "rate.py")]
        rows["Python, tcp, %s%s" % (size, word)] = (run, (tree, python, "tcp"), n)
figures = {name: ([], []) for name in rows if args.only in name}
for n in range(args.rounds):
    for name, (function, arguments, size) in rows.items():
        if name not in figures:
            continue
        events = max(4, args.bytes // size)
        before = cpu()
        seconds = function(*arguments, size, events)
        figures[name][0].append(8e-9 * events * size / seconds)
        figures[name][1].append((cpu() - before) / (events * size / 1e9))
        print("%d %-32s %7.2f Gbit/s, %7.2f CPU s per GB" % (n, name, figures[name][0][-1], figures[name][1][-1]),
              flush=True)
print("%-32s %24s %24s" % ("", "Gbit/s", "CPU s per GB"))
for name, columns in figures.items():
    if columns[0]:
        print("%-32s %s" % (name, " ".join("%9.2f (%5.2f to %5.2f)" % (statistics.median(c), min(c), max(c))
                                           for c in columns)), flush=True)
