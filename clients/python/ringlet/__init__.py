"""Programs beside Ringlet: ringlet.shm and ringlet.stream send fragments of a front-end, ringlet.output reads built MEPs,
ringlet.filter judges built events, ringlet.memory uses remote memory, ringlet.slowdata sends slow data, ringlet.recording reads recordings (with NumPy)."""
