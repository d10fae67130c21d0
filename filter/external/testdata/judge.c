/* judge NAME: judges to the end of the run. Every third event is accepted; the bits are the sum of all bytes and of the
 * numbers of the sources. */
#include "ringlet_filter.h"

int main(int argc, char **argv) {
    ringlet_filter filter;
    ringlet_event event;
    int error = argc == 2 ? ringlet_filter_open(&filter, argv[1], 20000) : RINGLET_FILTER_NONE;
    while (!error && !(error = ringlet_filter_next(&filter, &event))) {
        uint64_t sum = 0;
        for (int i = 0; i < event.sources; i++) {
            const ringlet_fragment *f = ringlet_event_fragment(&event, event.fragments[i].source);
            sum += f->source;
            for (uint32_t k = 0; k < f->size; k++)
                sum += f->data[k];
        }
        error = ringlet_filter_answer(&filter, event.number % 3 ? RINGLET_REJECT : RINGLET_ACCEPT, (uint16_t)sum);
    }
    ringlet_filter_close(&filter);
    if (error != RINGLET_FILTER_END)
        return fprintf(stderr, "%s\n", ringlet_filter_error(error)), 1;
}
