/* follow ADDRESS: follows one run; it is not ready when it is asked first. It sends 100 events while the run goes on, and one
 * more at its end. It prints what it hears. */
#include "ringlet_stream.h"

int main(int argc, char **argv) {
    static const char *const names[] = {"", "prepare", "begin", "pause", "resume", "end"};
    ringlet_stream s;
    ringlet_stream_command c;
    ringlet_stream_settings set = ringlet_stream_defaults();
    set.name = "follower";
    set.follow = 1;
    if (argc != 2 || ringlet_stream_open(&s, argv[1], &set, 60000))
        return fprintf(stderr, "%s\n", argc == 2 ? ringlet_stream_error(&s) : "ADDRESS"), 1;
    int error = 0;
    uint64_t event = 0;
    while (!error && ringlet_stream_next_command(&s, &c, 60000) == 1) {
        printf("%s %" PRIu64 " %u %s %zu %.3s\n", c.kind <= 5 ? names[c.kind] : "?", c.run, c.source, c.name, c.config_size,
               c.config == NULL ? "" : c.config);
        fflush(stdout);
        if (c.kind == RINGLET_STREAM_PREPARE)
            error = ringlet_stream_answer(&s, &c, "no gas");
        for (int i = 0; c.kind == RINGLET_STREAM_BEGIN && !error && i < 100; i++)
            error = ringlet_stream_send(&s, event++, "fragment", 8);
        if (c.kind == RINGLET_STREAM_END) {
            error = ringlet_stream_send(&s, event++, "fragment", 8);
            if (!error)
                error = ringlet_stream_answer(&s, &c, NULL);
            if (!error)
                error = ringlet_stream_close(&s, 60000);
            break;
        }
        if (!error)
            error = ringlet_stream_answer(&s, &c, NULL);
    }
    if (error)
        fprintf(stderr, "%s\n", ringlet_stream_error(&s));
    ringlet_stream_abort(&s);
    return error != 0;
}
