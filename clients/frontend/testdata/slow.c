#include "ringlet_slow.h"

int main(int argc, char **argv) {
    ringlet_slow s;
    if (argc != 2)
        return 2;
    ringlet_slow_init(&s, argv[1]);
    if (ringlet_slow_number(&s, "temp", 21.5, 1796040000.25, 600000) ||
        ringlet_slow_text(&s, "beam", "on \"target\"", 1796040001, 600000) ||
        ringlet_slow_number(&s, "no", 3, 1796040002, 600000) != RINGLET_SLOW_UNKEPT)
        return fprintf(stderr, "%s\n", s.why), 1;
    printf("%s\n", s.why);
    ringlet_slow_close(&s);
    return ringlet_slow_number(&s, "a b", 1, 0, 600000) != RINGLET_SLOW_WRONG;
}
