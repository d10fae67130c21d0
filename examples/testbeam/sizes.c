/* Sends fragments of many sizes over every kind of input, and checks what was built of them.
 *
 *   sizes send ADDRESS SOURCE EVENTS EVERY     ADDRESS: shm:NAME, tcp:HOST:PORT, unix:PATH, exec: or udp:HOST:PORT
 *   sizes check OUTPUT SOURCES EVENTS EVERY LOSSY
 *   sizes rate ADDRESS SIZE EVENTS             fragments of one size, as fast as it goes: rates.py
 *   sizes bare socket|copy SIZE EVENTS         the same bytes through a socket alone, or copied once in memory
 *
 * A fragment has up to 512 bytes; each EVERY-th has 64 KiB to 4 MiB (0: none has). Size and bytes follow from event and
 * source. check reads the shared-memory output OUTPUT (docs/clients.md) and expects each fragment of each event once; those
 * of source LOSSY may be missing, up to half of them (without one: as many as there are SOURCES). */
#include "ringlet_output.h"
#include "ringlet_stream.h"
#include <sys/socket.h>
#include <netinet/in.h>
#include <sys/wait.h>

enum { LARGEST = 4 << 20, SHIFTS = 1 << 16, PIECE = 60000 };
static unsigned char pattern[LARGEST + SHIFTS], *fixed; /* fixed: what rate sends, fixed_size bytes */
static size_t fixed_size;

static uint64_t mix(uint64_t x) { /* splitmix64 */
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* fragment returns the bytes of a fragment: a piece of the pattern that begins elsewhere for each. */
static const unsigned char *fragment(uint64_t event, uint64_t source, uint64_t every, size_t *size) {
    if (fixed != NULL)
        return *size = fixed_size, fixed;
    uint64_t own = mix(event << 8 | source);
    *size = own % 513;
    if (every > 0 && (event + source) % every == 0) {
        size_t below = (size_t)65536 << own % 6; /* as many from 64 to 128 KiB as from 2 to 4 MiB */
        *size = below + (own >> 8) % (below + 1);
    }
    return pattern + (own >> 40) % SHIFTS;
}

static int fail(const char *what) { return fprintf(stderr, "%s\n", what), 1; }

static int send_ring(const char *name, uint64_t source, uint64_t events, uint64_t every) {
    ringlet_ring ring;
    int error = ringlet_ring_open(&ring, name, 60000);
    for (uint64_t e = error ? events : ringlet_ring_next(&ring); !error && e < events; e++) {
        size_t size;
        const unsigned char *data = fragment(e, source, every, &size);
        error = ringlet_ring_put(&ring, e, data, size);
    }
    if (!error)
        error = ringlet_ring_end(&ring);
    return error ? fail(ringlet_ring_error(error)) : 0;
}

static int send_stream(const char *address, uint64_t source, uint64_t events, uint64_t every) {
    ringlet_stream s;
    ringlet_stream_settings set = ringlet_stream_defaults();
    set.batch = 1 << 16;
    if (fixed_size > 8 << 20)
        set.keep = 3 * fixed_size + (1 << 20);
    if (ringlet_stream_open(&s, address, &set, 60000))
        return fail(ringlet_stream_error(&s));
    int error = 0;
    for (uint64_t e = s.next; !error && e < events; e++) {
        size_t size;
        const unsigned char *data = fragment(e, source, every, &size);
        error = ringlet_stream_send(&s, e, data, size);
    }
    if (error || ringlet_stream_close(&s, 600000))
        fail(ringlet_stream_error(&s)), error = 1;
    ringlet_stream_abort(&s);
    return error;
}

/* send_frames writes frames to the standard output (docs/format/frames.md), without checksums. */
static int send_frames(uint64_t source, uint64_t events, uint64_t every) {
    unsigned char hello[24] = {'R', 'L', 'F', 'H', 1, 255, 0xFF, 0xFF};
    fwrite(hello, 1, sizeof hello, stdout);
    for (uint64_t e = 0; e <= events; e++) {
        size_t size = 0;
        const unsigned char *data = fragment(e, source, every, &size);
        uint32_t n = e < events ? (uint32_t)size : 0;
        unsigned char head[20] = {0};
        memcpy(head, &e, 8), memcpy(head + 8, &n, 4);
        head[12] = e < events ? 1 : 3, head[14] = 0x46, head[15] = 0x52;
        fwrite(head, 1, sizeof head, stdout);
        fwrite(data, 1, n, stdout);
    }
    return fflush(stdout) != 0;
}

static void breathe(void) { nanosleep(&(struct timespec){0, 1000000}, NULL); }

/* send_udp sends segments (docs/format/ejfat.md); what is lost on the way is missing. */
static int send_udp(const char *address, uint64_t source, uint64_t events, uint64_t every) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to))
        return fail(strerror(errno));
    for (uint64_t e = 0; e < events; e++) {
        size_t size, at = 0;
        const unsigned char *data = fragment(e, source, every, &size);
        do {
            size_t n = size - at < PIECE ? size - at : PIECE;
            uint16_t words[2] = {htons(0x1000), htons((uint16_t)source)};
            uint32_t place[2] = {htonl((uint32_t)at), htonl((uint32_t)size)};
            uint64_t number = __builtin_bswap64(e);
            unsigned char out[20 + PIECE];
            memcpy(out, words, 4), memcpy(out + 4, place, 8), memcpy(out + 12, &number, 8), memcpy(out + 20, data + at, n);
            if (send(fd, out, 20 + n, 0) < 0 && errno != ECONNREFUSED && errno != ENOBUFS)
                return fail(strerror(errno));
            at += n;
            if (at % (1 << 18) < PIECE && at > 0)
                breathe(); /* the receiver's buffer has room for so much */
        } while (at < size);
        if (e % 64 == 63)
            breathe();
    }
    return close(fd);
}

