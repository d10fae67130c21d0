"""Runs a front-end that is killed at random times, and starts it again until it ends by itself.

    python3 mortal.py [--once] SEED EVERY LOG PROGRAM…

EVERY is the mean time to the next kill -9, seconds. Each kill is a line of LOG, so a program that is run by Ringlet
(exec:, with --once: Ringlet starts it again) has other times each time.
"""

import random
import signal
import subprocess
import sys

signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # which takes the front-end along
args = sys.argv[1:]
once = args[0] == "--once"
seed, every, log = args[once], float(args[once + 1]), args[once + 2]
while True:
    with open(log, "a+") as file:
        file.seek(0)
        deaths = len(file.readlines())
    after = random.Random("%s %s %d" % (seed, log, deaths)).expovariate(1 / every)
    child = subprocess.Popen(args[once + 3:])
    try:
        sys.exit(child.wait(after))
    except subprocess.TimeoutExpired:
        child.kill()
    except BaseException:
        child.kill()
        raise
    if child.wait() == 0:
        sys.exit(0)
    with open(log, "a") as file:
        file.write("process %d after %.3f s\n" % (child.pid, after))
    if once:
        sys.exit(1)
