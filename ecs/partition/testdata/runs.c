/* runs ADDRESS PREFIX: follows one run after the other, and sends a fragment each millisecond while one goes on. It prints
 * what it hears, behind PREFIX. */
#include "ringlet_stream.h"

static int follow(ringlet_stream *s, const char *prefix) {
    static const char *const names[] = {"", "prepare", "begin", "pause", "resume", "end"};
    ringlet_stream_command c;
    int sends = 0;
    uint64_t event = s->next, run = 0;
    for (;;) {
        int heard = ringlet_stream_next_command(s, &c, 1);
        if (heard < 0)
            return heard;
        if (heard == 0) {
            int error = sends ? ringlet_stream_send(s, event++, "fragment", 8) : 0;
            if (error != 0)
                return error;
            continue;
        }
        char line[100];
        int n = snprintf(line, sizeof line, "%s%s %" PRIu64 "\n", prefix, c.kind <= 5 ? names[c.kind] : "?", c.run);
        if (write(1, line, (size_t)n) != n) /* one write, since others print there, too */
            return 1;
        sends = c.kind == RINGLET_STREAM_BEGIN || c.kind == RINGLET_STREAM_RESUME;
        if (c.kind == RINGLET_STREAM_PREPARE && (c.run != run || event < s->next)) /* each run counts anew */
            event = s->next, run = c.run;
        int error = ringlet_stream_answer(s, &c, NULL);
        if (error != 0)
            return error;
        if (c.kind == RINGLET_STREAM_END)
            return ringlet_stream_close(s, 60000);
    }
}

int main(int argc, char **argv) {
    ringlet_stream s;
    ringlet_stream_settings set = ringlet_stream_defaults();
    set.follow = 1;
    while (argc == 3) {
        int error = ringlet_stream_open(&s, argv[1], &set, -1);
        if (error == 0)
            error = follow(&s, argv[2]);
        if (error != 0)
            fprintf(stderr, "%s\n", ringlet_stream_error(&s));
        ringlet_stream_abort(&s);
    }
    return 2;
}
