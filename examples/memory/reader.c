/* reader DOOR SEGMENT RECORDS: takes records out of a ring buffer (ring.h) in the memory of any host, and prints the
 * last one. */
#include "ring.h"

int main(int argc, char **argv) {
    ringlet_door door;
    uint32_t ring = 0;
    uint64_t written = 0, notices = 0, n = argc == 4 ? strtoull(argv[3], NULL, 10) : 0;
    char record[RING_SIZE] = "";
    int error = ring_open(&door, argc, argv, &ring);
    for (uint64_t i = 0; i < n && !error; i++) {
        while (!error && i >= written) {
            if (!(error = ringlet_door_get(&door, ring, RING_WRITTEN, &written, 8)) && i >= written)
                error = ringlet_door_await(&door, ring, 0, 10000, &notices);
        }
        uint64_t taken = i + 1;
        if (!error)
            error = ringlet_door_get(&door, ring, RING_RECORDS + i % RING_PLACES * RING_SIZE, record, sizeof record);
        if (!error)
            error = ringlet_door_put(&door, ring, RING_READ, &taken, 8);
        if (!error)
            error = ringlet_door_notify(&door, ring, 0, NULL);
    }
    if (!error)
        printf("%.*s\n", RING_SIZE, record);
    return ring_end(&door, error);
}
