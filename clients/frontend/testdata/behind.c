/* behind ADDRESS: sends one event, hears of the end of the run, and closes when the readout unit is gone, perhaps. */
#include "ringlet_stream.h"

int main(int argc, char **argv) {
    ringlet_stream s;
    ringlet_stream_command c;
    ringlet_stream_settings set = ringlet_stream_defaults();
    set.follow = 1;
    if (argc != 2 || ringlet_stream_open(&s, argv[1], &set, 60000))
        return fprintf(stderr, "%s\n", argc == 2 ? ringlet_stream_error(&s) : "ADDRESS"), 1;
    int error = 0;
    for (memset(&c, 0, sizeof c); !error && c.kind != RINGLET_STREAM_END && ringlet_stream_next_command(&s, &c, 60000) == 1;) {
        if (c.kind == RINGLET_STREAM_BEGIN)
            error = ringlet_stream_send(&s, 0, "fragment", 8);
        if (!error)
            error = ringlet_stream_answer(&s, &c, NULL);
    }
    if (error || ringlet_stream_close(&s, 10000))
        fprintf(stderr, "%s\n", ringlet_stream_error(&s)), error = 1;
    ringlet_stream_abort(&s);
    return error;
}
