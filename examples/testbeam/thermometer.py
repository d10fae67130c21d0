"""A sender of slow data: a temperature and a voltage, once a second, until it is killed or the values are for no run.

    python3 thermometer.py ADDRESS
"""

import sys
import time

from ringlet import slowdata

with slowdata.Sender(sys.argv[1]) as sender:
    for second in range(100000):
        for name, value in (("hall.temp", 21 + 0.1 * (second % 7)), ("camera.voltage", 48 - 0.01 * (second % 5))):
            try:
                sender.send(name, round(value, 2))
            except slowdata.Unkept as why:  # between runs: the control remembers the last value
                print("%s: %s" % (name, why), flush=True)
        time.sleep(1)
