/* The ring buffer of writer.c, writer.py, reader.c and reader.py: a segment of two pages. The first has a word with the
 * number of records written, and at 8 one with the number read; the second has 64 records of 64 bytes. */
#include "ringlet_memory.h"
#include <stdlib.h>

enum { RING_WRITTEN = 0, RING_READ = 8, RING_RECORDS = 4096, RING_SIZE = 64, RING_PLACES = 64 };

static int ring_open(ringlet_door *door, int argc, char **argv, uint32_t *ring) {
    int error = argc == 4 ? ringlet_door_open(door, argv[1], 10000) : RINGLET_DOOR_NONE;
    return error ? error : ringlet_door_import(door, argv[2], ring);
}

static int ring_end(ringlet_door *door, int error) {
    if (error)
        fprintf(stderr, "%s\n", ringlet_door_error(door, error));
    else
        ringlet_door_close(door);
    return error != 0;
}
