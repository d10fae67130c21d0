/* scribble DOOR TIMES: a client that writes at random over a door's memory while descriptors are carried out, and takes
 * the door again when it is shut. */
#include "ringlet_memory.h"
#include <stdlib.h>

static uint64_t state = 88172645463325252u;

static uint64_t rnd(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    for (int times = atoi(argv[2]); times > 0; times--) {
        ringlet_door d;
        uint32_t words = 0;
        if (ringlet_door_open(&d, argv[1], 20000) != RINGLET_OK)
            return 1;
        ringlet_door_import(&d, "words@n0", &words);
        for (int i = 0; i < 20000 && ringlet_d__state(&d) == RINGLET_OK; i++) {
            ringlet_request r = {.operation = (uint8_t)(rnd() % 13), .flags = (uint8_t)(rnd() % 5 ? 0 : rnd() % 9),
                                 .context = rnd() % 16, .segment = words, .remote = rnd() % (64 * 4096),
                                 .local = (uint32_t)(rnd() % d.size), .length = rnd() % 300, .time_ms = rnd() % 3};
            if ((r.operation == RINGLET_IMPORT || r.operation == RINGLET_LEAVE) && rnd() % 500 != 0)
                r.operation = RINGLET_WRITE;
            unsigned char *at = d.mem + RINGLET_D__RING + d.prepared++ % 1024 * 64;
            memset(at, 0, 64);
            memcpy(at, &r, 3);
            memcpy(at + 0x04, &r.segment, 4);
            memcpy(at + 0x08, &r.remote, 8);
            memcpy(at + 0x10, &r.local, 4);
            memcpy(at + 0x14, &r.length, 4);
            memcpy(at + 0x28, &r.time_ms, 4);
            ringlet_door_start(&d);
            for (uint64_t n = rnd() % 8; n > 0; n--) /* behind the counters, whose harm is another test's */
                d.mem[rnd() % 2 ? 4096 + rnd() % (d.mapped - 4096) : 0x108 + rnd() % 0x100] = (unsigned char)rnd();
            if (rnd() % 500 == 0)
                RINGLET__STORE(ringlet__w64(d.mem, RINGLET_D__STARTED), rnd() % (2 * d.started + 2));
            if (d.started % 512 == 0)
                ringlet__pause(1); /* else its count runs ahead, and the door is shut */
        }
        ringlet_door_forget(&d);
    }
    printf("done");
    return 0;
}
