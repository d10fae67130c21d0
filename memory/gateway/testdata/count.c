/* count DOOR: adds 1 to the word 0 of the segment "words", which is open for all, until it is killed; a wait for what
 * never comes is under way all along. */
#include "ringlet_memory.h"

int main(int argc, char **argv) {
    ringlet_door door;
    uint32_t words = 0;
    uint64_t n;
    int error = argc == 2 ? ringlet_door_open(&door, argv[1], 20000) : RINGLET_DOOR_NONE;
    if (!error)
        error = ringlet_door_import(&door, "words@n0", &words);
    ringlet_request wait = {.operation = RINGLET_WAIT, .segment = words, .remote = 4096, .a = UINT64_MAX};
    if (!error)
        error = ringlet_door_prepare(&door, &wait, NULL);
    while (!error)
        error = ringlet_door_add(&door, words, 0, 1, &n);
    printf("%s", ringlet_door_error(&door, error));
    return 1;
}
