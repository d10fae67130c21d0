/* answers ADDRESS: answers one command nine times behind 48 MB of fragments that nobody takes, and once more when they are
 * taken. It prints what the answers return. */
#include "ringlet_stream.h"

int main(int argc, char **argv) {
    static char data[60000];
    ringlet_stream s;
    ringlet_stream_command c;
    ringlet_stream_settings set = ringlet_stream_defaults();
    set.follow = 1;
    if (argc != 2 || ringlet_stream_open(&s, argv[1], &set, 60000))
        return 1;
    int error = ringlet_stream_next_command(&s, &c, 60000) == 1 ? 0 : 1;
    for (uint64_t event = 0; event < 800 && !error; event++)
        error = ringlet_stream_send(&s, event, data, sizeof data);
    for (int i = 0; i < 9 && !error; i++)
        printf("%d\n", ringlet_stream_answer(&s, &c, "no gas"));
    fflush(stdout);
    while (!error && s.replies_n > 0)
        error = ringlet_stream_poll(&s, 100);
    if (!error)
        printf("%d\n", error = ringlet_stream_answer(&s, &c, NULL));
    fflush(stdout);
    while (!error && s.safe < 800)
        error = ringlet_stream_poll(&s, 100);
    ringlet_stream_abort(&s);
    return error != 0;
}
