"""Programs beside Ringlet: ringlet.shm and ringlet.stream send fragments of a front-end, ringlet.output reads built MEPs,
ringlet.filter judges built events, ringlet.memory uses remote memory, ringlet.recording reads recordings (with NumPy)."""
