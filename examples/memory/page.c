/* page DOOR SEGMENT FILE NOTICES: keeps a page for the browser, FILE, that shows the first word of a segment. It is
 * written at each notice of the word's page, NOTICES times; 0: for ever. */
#include "ringlet_memory.h"
#include <stdlib.h>

static int page_write(const char *file, uint64_t word) {
    char fresh[512];
    snprintf(fresh, sizeof fresh, "%s.part", file);
    FILE *f = fopen(fresh, "w");
    if (f == NULL || fprintf(f, "<meta http-equiv=refresh content=1><h1>%" PRIu64 "</h1>", word) < 0)
        return -1;
    return fclose(f) == 0 ? rename(fresh, file) : -1;
}

int main(int argc, char **argv) {
    ringlet_door door;
    uint32_t segment = 0;
    uint64_t word = 0, notices = 0;
    int error = argc == 5 ? ringlet_door_open(&door, argv[1], 10000) : RINGLET_DOOR_NONE;
    if (!error)
        error = ringlet_door_import(&door, argv[2], &segment);
    for (long i = 0; !error && (i < atol(argv[4]) || atol(argv[4]) == 0); i++) {
        error = ringlet_door_await(&door, segment, 0, 0, &notices);
        if (!error)
            error = ringlet_door_get(&door, segment, 0, &word, 8);
        if (!error && page_write(argv[3], word) != 0)
            return perror(argv[3]), 1;
    }
    if (error)
        return fprintf(stderr, "%s\n", ringlet_door_error(&door, error)), 1;
    ringlet_door_close(&door);
    return 0;
}
