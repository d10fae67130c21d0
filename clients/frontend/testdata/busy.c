/* busy ADDRESS: follows one run. It prints each change of the readout unit's being busy, and says the same of itself. */
#include "ringlet_stream.h"

int main(int argc, char **argv) {
    ringlet_stream s;
    ringlet_stream_command c;
    ringlet_stream_settings set = ringlet_stream_defaults();
    set.follow = 1;
    if (argc != 2 || ringlet_stream_open(&s, argv[1], &set, 60000))
        return fprintf(stderr, "%s\n", argc == 2 ? ringlet_stream_error(&s) : "ADDRESS"), 1;
    int error = 0;
    unsigned busy = 0;
    for (c.kind = 0; !error && c.kind != RINGLET_STREAM_END;) {
        error = ringlet_stream_poll(&s, 10);
        if (!error && s.busy != busy) {
            busy = s.busy;
            printf("busy %u%s\n", busy, (busy & RINGLET_STREAM_BUSY_FRONTEND) != 0 ? " front-end" : "");
            fflush(stdout);
            error = ringlet_stream_set_busy(&s, busy != 0);
        }
        if (!error && ringlet_stream_next_command(&s, &c, 0) == 1)
            error = ringlet_stream_answer(&s, &c, NULL);
    }
    if (!error)
        error = ringlet_stream_close(&s, 60000);
    if (error)
        fprintf(stderr, "%s\n", ringlet_stream_error(&s));
    ringlet_stream_abort(&s);
    return error != 0;
}
