/* A front-end for tests: ringwords RING EVENTS. Events with an odd number have a trigger number, and each second pair has a
 * time stamp. C or C++. */
#include "ringlet.h"

#include <stdlib.h>

int main(int argc, char **argv) {
    static unsigned char data[100];
    ringlet_ring ring;
    if (argc != 3)
        return 2;
    int error = ringlet_ring_open(&ring, argv[1], 60000);
    for (uint64_t e = 0; !error && e < strtoull(argv[2], NULL, 10); e++) {
        ringlet_ring_words words;
        memset(&words, 0, sizeof words);
        if (e & 1)
            words.has_trigger = 1, words.trigger = 3 * e;
        if (e & 2)
            words.has_stamp = 1, words.stamp = 7 * e + ((uint64_t)1 << 60);
        memset(data, (int)(e & 255), sizeof data);
        error = ringlet_ring_put_with(&ring, e, &words, data, e % 100);
    }
    if (error || (error = ringlet_ring_end(&ring)))
        return fprintf(stderr, "%s\n", ringlet_ring_error(error)), 1;
    return 0;
}
