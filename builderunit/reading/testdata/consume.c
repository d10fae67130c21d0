/* consume OUTPUT [lose]: reads to the end of the run, and prints the number of each MEP, its bytes and their sum. */
#include "ringlet_output.h"

int main(int argc, char **argv) {
    ringlet_output out;
    ringlet_mep m;
    int error = argc > 1 ? ringlet_output_open(&out, argv[1], argc > 2, 10000) : RINGLET_OUTPUT_NONE;
    if (error)
        return fprintf(stderr, "%s\n", ringlet_output_error(error)), 1;
    while ((error = ringlet_output_next(&out, &m, -1)) == RINGLET_OUTPUT_OK || error == RINGLET_OUTPUT_LOST) {
        if (error == RINGLET_OUTPUT_LOST) {
            printf("lost %" PRIu64 "\n", m.lost);
        } else if (m.superseded) {
            printf("superseded %" PRIu64 "\n", m.mep);
        } else {
            uint64_t sum = 0;
            for (uint64_t i = 0; i < m.size; i++)
                sum += m.data[i];
            printf("%" PRIu64 " %" PRIu64 " %" PRIu32 " %" PRIu64 " %" PRIu64 "\n", m.mep, m.first_event, m.events, m.size, sum);
        }
        fflush(stdout);
    }
    ringlet_output_close(&out);
    if (error != RINGLET_OUTPUT_END)
        return fprintf(stderr, "%s\n", ringlet_output_error(error)), 1;
}
