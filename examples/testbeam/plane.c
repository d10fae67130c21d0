/* A front-end in C: one plane of the telescope, into a ring in shared memory.
 *
 *   plane RING PLANE EVENTS RATE
 *
 * It makes the fragment that telescope.py describes for each event and hands it to the readout unit whose input is
 * shm:RING. RATE is in triggers a second, 0: as fast as it goes. A front-end of real hardware reads its board where this
 * one calls measure. */
#include "ringlet.h"
#include <stdlib.h>

static uint64_t mix(uint64_t x) { /* splitmix64 */
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* measure writes strips and charges, u16 each, and returns the bytes they take. */
static size_t measure(uint64_t event, uint64_t plane, uint16_t *out) {
    uint64_t track = mix(event), own = mix(event << 8 | plane);
    uint16_t strip = (uint16_t)(64 + track % 128 + (track >> 8) % 9 * plane);
    uint16_t charge = (uint16_t)(30 + own % 40 + (own >> 8 & 7 ? 0 : (own >> 16) % 150));
    uint16_t pairs[3][2] = {
        {strip, charge}, {(uint16_t)(strip + 1), charge / 3}, {(uint16_t)((own >> 32) % 256), 1 + (own >> 40) % 6}};
    size_t size = own >> 48 & 1 ? sizeof pairs : sizeof pairs - sizeof pairs[0];
    memcpy(out, pairs, size);
    return size;
}

/* await waits for the trigger of the n-th event since begin, however long reading out has taken. */
static void await(struct timespec begin, uint64_t n, double rate) {
    double after = (double)begin.tv_nsec / 1e9 + (rate > 0 ? (double)n / rate : 0);
    struct timespec at = {begin.tv_sec + (time_t)after, (long)((after - (double)(time_t)after) * 1e9)};
    if (rate > 0)
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {
        }
}

int main(int argc, char **argv) {
    if (argc != 5)
        return fprintf(stderr, "usage: plane RING PLANE EVENTS RATE\n"), 2;
    uint64_t plane = strtoull(argv[2], NULL, 10), events = strtoull(argv[3], NULL, 10);
    double rate = strtod(argv[4], NULL);
    ringlet_ring ring;
    char name[32];
    snprintf(name, sizeof name, "plane-%.20s", argv[2]);
    int error = ringlet_ring_open_as(&ring, argv[1], name, 30000);
    struct timespec begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    uint64_t first = error ? events : ringlet_ring_next(&ring);
    for (uint64_t event = first; !error && event < events; event++) {
        uint16_t data[6];
        await(begin, event - first, rate);
        error = ringlet_ring_put(&ring, event, data, measure(event, plane, data));
    }
    if (!error)
        error = ringlet_ring_end(&ring);
    if (error)
        return fprintf(stderr, "plane %s: %s\n", argv[2], ringlet_ring_error(error)), 1;
    return 0;
}
