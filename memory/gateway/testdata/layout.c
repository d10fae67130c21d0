/* layout DOOR: takes a door that nobody serves, starts the requests that layout.py starts, and says what it reads as
 * their results. */
#include "ringlet_memory.h"

int main(int argc, char **argv) {
    ringlet_door door;
    uint64_t n = 0;
    if (argc != 2 || ringlet_door_open(&door, argv[1], 20000) != RINGLET_OK)
        return 1;
    ringlet_request r[3] = {
        {.operation = RINGLET_WRITE, .flags = RINGLET_LIST | RINGLET_NOTICE | RINGLET_ALONE, .context = 15,
         .segment = 0x01020304, .remote = 0x1112131415161718, .local = 0x21222324, .length = 0x31323334,
         .time_ms = 0x41424344},
        {.operation = RINGLET_COMPARE, .segment = 0x105, .remote = 8, .a = 0x5152535455565758, .b = 0x6162636465666768},
        {.operation = RINGLET_FENCE, .context = 1, .segment = 0xFFFFFFFF}};
    for (int i = 0; i < 3; i++)
        ringlet_door_prepare(&door, &r[i], NULL);
    ringlet_door_start(&door);
    for (uint64_t i = 0; i < 3; i++) {
        int error = ringlet_door_poll(&door, i, &n);
        printf("%d %d %" PRIx64 "\n", error, error == RINGLET_OK ? 0 : door.cause, n);
    }
    ringlet_door_forget(&door);
    return 0;
}
