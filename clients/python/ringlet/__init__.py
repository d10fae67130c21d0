"""Front-ends of Ringlet in Python: shm fills a ring in shared memory."""
