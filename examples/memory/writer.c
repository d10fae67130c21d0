/* writer DOOR SEGMENT RECORDS: puts records into a ring buffer (ring.h) in the memory of any host. */
#include "ring.h"

int main(int argc, char **argv) {
    ringlet_door door;
    uint32_t ring = 0;
    uint64_t taken = 0, notices = 0, n = argc == 4 ? strtoull(argv[3], NULL, 10) : 0;
    int error = ring_open(&door, argc, argv, &ring);
    for (uint64_t i = 0; i < n && !error; i++) {
        while (!error && i - taken >= RING_PLACES) { /* full: the reader notifies the page, too */
            if (!(error = ringlet_door_get(&door, ring, RING_READ, &taken, 8)) && i - taken >= RING_PLACES)
                error = ringlet_door_await(&door, ring, 0, 10000, &notices);
        }
        char record[RING_SIZE] = "";
        snprintf(record, sizeof record, "record %" PRIu64, i);
        uint64_t written = i + 1;
        if (!error)
            error = ringlet_door_put(&door, ring, RING_RECORDS + i % RING_PLACES * RING_SIZE, record, sizeof record);
        if (!error)
            error = ringlet_door_put(&door, ring, RING_WRITTEN, &written, 8);
        if (!error)
            error = ringlet_door_notify(&door, ring, 0, NULL);
    }
    return ring_end(&door, error);
}
