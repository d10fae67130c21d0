/* use DOOR: everything that a door does, once, against the segment "words", which is open for all. It prints what it
 * found; use.py prints the same. */
#include "ringlet_memory.h"
#include <stdlib.h>

static ringlet_door door;

static void must(int error, const char *what) {
    if (error == RINGLET_OK)
        return;
    printf("%s: %d, %s\n", what, error, ringlet_door_error(&door, error));
    exit(1);
}

int main(int argc, char **argv) {
    uint32_t words, none;
    uint64_t n, ticket[3];
    if (argc != 2)
        return 2;
    must(ringlet_door_open(&door, argv[1], 20000), "open");
    must(ringlet_door_import(&door, "words@n0", &words), "import");
    must(ringlet_door_size(&door, words, &n), "size");
    printf("size %" PRIu64 "\n", n);
    int error = ringlet_door_import(&door, "none@n0", &none);
    printf("import %d cause %d\n", error, door.cause);
    static unsigned char there[10000], back[10000];
    for (size_t i = 0; i < sizeof there; i++)
        there[i] = (unsigned char)(i * 7);
    must(ringlet_door_put(&door, words, 5000, there, sizeof there), "put");
    must(ringlet_door_get(&door, words, 5000, back, sizeof back), "get");
    printf("same %d\n", memcmp(there, back, sizeof there) == 0);
    must(ringlet_door_add(&door, words, 64, 5, &n), "add");
    printf("add %" PRIu64 "\n", n);
    must(ringlet_door_swap(&door, words, 64, 9, &n), "swap");
    printf("swap %" PRIu64 "\n", n);
    must(ringlet_door_compare_and_swap(&door, words, 64, 9, 11, &n), "compare");
    printf("compare %" PRIu64 "\n", n);
    error = ringlet_door_add(&door, words, 1 << 20, 1, &n);
    printf("outside %d cause %d\n", error, door.cause);
    error = ringlet_door_add(&door, words, 65, 1, &n);
    printf("misaligned %d cause %d\n", error, door.cause);
    must(ringlet_door_notify(&door, words, 64, &n), "notify");
    printf("notify %" PRIu64 "\n", n);
    n = 0;
    must(ringlet_door_await(&door, words, 64, 0, &n), "await");
    printf("await %" PRIu64 "\n", n);
    error = ringlet_door_await(&door, words, 64, 20, &n);
    printf("await late %d cause %d\n", error != RINGLET_OK, door.cause);
    must(ringlet_door_fence(&door, words, 3), "fence");

    /* Three by one store: a list with a notice, a read of it behind it, and a wait for the notice beside. */
    ringlet_piece pieces[2] = {{16384, 0, 100}, {16384 + 200, 100, 50}};
    for (int i = 0; i < 150; i++)
        door.data[i] = (unsigned char)(i + 1);
    memcpy(door.data + 1024, pieces, sizeof pieces);
    ringlet_request r[3] = {
        {.operation = RINGLET_WAIT, .segment = words, .remote = 16384},
        {.operation = RINGLET_WRITE, .flags = RINGLET_LIST | RINGLET_NOTICE, .context = 2, .segment = words,
         .remote = 16384, .local = 1024, .length = 2},
        {.operation = RINGLET_READ, .context = 2, .segment = words, .remote = 16384, .local = 2048, .length = 256}};
    for (int i = 0; i < 3; i++)
        must(ringlet_door_prepare(&door, &r[i], &ticket[i]), "prepare");
    ringlet_door_start(&door);
    for (int i = 0; i < 3; i++)
        must(ringlet_door_wait(&door, ticket[i], 20000, &n), "wait");
    int right = 1;
    for (int i = 0; i < 256; i++)
        right &= door.data[2048 + i] == (i < 100 ? i + 1 : i >= 200 && i < 250 ? i - 99 : 0);
    printf("list %d\n", right);

    /* More than a ring holds. */
    memset(door.data, 0x5A, 4096);
    for (uint32_t i = 0; i < 3000; i++) {
        ringlet_request w = {.operation = RINGLET_WRITE, .segment = words, .remote = 65536 + 32 * i,
                             .local = 32 * (i % 64), .length = 32};
        must(ringlet_door_prepare(&door, &w, &ticket[0]), "prepare");
        if (i % 100 == 99)
            ringlet_door_start(&door);
    }
    must(ringlet_door_wait(&door, ticket[0], 20000, NULL), "wait");
    must(ringlet_door_fence(&door, words, 0), "fence");
    printf("old %d\n", ringlet_door_wait(&door, 0, 0, NULL) == RINGLET_DOOR_TICKET);
    must(ringlet_door_leave(&door, words), "leave");
    error = ringlet_door_size(&door, words, &n);
    printf("left %d cause %d\n", error, door.cause);
    ringlet_door_close(&door);
    ringlet_door_close(&door);
    printf("closed %d\n", ringlet_door_size(&door, words, &n) == RINGLET_DOOR_CLOSED);
    return 0;
}
