/* followring NAME: what follow.c does, in a ring. */
#include "ringlet.h"

int main(int argc, char **argv) {
    static const char *const names[] = {"", "prepare", "begin", "pause", "resume", "end"};
    ringlet_ring r;
    ringlet_ring_command c;
    int error = ringlet_ring_follow_as(&r, argv[argc - 1], "follower", 60000);
    uint64_t event = 0;
    while (!error && ringlet_ring_next_command(&r, &c, 60000) == 1) {
        printf("%s %" PRIu64 " %u %s\n", c.kind <= 5 ? names[c.kind] : "?", c.run, c.source, c.name);
        fflush(stdout);
        if (c.kind == RINGLET_PREPARE) {
            error = ringlet_ring_answer(&r, &c, "no gas");
            ringlet__pause(200); /* the readout unit looks at the last answer alone */
        }
        for (int i = 0; (c.kind == RINGLET_BEGIN && i < 100) || (c.kind == RINGLET_RUN_ENDS && i < 1); i++)
            if (!error)
                error = ringlet_ring_put(&r, event++, "fragment", 8);
        if (!error)
            error = ringlet_ring_answer(&r, &c, NULL);
        if (c.kind == RINGLET_RUN_ENDS)
            break;
    }
    if (error)
        fprintf(stderr, "%s\n", ringlet_ring_error(error));
    ringlet_ring_close(&r);
    return error != 0;
}
