/* counter DOOR SEGMENT TIMES: counts with the first word of a segment, together with whoever else does. */
#include "ringlet_memory.h"
#include <stdlib.h>

int main(int argc, char **argv) {
    ringlet_door door;
    uint32_t count = 0;
    uint64_t before = 0;
    int error = argc == 4 ? ringlet_door_open(&door, argv[1], 10000) : RINGLET_DOOR_NONE;
    if (!error)
        error = ringlet_door_import(&door, argv[2], &count);
    for (long i = argc == 4 ? atol(argv[3]) : 0; i > 0 && !error; i--)
        error = ringlet_door_add(&door, count, 0, 1, &before);
    if (error)
        return fprintf(stderr, "%s\n", ringlet_door_error(&door, error)), 1;
    printf("%" PRIu64 "\n", before + 1);
    ringlet_door_close(&door);
    return 0;
}