static uint64_t word(const unsigned char *at, int bytes) {
    uint64_t v = 0;
    memcpy(&v, at, (size_t)bytes);
    return v;
}

typedef struct {
    uint64_t sources, events, every, lossy, fragments, large, missing, bytes;
    unsigned char *seen;
} tally;

/* check_mfp holds the fragments of one source against what it sent (docs/format/mfp.md). */
static int check_mfp(tally *t, const unsigned char *m) {
    uint64_t magic = word(m, 2), n = word(m + 2, 2), first = word(m + 8, 8), source = word(m + 16, 2);
    uint64_t align = (uint64_t)1 << m[18], width = magic == 0x40CE ? 2 : 4;
    const unsigned char *type = m + 20, *sizes = type + (n + 3) / 4 * 4;
    const unsigned char *at = sizes + (width * n + 3) / 4 * 4 + (magic == 0x40D0 ? 16 * n : 0);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t e = first + i, size = word(sizes + width * i, (int)width);
        size_t want;
        const unsigned char *data = fragment(e, source, t->every, &want);
        if (source >= t->sources || e >= t->events || t->seen[e * t->sources + source]++)
            return fprintf(stderr, "event %" PRIu64 " of source %" PRIu64 " was not sent, or is there twice\n", e, source);
        if (type[i] == 92 && source == t->lossy)
            t->missing++;
        else if (type[i] == 92 || size != want || memcmp(at, data, want) != 0)
            return fprintf(stderr, "event %" PRIu64 " of source %" PRIu64 " is not what was sent\n", e, source);
        else
            t->large += want >= 65536, t->bytes += want;
        t->fragments++;
        at += (size + align - 1) / align * align;
    }
    return 0;
}

