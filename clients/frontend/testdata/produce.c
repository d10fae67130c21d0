/* A producer for tests: produce RING EVENTS SIZE [drop]. Fragment e has 8 + (e * 7919) % (SIZE - 7) bytes, or SIZE where
 * SIZE is 1024: the event's number and then its lowest byte. It says the event that it begins at, and, with drop, that all are put in.
 * EVENTS 0: for ever. C or C++. */
#include "ringlet.h"
#include <stdlib.h>

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    uint64_t events = strtoull(argv[2], NULL, 10);
    size_t largest = strtoul(argv[3], NULL, 10);
    ringlet_ring ring;
    int error = ringlet_ring_open_as(&ring, argv[1], "produce", 20000);
    if (error != RINGLET_OK) {
        fprintf(stderr, "open: %s\n", ringlet_ring_error(error));
        return 1;
    }
    ring.drop = argc > 4;
    ring.type = 7;
    printf("%" PRIu64 "\n", ringlet_ring_next(&ring));
    fflush(stdout);
    static unsigned char data[4000000];
    for (uint64_t e = ringlet_ring_next(&ring); events == 0 || e < events; e++) {
        size_t size = largest == 1024 ? 1024 : 8 + (size_t)(e * 7919 % (largest - 7));
        if (largest != 1024)
            memset(data, (int)(e & 255), size);
        memcpy(data, &e, 8);
        if ((error = ringlet_ring_put(&ring, e, data, size)) < 0) {
            fprintf(stderr, "put: %s\n", ringlet_ring_error(error));
            return 1;
        }
    }
    uint64_t dropped = ringlet_ring_dropped(&ring);
    if (ring.drop)
        puts("all put"), fflush(stdout);
    if ((error = ringlet_ring_end(&ring)) != RINGLET_OK) {
        fprintf(stderr, "end: %s\n", ringlet_ring_error(error));
        return 1;
    }
    printf("dropped %" PRIu64 " safe %" PRIu64 "\n", dropped, ringlet_ring_safe(&ring));
    return 0;
}
