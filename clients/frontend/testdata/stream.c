/* A front-end for tests: stream ADDRESS FIRST EVENTS SIZE CLOSE_MS. Fragment e is of SIZE bytes: its number, and then its
 * lowest byte. It says where it begins, what was given up, and how it ended. FIRST -1: where the readout unit says. C or
 * C++. */
#include "ringlet_stream.h"

static void told(void *context, const ringlet_stream_given_up *g) {
    (void)context;
    printf("given up %" PRIu64 " %" PRIu64 " %u %u %s\n", g->from, g->to, g->reason, g->count, g->sentence);
    fflush(stdout);
}

int main(int argc, char **argv) {
    static unsigned char data[65536];
    ringlet_stream s;
    ringlet_stream_settings set = ringlet_stream_defaults();
    if (argc != 6)
        return 2;
    uint64_t events = strtoull(argv[3], NULL, 10);
    size_t size = strtoul(argv[4], NULL, 10);
    set.name = "telescope";
    set.type = 7;
    set.given_up = told;
    set.keep = size * events > 1 << 20 ? 64 << 20 : 1 << 17;
    int error = ringlet_stream_open(&s, argv[1], &set, 10000);
    if (!error)
        printf("next %" PRIu64 " run %" PRIu64 "\n", s.next, s.run), fflush(stdout);
    uint64_t first = argv[2][0] == '-' ? s.next : strtoull(argv[2], NULL, 10);
    for (uint64_t e = first; !error && e < first + events; e++) {
        memset(data, (int)(e & 255), size);
        memcpy(data, &e, 8);
        error = ringlet_stream_send(&s, e, data, size);
    }
    if (!error)
        error = ringlet_stream_close(&s, atoi(argv[5]));
    if (error < 0)
        return printf("error %d: %s\n", error, ringlet_stream_error(&s)), ringlet_stream_abort(&s), 1;
    printf("safe %" PRIu64 " given up %" PRIu64 " connected %" PRIu64 "\n", s.safe, s.given_up, s.connected);
    if (error)
        puts(ringlet_stream_error(&s));
    return 0;
}
