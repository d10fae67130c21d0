/* Sends events of 3 MB, less their number, and checks that a larger fragment is refused. */
#include "ringlet_stream.h"

int main(int argc, char **argv) {
    static unsigned char data[3000001];
    static ringlet_stream s;
    if (argc < 3 || ringlet_stream_open(&s, argv[1], NULL, 60000) != 0)
        return fprintf(stderr, "open: %s\n", ringlet_stream_error(&s)), 1;
    if (s.largest != 3000000 || ringlet_stream_send(&s, 0, data, sizeof data) != RINGLET_STREAM_TOO_LARGE)
        return fprintf(stderr, "a fragment that is too large: %s\n", ringlet_stream_error(&s)), 1;
    for (uint64_t e = 0; e < strtoull(argv[2], NULL, 10); e++) {
        memset(data, (int)((e * 7 + 13) & 255), sizeof data);
        if (ringlet_stream_send(&s, e, data, 3000000 - e) != 0)
            return fprintf(stderr, "send: %s\n", ringlet_stream_error(&s)), 1;
    }
    if (ringlet_stream_close(&s, 60000) != 0)
        return fprintf(stderr, "close: %s\n", ringlet_stream_error(&s)), 1;
    return 0;
}
