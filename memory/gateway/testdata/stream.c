/* stream DOOR DESCRIPTORS LENGTH STRIDE TOGETHER: writes of so many bytes, STRIDE apart in the segment "words" and in
 * the data area, so many started by one store. It prints how many ns they took, all of them. */
#include "ringlet_memory.h"
#include <stdlib.h>

int main(int argc, char **argv) {
    ringlet_door door;
    uint32_t words;
    uint64_t size, ticket = 0;
    if (argc != 6)
        return 2;
    uint64_t n = strtoull(argv[2], NULL, 10), length = strtoull(argv[3], NULL, 10);
    uint64_t stride = strtoull(argv[4], NULL, 10), together = strtoull(argv[5], NULL, 10);
    int error = ringlet_door_open(&door, argv[1], 20000);
    if (!error)
        error = ringlet_door_import(&door, "words@n0", &words);
    if (!error)
        error = ringlet_door_size(&door, words, &size);
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    uint64_t places = (size < door.size ? size : door.size) / stride;
    for (uint64_t i = 0, at = 0; i < n && !error; i++, at = at + 1 < places ? at + 1 : 0) {
        ringlet_request r = {.operation = RINGLET_WRITE, .segment = words, .remote = at * stride,
                             .local = (uint32_t)(at * stride), .length = (uint32_t)length};
        error = ringlet_door_prepare(&door, &r, &ticket);
        if (i % together == together - 1)
            ringlet_door_start(&door);
    }
    if (!error)
        error = ringlet_door_wait(&door, ticket, -1, NULL);
    clock_gettime(CLOCK_MONOTONIC, &b);
    if (error) {
        printf("%s\n", ringlet_door_error(&door, error));
        return 1;
    }
    ringlet_door_close(&door);
    printf("%" PRIu64 "\n", (uint64_t)(b.tv_sec - a.tv_sec) * 1000000000 + (uint64_t)b.tv_nsec - (uint64_t)a.tv_nsec);
    return 0;
}