static int check(const char *name, tally t) {
    ringlet_output out;
    ringlet_mep mep;
    t.seen = (unsigned char *)calloc(t.events, t.sources);
    int error = t.seen == NULL ? RINGLET_OUTPUT_SYSTEM : ringlet_output_open(&out, name, 0, 60000);
    while (!error && !(error = ringlet_output_next(&out, &mep, -1))) {
        uint64_t n = word(mep.data + 2, 2);
        const unsigned char *offsets = mep.data + 8 + (2 * n + 3) / 4 * 4;
        for (uint64_t i = 0; i < n; i++)
            if (check_mfp(&t, mep.data + 4 * word(offsets + 4 * i, 4)))
                return 1;
    }
    if (error != RINGLET_OUTPUT_END)
        return fail(ringlet_output_error(error));
    t.missing += t.lossy < t.sources ? t.sources * t.events - t.fragments : 0; /* behind the last one that came */
    printf("%" PRIu64 " fragments of %" PRIu64 " bytes, %" PRIu64 " of them with 64 KiB or more, each once; %" PRIu64
           " missing\n", t.fragments, t.bytes, t.large, t.missing);
    if (t.lossy < t.sources)
        return t.missing < t.events / 2 ? 0 : fail("more than half is missing");
    return t.fragments == t.sources * t.events ? 0 : fail("that is not all that was sent");
}

/* bare sends the same bytes to a process that only reads, or copies them. */
static int bare(const char *how, uint64_t events) {
    size_t piece = fixed_size < 65536 ? 65536 / fixed_size * fixed_size : fixed_size; /* small ones in batches */
    unsigned char *to = (unsigned char *)malloc(1 << 18 < piece ? piece : 1 << 18);
    uint64_t left = events * fixed_size;
    int fd[2];
    if (to == NULL)
        return fail("no memory");
    if (!strcmp(how, "copy")) {
        for (uint64_t e = 0; e < events; e++) {
            memcpy(to, fixed, fixed_size);
            __asm__ volatile("" : : "r"(to) : "memory");
        }
        return 0;
    }
    struct sockaddr_in at = {.sin_family = AF_INET};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t n = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&at, n) || listen(listener, 1) || getsockname(listener, (struct sockaddr *)&at, &n))
        return fail(strerror(errno));
    if (fork() == 0) {
        fd[0] = accept(listener, NULL, NULL);
        while (read(fd[0], to, 1 << 18) > 0) {
        }
        _exit(0);
    }
    fd[1] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd[1], (struct sockaddr *)&at, sizeof at))
        return fail(strerror(errno));
    unsigned char *batch = (unsigned char *)calloc(1, piece);
    while (left > 0 && batch != NULL) {
        ssize_t sent = write(fd[1], batch, left < piece ? left : piece);
        if (sent <= 0)
            return fail(strerror(errno));
        left -= (uint64_t)sent;
    }
    close(fd[1]);
    return wait(NULL) < 0;
}

int main(int argc, char **argv) {
    for (size_t i = 0; i < sizeof pattern; i += 8) {
        uint64_t v = mix(i);
        memcpy(pattern + i, &v, 8);
    }
    uint64_t n[4] = {0};
    for (int i = 3; i < argc && i < 7; i++)
        n[i - 3] = strtoull(argv[i], NULL, 10);
    if (argc == 7 && !strcmp(argv[1], "check"))
        return check(argv[2], (tally){.sources = n[0], .events = n[1], .every = n[2], .lossy = n[3]});
    if (argc == 5 && (!strcmp(argv[1], "rate") || !strcmp(argv[1], "bare"))) {
        fixed_size = n[0];
        if (fixed_size == 0 || (fixed = (unsigned char *)malloc(fixed_size)) == NULL)
            return fail("no memory");
        for (size_t i = 0; i < fixed_size; i++)
            fixed[i] = pattern[i % sizeof pattern];
        if (!strcmp(argv[1], "bare"))
            return bare(argv[2], n[1]);
    } else if (argc != 6 || strcmp(argv[1], "send") != 0)
        return fail("usage: see the head of sizes.c");
    if (!strncmp(argv[2], "shm:", 4))
        return send_ring(argv[2] + 4, n[0], n[1], n[2]);
    if (!strncmp(argv[2], "udp:", 4))
        return send_udp(argv[2] + 4, n[0], n[1], n[2]);
    if (!strcmp(argv[2], "exec:"))
        return send_frames(n[0], n[1], n[2]);
    return send_stream(argv[2], n[0], n[1], n[2]);
}
