/* A front-end for tests: words ADDRESS EVENTS [full]. Events with an odd number have a trigger number, and each second pair has a
 * time stamp. C or C++. */
#include "ringlet_stream.h"

int main(int argc, char **argv) {
    static unsigned char data[65535];
    ringlet_stream s;
    ringlet_stream_settings set = ringlet_stream_defaults();
    int full = argc == 4; /* fragments as large as they may be, with both words, and the least memory for them */
    set.keep = full ? 36 + 65535 : 1 << 17;
    if (argc != 3 && !full)
        return 2;
    int error = ringlet_stream_open(&s, argv[1], &set, 60000);
    for (uint64_t e = 0; !error && e < strtoull(argv[2], NULL, 10); e++) {
        ringlet_stream_words words;
        memset(&words, 0, sizeof words);
        if (full || e & 1)
            words.has_trigger = 1, words.trigger = 3 * e;
        if (full || e & 2)
            words.has_stamp = 1, words.stamp = 7 * e + ((uint64_t)1 << 60);
        memset(data, (int)(e & 255), sizeof data);
        error = ringlet_stream_send_with(&s, e, &words, data, full ? sizeof data : e % 100, -1);
    }
    if (error || ringlet_stream_close(&s, 60000))
        return fprintf(stderr, "%s\n", ringlet_stream_error(&s)), 1;
    ringlet_stream_abort(&s);
    return 0;
}
