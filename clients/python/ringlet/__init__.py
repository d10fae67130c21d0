"""Front-ends of Ringlet: ringlet.shm fills a ring in shared memory, ringlet.stream sends over a stream."""
