/* ringlet_stream.h: a front-end sends fragments to a readout unit of Ringlet over a stream, tcp:host:port or unix:path.
 *
 * C11 or C++17 and later, gcc or clang, Linux, 64-bit little-endian. One header, no library: include it before any other
 * header, or define _GNU_SOURCE.
 *
 *     ringlet_stream s;
 *     ringlet_stream_settings set = ringlet_stream_defaults();
 *     set.name = "telescope";
 *     int error = ringlet_stream_open(&s, "tcp:localhost:9000", &set, 10000);     wait up to 10 s for the readout unit
 *     for (uint64_t event = s.next; !error && ...; event++)
 *         error = ringlet_stream_send(&s, event, data, size);
 *     if (!error)
 *         error = ringlet_stream_close(&s, 30000);            wait until the end is taken, and all is safe or given up
 *     if (error)
 *         fprintf(stderr, "%s\n", ringlet_stream_error(&s));
 *     ringlet_stream_abort(&s);                               frees the memory; may be called twice
 *
 * The stream keeps fragments that are not safe. When the connection breaks, it connects again and sends those that the
 * readout unit does not have. It has no thread: it works within these calls, so a front-end that sends nothing for a
 * while must call ringlet_stream_poll. A stream is for one thread. The bytes are docs/format/frames.md, the manual
 * docs/clients.md. */
#ifndef RINGLET_STREAM_H
#define RINGLET_STREAM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#if defined(__GLIBC__) && !defined(__USE_GNU)
#error "include ringlet_stream.h before any other header, or define _GNU_SOURCE"
#endif
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__ || UINTPTR_MAX != UINT64_MAX
#error "this client is for 64-bit little-endian machines"
#endif

enum {
    RINGLET_STREAM_OK = 0,
    RINGLET_STREAM_GAVE_UP = 1,    /* close: the end was taken, but some sent fragments are in no file of the run */
    RINGLET_STREAM_SETTINGS = -1,  /* the address or a setting is wrong */
    RINGLET_STREAM_TIMEOUT = -2,   /* open: no readout unit has accepted in time */
    RINGLET_STREAM_REFUSED = -3,   /* the readout unit refuses this front-end, for good */
    RINGLET_STREAM_ORDER = -4,     /* event numbers must grow, from s.next on */
    RINGLET_STREAM_TOO_LARGE = -5, /* the fragment is larger than Ringlet takes */
    RINGLET_STREAM_FULL = -6,      /* send: no kept fragment became safe in time; answer: too many wait. Try again */
    RINGLET_STREAM_NOT_SAFE = -7,  /* close: some fragments are not known to be safe, or the end was not taken */
    RINGLET_STREAM_CLOSED = -8,    /* the stream is closed */
    RINGLET_STREAM_SYSTEM = -9     /* a call of the system failed */
};

/* A range of events; fragments that this front-end sent for them are in no file of the run. */
typedef struct {
    uint64_t from, to;    /* to: the first event behind them */
    uint32_t reason;      /* 1 late, 2 repeated, 3 backwards, 4 a wild number, 5 left over at the end */
    uint32_t count;       /* of fragments; 0: not counted */
    const char *sentence; /* the reason as text; valid until the callback given_up returns */
} ringlet_stream_given_up;

/* Why a readout unit is busy: bits of the field busy of a stream. */
enum {
    RINGLET_STREAM_BUSY_BUILDERS = 1, /* builder units do not take what it has read */
    RINGLET_STREAM_BUSY_INTAKE = 2,   /* the memory of a source is nearly full */
    RINGLET_STREAM_BUSY_FRONTEND = 4  /* a front-end says that it is busy */
};

/* What a front-end that follows the run is told (set.follow). */
enum {
    RINGLET_STREAM_PREPARE = 1, /* make ready for the run; answer when ready */
    RINGLET_STREAM_BEGIN = 2,   /* the run has begun: send */
    RINGLET_STREAM_PAUSE = 3,   /* send no more, until resume */
    RINGLET_STREAM_RESUME = 4,  /* go on */
    RINGLET_STREAM_END = 5      /* the run ends: send what was taken, and answer or close */
};
typedef struct {
    int kind;
    uint64_t run;    /* its number */
    unsigned source; /* id of the source */
    char name[65];   /* how the run calls the source; empty: it has no name */
    const char *config; /* the front-end's part of the configuration (?config=), with a zero behind it; NULL: none. It is
                           valid until the stream connects again or is closed */
    size_t config_size;
    uint64_t ticket, connection; /* for ringlet_stream_answer */
} ringlet_stream_command;

/* The settings of a stream. ringlet_stream_defaults, all zero, suits most front-ends. */
typedef struct {
    const char *name; /* of this front-end, for logs and reports, at most 64 bytes */
    int source;       /* id of the source, with has_source; without it, the input's */
    int has_source;
    int type;         /* type of the fragments' banks; 0: 51 (TestDet) */
    uint64_t run;     /* number of the run; 0: any */
    size_t keep;      /* bytes that are kept until they are safe, with 20 for each fragment; 0: 64 MiB */
    int unchecked;    /* no checksum is sent */
    size_t batch;     /* bytes that are gathered before they are sent; 0: each fragment is sent at once */
    void (*given_up)(void *context, const ringlet_stream_given_up *what); /* called for each range; may be NULL */
    void *context;
    const char *secret; /* file with the secret that an input tcp: with ?secret=FILE asks for; NULL: the file that the
                           environment variable RINGLET_SECRET_FILE names, or none */
    int follow; /* the run: ringlet_stream_next_command says what it wants. Take a stream for each run */
} ringlet_stream_settings;

/* What else a fragment may have: with ?number=trigger behind the address of the input, events are matched by the trigger
 * number. */
typedef struct {
    int has_trigger, has_stamp;
    uint64_t trigger, stamp; /* number of the trigger; ns since 1970, UTC */
} ringlet_stream_words;

typedef struct {
    /* set this after open */
    int timeout_ms; /* how long send waits for room; -1 after open: for ever */
    /* read these */
    uint64_t next;     /* Ringlet had all events below at the last connect: a restarted front-end begins here */
    uint64_t safe;     /* all events below are safe, or given up */
    uint64_t run;      /* number of the run; 0: unknown */
    uint64_t given_up; /* fragments that were given up */
    uint64_t connected; /* how often the stream was accepted */
    uint32_t largest;  /* bytes of the largest fragment that Ringlet takes */
    int end_taken;     /* Ringlet has taken the end of the run */
    unsigned busy;     /* with set.follow: why the readout unit is busy, the sum of its causes; 0: it is free. Calls hear it */
    /* for this header alone */
    ringlet_stream_settings set;
    char address[256], why[1024], gave[400]; /* gave: text about the first range that was given up */
    unsigned char hello[132 + 36], secret[256], in[32 + 512], *mem; /* hello: with the proof behind it */
    size_t hello_size, to_greet, secret_size, greeted, got, looked;
    uint64_t tail, sent, head, last, end; /* tail ≤ sent ≤ head: positions in mem, at their remainder by set.keep */
    struct { uint64_t from, behind; } lost[64]; /* all fragments were given up: close does not wait for these events */
    int losts;
    int64_t until, again;                 /* deadline of the current step; time of the next attempt */
    int fd, state, pause, error, turn, closing, told_end; /* told_end: this connection has told the end of the run */
    ringlet_stream_command said, commands[16]; /* said: the source; commands: told, and not taken yet */
    struct { uint64_t behind; size_t size; unsigned char frame[20 + 512]; } replies[8]; /* sent behind that position */
    size_t replied; /* bytes of the first reply that are sent */
    int commands_n, replies_n;
    int hears_busy, says_busy, said_busy; /* the readout unit wants to hear it; this front-end is busy; so it was told */
    char *config; /* 64 KiB and a zero, or NULL */
    uint32_t crc[8][256];
} ringlet_stream;

static inline ringlet_stream_settings ringlet_stream_defaults(void) {
    ringlet_stream_settings set;
    memset(&set, 0, sizeof set);
    return set;
}

/* Why the last call failed, or the connection is broken. */
static inline const char *ringlet_stream_error(const ringlet_stream *s) { return s->why; }

/* ---- internal ---- */

enum { RINGLET_ST__APART, RINGLET_ST__CONNECTING, RINGLET_ST__GREETING, RINGLET_ST__OPEN };
enum { RINGLET_ST__HEADER = 20, RINGLET_ST__HEADERS = 36 /* with words */, RINGLET_ST__UNCHECKED = 1,
       RINGLET_ST__END = 2, RINGLET_ST__TYPED = 4, RINGLET_ST__TRIGGER = 8,
       RINGLET_ST__STAMP = 16, RINGLET_ST__MESSAGE = 32 };
/* Bytes of the largest fragment of an input that declares none, and of any. */
enum { RINGLET_ST__NARROW = 65535, RINGLET_ST__MOST = 1 << 30 };

static inline int64_t ringlet_st__now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

__attribute__((format(printf, 3, 4))) static inline int ringlet_st__fail(ringlet_stream *s, int error, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(s->why, sizeof s->why, format, list);
    va_end(list);
    return error;
}

static inline void ringlet_st__tables(ringlet_stream *s) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c >> 1 ^ (c & 1 ? UINT32_C(0x82F63B78) : 0);
        s->crc[0][i] = c;
    }
    for (int k = 1; k < 8; k++)
        for (int i = 0; i < 256; i++)
            s->crc[k][i] = s->crc[k - 1][i] >> 8 ^ s->crc[0][s->crc[k - 1][i] & 0xFF];
}

/* CRC-32C, eight bytes at a time. */
static inline uint32_t ringlet_st__crc(const ringlet_stream *s, uint32_t c, const unsigned char *b, size_t n) {
    for (; n >= 8; n -= 8, b += 8) {
        uint64_t w;
        memcpy(&w, b, 8);
        w ^= c;
        c = 0;
        for (int k = 0; k < 8; k++)
            c ^= s->crc[7 - k][w >> 8 * k & 0xFF];
    }
    for (; n > 0; n--)
        c = s->crc[0][(c ^ *b++) & 0xFF] ^ c >> 8;
    return c;
}

/* SHA-256 (FIPS 180-4). */
static inline uint32_t ringlet_st__turn(uint32_t x, int n) { return x >> n | x << (32 - n); }
static inline void ringlet_st__block(uint32_t h[8], const unsigned char *b) {
    static const uint32_t k[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
        0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
        0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
        0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
        0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
        0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
    uint32_t w[64], v[8];
    memcpy(v, h, sizeof v);
    for (int i = 0; i < 64; i++) {
        if (i < 16)
            w[i] = (uint32_t)b[4 * i] << 24 | (uint32_t)b[4 * i + 1] << 16 | (uint32_t)b[4 * i + 2] << 8 | b[4 * i + 3];
        else
            w[i] = w[i - 16] + w[i - 7] +
                   (ringlet_st__turn(w[i - 15], 7) ^ ringlet_st__turn(w[i - 15], 18) ^ w[i - 15] >> 3) +
                   (ringlet_st__turn(w[i - 2], 17) ^ ringlet_st__turn(w[i - 2], 19) ^ w[i - 2] >> 10);
        uint32_t t = v[7] + (ringlet_st__turn(v[4], 6) ^ ringlet_st__turn(v[4], 11) ^ ringlet_st__turn(v[4], 25)) +
                     ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
        uint32_t u = (ringlet_st__turn(v[0], 2) ^ ringlet_st__turn(v[0], 13) ^ ringlet_st__turn(v[0], 22)) +
                     ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof v[0]);
        v[4] += t;
        v[0] = t + u;
    }
    for (int i = 0; i < 8; i++)
        h[i] += v[i];
}
/* One pass of HMAC: pad, then size bytes of data, 1024 at most. */
static inline void ringlet_st__pass(const unsigned char key[64], unsigned char pad, const unsigned char *data, size_t size,
                                    unsigned char out[32]) {
    uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    unsigned char m[64 + 1024 + 72] = {0};
    size_t n = pad == 0 ? 0 : 64;
    for (size_t i = 0; i < n; i++)
        m[i] = key[i] ^ pad;
    memcpy(m + n, data, size);
    n += size;
    uint64_t bits = 8 * (uint64_t)n;
    m[n++] = 0x80;
    n = (n + 8 + 63) / 64 * 64;
    for (int i = 0; i < 8; i++)
        m[n - 1 - (size_t)i] = (unsigned char)(bits >> 8 * i);
    for (size_t i = 0; i < n; i += 64)
        ringlet_st__block(h, m + i);
    for (int i = 0; i < 32; i++)
        out[i] = (unsigned char)(h[i / 4] >> (24 - 8 * (i % 4)));
}
/* HMAC-SHA256 with the secret over: the mark of the end that proves, the readout unit's nonce, the hello. */
static inline void ringlet_st__prove(const ringlet_stream *s, const char *who, const unsigned char *nonce, unsigned char out[32]) {
    unsigned char key[64] = {0}, text[4 + 24 + sizeof s->hello], inner[32];
    if (s->secret_size > sizeof key)
        ringlet_st__pass(key, 0, s->secret, s->secret_size, key);
    else
        memcpy(key, s->secret, s->secret_size);
    memcpy(text, who, 4);
    memcpy(text + 4, nonce, 24);
    memcpy(text + 28, s->hello, s->hello_size);
    ringlet_st__pass(key, 0x36, text, 28 + s->hello_size, inner);
    ringlet_st__pass(key, 0x5c, inner, sizeof inner, out);
}

/* Reads the file of the secret, if there is one. */
static inline int ringlet_st__secret(ringlet_stream *s, const char *address) {
    unsigned char b[259];
    const char *name = s->set.secret != NULL ? s->set.secret : getenv("RINGLET_SECRET_FILE");
    s->set.secret = NULL; /* the string belongs to the caller */
    if (name == NULL || name[0] == 0 || strncmp(address, "tcp:", 4) != 0)
        return 0;
    FILE *file = fopen(name, "rb");
    if (file == NULL)
        return ringlet_st__fail(s, RINGLET_STREAM_SETTINGS, "the secret cannot be read: %s: %s", name, strerror(errno));
    size_t n = fread(b, 1, sizeof b, file);
    fclose(file);
    while (n > 0 && (b[n - 1] == '\n' || b[n - 1] == '\r'))
        n--;
    if (n < 16 || n > sizeof s->secret)
        return ringlet_st__fail(s, RINGLET_STREAM_SETTINGS, "%s holds no secret of 16 to 256 bytes: give the file that the "
                                "input has", name);
    memcpy(s->secret, b, s->secret_size = n);
    return 0;
}

/* Copies into the memory at its head, or out of it, around its end. */
static inline void ringlet_st__put(ringlet_stream *s, const void *data, size_t n) {
    size_t at = (size_t)(s->head % s->set.keep), first = s->set.keep - at < n ? s->set.keep - at : n;
    if (first > 0)
        memcpy(s->mem + at, data, first);
    if (n > first)
        memcpy(s->mem, (const unsigned char *)data + first, n - first);
    s->head += n;
}
/* Bytes of the words that the flags of a frame announce. */
static inline size_t ringlet_st__words(int flags) {
    return (flags & RINGLET_ST__TRIGGER ? 8 : 0) + (flags & RINGLET_ST__STAMP ? 8 : 0);
}
static inline void ringlet_st__frame(const ringlet_stream *s, uint64_t position, uint64_t *event, uint64_t *end) {
    unsigned char b[13];
    uint32_t size;
    for (size_t i = 0; i < sizeof b; i++)
        b[i] = s->mem[(position + i) % s->set.keep];
    memcpy(event, b, 8);
    memcpy(&size, b + 8, 4);
    *end = position + RINGLET_ST__HEADER + ringlet_st__words(b[12]) + size;
}

/* Frees frames that are safe and were sent whole. A frame in which the connection broke is kept and sent again. */
static inline void ringlet_st__forget(ringlet_stream *s) {
    uint64_t event, end;
    while (s->tail < s->head) {
        ringlet_st__frame(s, s->tail, &event, &end);
        if (event >= s->safe || end > s->sent)
            return;
        s->tail = end;
    }
}

/* Records that all fragments of a range of events were given up. If there is no room for the range, close waits for its
 * events. */
static inline void ringlet_st__gave_up(ringlet_stream *s, uint64_t from, uint64_t behind) {
    for (int i = 0; i < s->losts; i++)
        if (from <= s->lost[i].behind && behind >= s->lost[i].from) { /* they overlap, or touch */
            if (from < s->lost[i].from)
                s->lost[i].from = from;
            if (behind > s->lost[i].behind)
                s->lost[i].behind = behind;
            return;
        }
    if (s->losts < (int)(sizeof s->lost / sizeof s->lost[0]))
        s->lost[s->losts].from = from, s->lost[s->losts++].behind = behind;
}

/* The first event that send has accepted and that has no outcome; the end of the run if there is none. */
static inline uint64_t ringlet_st__lacks(const ringlet_stream *s) {
    uint64_t event, end;
    for (uint64_t at = s->tail; at < s->head; at = end) {
        ringlet_st__frame(s, at, &event, &end);
        if (event >= s->end)
            break;
        int has = event < s->safe;
        for (int i = 0; i < s->losts && !has; i++)
            has = event >= s->lost[i].from && event < s->lost[i].behind;
        if (!has)
            return event;
    }
    return s->end;
}

/* Moves the position of sending, back or forward, to the frame of the first event that the readout unit does not
 * have. */
static inline void ringlet_st__resume(ringlet_stream *s, uint64_t event) {
    uint64_t number, end;
    for (s->sent = s->tail; s->sent < s->head; s->sent = end) {
        ringlet_st__frame(s, s->sent, &number, &end);
        if (number >= event)
            return;
    }
}

/* Closes a broken connection, and plans the next attempt after a pause. */
static inline void ringlet_st__lost(ringlet_stream *s) {
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    s->state = RINGLET_ST__APART;
    s->busy = 0;
    s->again = ringlet_st__now() + s->pause;
    s->pause = s->pause < 500 ? 2 * s->pause : 1000;
    s->got = s->greeted = 0;
}

static inline int ringlet_st__socket(ringlet_stream *s, int family, const struct sockaddr *to, socklen_t size) {
    int on = 1;
    s->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->fd < 0)
        return -1;
    if (family != AF_UNIX) /* a fragment leaves at once; batch makes fewer packets */
        setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return connect(s->fd, to, size) == 0 || errno == EINPROGRESS ? 0 : -1;
}

/* Begins to connect to one address of a host; each attempt takes the next host of the list, and when all were tried, the
 * next address of each. */
static inline void ringlet_st__connect(ringlet_stream *s) {
    int done = -1;
    s->until = ringlet_st__now() + 5000;
    s->state = RINGLET_ST__CONNECTING;
    s->to_greet = s->hello_size;
    if (s->secret_size > 0 && getrandom(s->hello + s->hello_size - 24, 24, 0) != 24) {
        ringlet_st__fail(s, 0, "%s: the system gives no random numbers: %s", s->address, strerror(errno));
        ringlet_st__lost(s);
        return;
    }
    if (strncmp(s->address, "unix:", 5) == 0) {
        struct sockaddr_un to;
        memset(&to, 0, sizeof to);
        to.sun_family = AF_UNIX;
        memcpy(to.sun_path, s->address + 5, strlen(s->address + 5)); /* open has checked that it fits */
        done = ringlet_st__socket(s, AF_UNIX, (const struct sockaddr *)&to, sizeof to);
    } else {
        char host[256];
        char one[256];
        const char *begin = s->address + 4, *next = begin;
        int hosts = 1, host_turn;
        while ((next = strchr(next, ',')) != NULL)
            hosts++, next++;
        for (host_turn = s->turn % hosts; host_turn > 0; host_turn--)
            begin = strchr(begin, ',') + 1;
        size_t size = strcspn(begin, ","); /* open has checked that it fits */
        memcpy(one, begin, size);
        one[size] = 0;
        const char *colon = strrchr(one, ':');
        begin = one;
        size_t n = (size_t)(colon - begin);
        if (n >= 2 && begin[0] == '[' && begin[n - 1] == ']')
            begin++, n -= 2;
        memcpy(host, begin, n);
        host[n] = 0;
        struct addrinfo want, *found = NULL;
        memset(&want, 0, sizeof want);
        want.ai_socktype = SOCK_STREAM;
        int wrong = getaddrinfo(n == 0 ? NULL : host, colon + 1, &want, &found);
        if (wrong != 0) {
            s->turn++;
            ringlet_st__fail(s, 0, "%s: the address is not found: %s", s->address, gai_strerror(wrong));
            ringlet_st__lost(s);
            return;
        }
        int of = 0, which = 0;
        for (struct addrinfo *a = found; a != NULL && of < 64; a = a->ai_next)
            of++;
        struct addrinfo *at = found;
        for (which = s->turn++ / hosts % of; which > 0; which--)
            at = at->ai_next;
        done = ringlet_st__socket(s, at->ai_family, at->ai_addr, at->ai_addrlen);
        int saved = errno;
        freeaddrinfo(found);
        errno = saved;
    }
    if (done != 0) {
        ringlet_st__fail(s, 0, "%s: no connection: %s", s->address, strerror(errno));
        ringlet_st__lost(s);
    }
}

/* Handles the answer that the readout unit has accepted the stream. */
static inline void ringlet_st__accepted(ringlet_stream *s, uint64_t from, uint64_t run, uint32_t largest) {
    if (s->closing && run != s->run && run != 0 && s->run != 0 && (s->end_taken || ringlet_st__lacks(s) >= s->end)) {
        /* Another run has begun: close must not declare the end of that one. */
        s->error = ringlet_st__fail(s, RINGLET_STREAM_NOT_SAFE, "run %" PRIu64 " is over: its end at event %" PRIu64
                                    " was %staken, and events from %" PRIu64 " on are not known to be safe",
                                    s->run, s->end, s->end_taken ? "" : "not known to be ", ringlet_st__lacks(s));
        return;
    }
    if (run != s->run)
        s->end_taken = s->losts = 0;
    s->run = run;
    s->next = from;
    s->commands_n = s->replies_n = s->told_end = s->hears_busy = s->said_busy = 0;
    s->busy = 0;
    s->replied = 0;
    if (largest > RINGLET_ST__MOST)
        largest = RINGLET_ST__MOST;
    /* The readout unit may wait with a fragment for the two behind it, to see whether its number is right. */
    size_t kept = s->set.keep / 3, narrow = RINGLET_ST__NARROW;
    kept = kept < narrow + RINGLET_ST__HEADERS ? narrow : kept - RINGLET_ST__HEADERS;
    s->largest = largest < kept ? largest : (uint32_t)kept;
    s->state = RINGLET_ST__OPEN;
    s->pause = 20;
    s->connected++;
    ringlet_st__resume(s, from > s->safe ? from : s->safe);
}

/* Checks the readout unit's proof that it has the secret, and sends this front-end's proof. 0: go on. */
static inline int ringlet_st__proven(ringlet_stream *s, const unsigned char *head, const char *sentence) {
    unsigned char want[32], wrong = 0;
    char text[65];
    if (head[5] != 10) {
        s->error = ringlet_st__fail(s, RINGLET_STREAM_REFUSED, "the readout unit at %s asks for no secret, and this front-end has "
                                    "one, which proves who that is: put ?secret=FILE behind the address of the input, or leave "
                                    "it out here", s->address);
        return 1;
    }
    ringlet_st__prove(s, "RLFS", head + 8, want);
    for (size_t i = 0; i < sizeof want; i++)
        snprintf(text + 2 * i, 3, "%02x", want[i]);
    wrong = strlen(sentence) != 64;
    for (size_t i = 0; i < 64 && sentence[i] != 0; i++)
        wrong |= (unsigned char)(text[i] ^ sentence[i]);
    if (wrong != 0) {
        s->error = ringlet_st__fail(s, RINGLET_STREAM_REFUSED, "the readout unit at %s does not prove that it has the secret of "
                                    "this front-end: give both the same file, and look who listens there", s->address);
        return 1;
    }
    memcpy(s->hello + s->hello_size, "RLFP", 4);
    ringlet_st__prove(s, "RLFP", head + 8, s->hello + s->hello_size + 4);
    s->to_greet = s->hello_size + 36;
    return 0;
}

/* Keeps a command for ringlet_stream_next_command; the oldest makes room. */
static inline void ringlet_st__told(ringlet_stream *s, uint64_t ticket, uint64_t run, uint32_t kind) {
    int most = (int)(sizeof s->commands / sizeof s->commands[0]);
    if (s->commands_n == most)
        memmove(s->commands, s->commands + 1, sizeof s->commands[0] * (size_t)--s->commands_n);
    ringlet_stream_command *to = &s->commands[s->commands_n++];
    *to = s->said;
    s->told_end |= kind == RINGLET_STREAM_END;
    to->kind = (int)(kind & 0xFF), to->run = run, to->ticket = ticket, to->connection = s->connected;
}

/* Keeps a piece of the front-end's part of the configuration. 0: go on. */
static inline int ringlet_st__config(ringlet_stream *s, const char *piece, size_t size) {
    size_t most = 64 << 10;
    if (s->config == NULL && (s->config = (char *)malloc(most + 1)) == NULL) {
        s->error = ringlet_st__fail(s, RINGLET_STREAM_SYSTEM, "no memory for %zu bytes of a configuration", most);
        return 1;
    }
    if (size > most - s->said.config_size)
        return 0;
    memcpy(s->config + s->said.config_size, piece, size);
    s->config[s->said.config_size += size] = 0;
    s->said.config = s->config;
    return 0;
}

/* Queues a message of the front-end behind all fragments so far; there must be room. */
static inline void ringlet_st__say(ringlet_stream *s, uint64_t ticket, int kind, const char *text, size_t n) {
    uint32_t size = (uint32_t)n;
    unsigned char *b = s->replies[s->replies_n].frame;
    memset(b, 0, RINGLET_ST__HEADER);
    memcpy(b, &ticket, 8);
    memcpy(b + 8, &size, 4);
    b[12] = RINGLET_ST__UNCHECKED | RINGLET_ST__MESSAGE;
    b[13] = (unsigned char)kind;
    b[14] = 0x46, b[15] = 0x52;
    if (n > 0)
        memcpy(b + RINGLET_ST__HEADER, text, n);
    s->replies[s->replies_n].size = RINGLET_ST__HEADER + n;
    s->replies[s->replies_n++].behind = s->head;
}

/* Queues whether this front-end is busy, if the readout unit wants to hear it and has not. Answers to commands need room,
 * too: else it follows later. */
static inline void ringlet_st__say_busy(ringlet_stream *s) {
    if (s->state != RINGLET_ST__OPEN || !s->hears_busy || s->says_busy == s->said_busy ||
        s->replies_n >= (int)(sizeof s->replies / sizeof s->replies[0]) / 2)
        return;
    s->said_busy = s->says_busy;
    ringlet_st__say(s, 0, s->says_busy ? 4 : 5, NULL, 0);
}

/* Handles one answer. 0: go on. */
static inline int ringlet_st__answer(ringlet_stream *s, const unsigned char *head, const char *sentence, size_t size) {
    uint64_t a, b = 0, most = s->last > s->next ? s->last : s->next;
    uint32_t c = 0, d = 0;
    memcpy(&a, head + 8, 8);
    if (head[4] == 2)
        memcpy(&b, head + 16, 8), memcpy(&c, head + 24, 4), memcpy(&d, head + 28, 4);
    if (head[5] >= 2 && head[5] <= 6) {
        ringlet_st__fail(s, 0, "the readout unit at %s refuses this front-end: %s", s->address, sentence);
        if (head[5] != 5)
            s->error = RINGLET_STREAM_REFUSED;
        return 1;
    }
    if (s->state == RINGLET_ST__GREETING) {
        if (s->secret_size > 0 && head[4] == 2 && s->to_greet == s->hello_size)
            return ringlet_st__proven(s, head, sentence);
        if (head[5] != 0 || head[4] != 2) {
            ringlet_st__fail(s, 0, "%s: the first answer has the version %u and the code %u", s->address, head[4], head[5]);
            return 1;
        }
        ringlet_st__accepted(s, a, b, d);
        return s->error != 0;
    }
    switch (head[5]) {
    case 1:
        if (a > most)
            a = most; /* nothing more was sent */
        if (a > s->safe)
            s->safe = a;
        ringlet_st__forget(s);
        return 0;
    case 7:
        if (a >= b)
            return 0; /* no event */
        if (s->gave[0] == 0)
            snprintf(s->gave, sizeof s->gave, "events from %" PRIu64 " up to %" PRIu64 ": %.300s", a, b - 1, sentence);
        s->given_up += d;
        if (b - a == d)
            ringlet_st__gave_up(s, a, b);
        if (s->set.given_up != NULL) {
            ringlet_stream_given_up what = {a, b, c, d, sentence};
            s->set.given_up(s->set.context, &what);
        }
        return 0;
    case 8:
        if (s->closing && a == s->end)
            s->end_taken = 1;
        return 0;
    case 9:
        ringlet_st__told(s, a, b, c);
        return 0;
    case 11:
        s->said.source = (unsigned)a;
        snprintf(s->said.name, sizeof s->said.name, "%.*s", (int)strcspn(sentence, "\n"), sentence);
        s->said.config = NULL, s->said.config_size = 0;
        return 0;
    case 12:
        return ringlet_st__config(s, sentence, size);
    case 13:
        s->hears_busy = 1, s->busy = (unsigned)a;
        ringlet_st__say_busy(s);
        return 0;
    default: return 0; /* a code of a later release */
    }
}

/* Receives bytes and handles the answers in them. 0: go on. */
static inline int ringlet_st__parse(ringlet_stream *s) {
    size_t at = 0;
    while (s->got - at >= 8) {
        const unsigned char *b = s->in + at;
        uint16_t length;
        memcpy(&length, b + 6, 2);
        size_t head = b[4] == 1 ? 24 : 32;
        if (memcmp(b, "RLFA", 4) != 0 || (b[4] != 1 && b[4] != 2) || length > 512) {
            s->error = ringlet_st__fail(s, RINGLET_STREAM_REFUSED, "%s: what answers there is no readout unit of Ringlet, or "
                                        "one of another version", s->address);
            return 1;
        }
        if (s->got - at < head + length)
            break;
        char sentence[513];
        memcpy(sentence, b + head, length);
        sentence[length] = 0;
        at += head + length;
        if (ringlet_st__answer(s, b, sentence, length))
            return 1;
    }
    memmove(s->in, s->in + at, s->got - at);
    s->got -= at;
    return 0;
}

static inline void ringlet_st__receive(ringlet_stream *s) {
    for (int i = 0; i < 64; i++) {
        ssize_t n = recv(s->fd, s->in + s->got, sizeof s->in - s->got, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            ringlet_st__fail(s, 0, "%s: the connection is gone: %s", s->address,
                             n == 0 ? "the readout unit has closed it" : strerror(errno));
            ringlet_st__lost(s);
            return;
        }
        s->got += (size_t)n;
        if (ringlet_st__parse(s)) {
            ringlet_st__lost(s);
            return;
        }
    }
}

static inline void ringlet_st__write(ringlet_stream *s) {
    while (s->state == RINGLET_ST__OPEN && (s->sent < s->head || s->replies_n > 0)) {
        size_t at = (size_t)(s->sent % s->set.keep), n = s->set.keep - at;
        uint64_t to = s->replies_n > 0 ? s->replies[0].behind : s->head;
        int reply = s->replies_n > 0 && s->sent >= to;
        if (n > to - s->sent)
            n = (size_t)(to - s->sent);
        const unsigned char *from = reply ? s->replies[0].frame + s->replied : s->mem + at;
        if (reply)
            n = s->replies[0].size - s->replied;
        ssize_t done = send(s->fd, from, n, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0) {
            if (errno != EAGAIN) { /* the last answer may say why */
                ringlet_st__fail(s, 0, "%s: the connection is gone: %s", s->address, strerror(errno));
                ringlet_st__receive(s);
                if (s->state == RINGLET_ST__OPEN)
                    ringlet_st__lost(s);
            }
            return;
        }
        if (reply) {
            if ((s->replied += (size_t)done) == s->replies[0].size) {
                memmove(s->replies, s->replies + 1, sizeof s->replies[0] * (size_t)--s->replies_n);
                s->replied = 0;
                ringlet_st__say_busy(s);
            }
            continue;
        }
        s->sent += (uint64_t)done;
        ringlet_st__forget(s);
    }
}

/* Sends the hello, or the rest of it. */
static inline void ringlet_st__greet(ringlet_stream *s) {
    ssize_t n = send(s->fd, s->hello + s->greeted, s->to_greet - s->greeted, MSG_NOSIGNAL);
    if (n >= 0) {
        s->greeted += (size_t)n;
    } else if (errno != EAGAIN && errno != EINTR) {
        ringlet_st__fail(s, 0, "%s: the connection is gone: %s", s->address, strerror(errno));
        ringlet_st__lost(s);
    }
}

/* Continues the work on the connection: connects, sends, receives. Waits for ms at most. */
static inline void ringlet_st__step(ringlet_stream *s, int64_t ms) {
    int64_t now = ringlet_st__now();
    if (s->state == RINGLET_ST__APART && now >= s->again)
        ringlet_st__connect(s);
    if (s->state == RINGLET_ST__APART) {
        int64_t pause = s->again - now < ms ? s->again - now : ms;
        if (pause > 0)
            poll(NULL, 0, (int)pause);
        return;
    }
    if (s->state != RINGLET_ST__OPEN && s->until - now < ms)
        ms = s->until > now ? s->until - now : 0;
    struct pollfd p = {s->fd, POLLIN, 0};
    if (s->state == RINGLET_ST__CONNECTING || (s->state == RINGLET_ST__GREETING && s->greeted < s->to_greet) ||
        (s->state == RINGLET_ST__OPEN && (s->sent < s->head || s->replies_n > 0)))
        p.events |= POLLOUT;
    int ready = poll(&p, 1, (int)(ms < 1000 ? ms : 1000));
    if (ready > 0 && s->state == RINGLET_ST__CONNECTING && (p.revents & (POLLOUT | POLLERR | POLLHUP))) {
        int wrong = 0;
        socklen_t size = sizeof wrong;
        if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &wrong, &size) != 0 || wrong != 0) {
            ringlet_st__fail(s, 0, "%s: no connection: %s", s->address, strerror(wrong != 0 ? wrong : errno));
            ringlet_st__lost(s);
            return;
        }
        s->state = RINGLET_ST__GREETING;
        s->until = now + 10000;
    }
    if (ready > 0 && s->state == RINGLET_ST__GREETING && s->greeted < s->to_greet)
        ringlet_st__greet(s);
    if (ready > 0 && s->state >= RINGLET_ST__GREETING && (p.revents & (POLLIN | POLLERR | POLLHUP)))
        ringlet_st__receive(s);
    ringlet_st__write(s);
    if ((s->state == RINGLET_ST__CONNECTING || s->state == RINGLET_ST__GREETING) && ringlet_st__now() >= s->until) {
        ringlet_st__fail(s, 0, "%s: nobody answers", s->address);
        ringlet_st__lost(s);
    }
}

/* How long a step may wait, in ms: until is the caller's deadline, 0 for none. Below 0: the deadline has passed. */
static inline int64_t ringlet_st__left(int64_t until) {
    return until == 0 ? 1000 : until - ringlet_st__now();
}

/* Queues a frame as soon as there is room. */
static inline int ringlet_st__queue(ringlet_stream *s, uint64_t event, const ringlet_stream_words *words, const void *data,
                                    size_t size, int flags, int type, int64_t until) {
    unsigned char h[RINGLET_ST__HEADERS] = {0};
    uint32_t n = (uint32_t)size;
    size_t head = RINGLET_ST__HEADER;
    if (words != NULL && words->has_trigger) {
        memcpy(h + head, &words->trigger, 8);
        head += 8, flags |= RINGLET_ST__TRIGGER;
    }
    if (words != NULL && words->has_stamp) {
        memcpy(h + head, &words->stamp, 8);
        head += 8, flags |= RINGLET_ST__STAMP;
    }
    while (s->error == 0 && s->set.keep - (s->head - s->tail) < size + head) {
        int64_t left = ringlet_st__left(until);
        ringlet_st__step(s, left > 0 ? left : 0);
        if (left <= 0 && s->error == 0 && s->set.keep - (s->head - s->tail) < size + head)
            return ringlet_st__fail(s, RINGLET_STREAM_FULL, "event %" PRIu64 " was not sent: all memory has fragments that are "
                                    "not safe; events from %" PRIu64 " on are not", event, s->safe);
    }
    if (s->error != 0)
        return s->error;
    memcpy(h, &event, 8);
    memcpy(h + 8, &n, 4);
    h[12] = (unsigned char)(flags | (s->set.unchecked ? RINGLET_ST__UNCHECKED : 0));
    h[13] = (unsigned char)type;
    h[14] = 0x46, h[15] = 0x52;
    if (!s->set.unchecked) {
        uint32_t c = ringlet_st__crc(s, UINT32_MAX, h, 16);
        c = ringlet_st__crc(s, c, h + RINGLET_ST__HEADER, head - RINGLET_ST__HEADER);
        c = ~ringlet_st__crc(s, c, (const unsigned char *)data, size);
        memcpy(h + 16, &c, 4);
    }
    ringlet_st__put(s, h, head);
    ringlet_st__put(s, data, size);
    return RINGLET_STREAM_OK;
}

static inline int ringlet_st__address(const char *address) {
    size_t n = strlen(address), size;
    if (n >= 256)
        return 0;
    if (strncmp(address, "unix:", 5) == 0)
        return n > 5 && n - 5 < sizeof ((struct sockaddr_un *)0)->sun_path;
    if (strncmp(address, "tcp:", 4) != 0)
        return 0;
    for (address += 4;; address += size + 1) { /* host:port, perhaps several with commas between them */
        size = strcspn(address, ",");
        const char *colon = (const char *)memrchr(address, ':', size);
        if (colon == NULL || colon + 1 == address + size)
            return 0;
        if (address[size] == 0)
            return 1;
    }
}

/* ---- the stream ---- */

/* Closes the stream without declaring the end of the run. Fragments that are not safe may be lost. May be called
 * twice. */
static inline void ringlet_stream_abort(ringlet_stream *s) {
    if (s->fd >= 0)
        close(s->fd);
    free(s->mem);
    free(s->config);
    s->fd = -1;
    s->mem = NULL;
    s->config = NULL;
    if (s->error == 0)
        s->error = RINGLET_STREAM_CLOSED;
}

/* Connects to a readout unit, and waits up to timeout_ms (-1: for ever) until it accepts. After an error there is
 * nothing to close. settings may be NULL. */
static inline int ringlet_stream_open(ringlet_stream *s, const char *address, const ringlet_stream_settings *settings,
                                      int timeout_ms) {
    int64_t until = timeout_ms < 0 ? 0 : ringlet_st__now() + timeout_ms;
    memset(s, 0, sizeof *s);
    s->fd = -1, s->pause = 20, s->timeout_ms = -1, s->largest = RINGLET_ST__NARROW;
    if (settings != NULL)
        s->set = *settings;
    const char *name = s->set.name == NULL ? "" : s->set.name;
    size_t n = strlen(name);
    if (!ringlet_st__address(address))
        return ringlet_st__fail(s, s->error = RINGLET_STREAM_SETTINGS, "a stream cannot go to %s: give tcp:host:port or "
                                "unix:path", address);
    if (n > 64)
        return ringlet_st__fail(s, s->error = RINGLET_STREAM_SETTINGS, "the name of a front-end has %zu bytes: 64 are the most", n);
    if (s->set.keep == 0)
        s->set.keep = (size_t)64 << 20;
    if (s->set.keep < (size_t)RINGLET_ST__NARROW + (size_t)RINGLET_ST__HEADERS)
        return ringlet_st__fail(s, s->error = RINGLET_STREAM_SETTINGS, "a stream cannot keep %zu bytes only: %d is one fragment",
                                s->set.keep, (int)RINGLET_ST__NARROW + (int)RINGLET_ST__HEADERS);
    if (s->set.type < 0 || s->set.type > 254 || (s->set.has_source && (s->set.source < 0 || s->set.source > 65534)))
        return ringlet_st__fail(s, s->error = RINGLET_STREAM_SETTINGS, "a type is 1 to 254, and a source 0 to 65534");
    if ((s->error = ringlet_st__secret(s, address)) != 0)
        return s->error;
    if ((s->mem = (unsigned char *)malloc(s->set.keep)) == NULL)
        return ringlet_st__fail(s, s->error = RINGLET_STREAM_SYSTEM, "no memory for %zu bytes that are kept", s->set.keep);
    snprintf(s->address, sizeof s->address, "%s", address);
    ringlet_st__tables(s);
    uint16_t source = s->set.has_source ? (uint16_t)s->set.source : UINT16_MAX;
    uint16_t option[2] = {1, (uint16_t)n}, options = n > 0 ? (uint16_t)(4 + n) : 0;
    memcpy(s->hello, "RLFH\2", 5);
    s->hello[5] = s->set.type == 0 ? 255 : (unsigned char)s->set.type;
    memcpy(s->hello + 6, &source, 2);
    memcpy(s->hello + 8, &s->set.run, 8);
    memcpy(s->hello + 16, &options, 2);
    if (n > 0)
        memcpy(s->hello + 24, option, 4), memcpy(s->hello + 28, name, n);
    if (s->set.follow) {
        uint16_t follows[2] = {0x8004, 0}; /* an older Ringlet refuses it */
        memcpy(s->hello + 24 + options, follows, 4);
        options = (uint16_t)(options + 4);
        memcpy(s->hello + 16, &options, 2);
    }
    if (s->secret_size > 0) {
        uint16_t nonce[2] = {3, 24};
        memcpy(s->hello + 24 + options, nonce, 4); /* and 24 random bytes, new for each connection */
        options = (uint16_t)(options + 28);
        memcpy(s->hello + 16, &options, 2);
    }
    s->hello_size = 24 + (size_t)options;
    s->set.name = NULL; /* the string belongs to the caller */
    while (s->error == 0 && s->state != RINGLET_ST__OPEN) {
        int64_t left = ringlet_st__left(until);
        if (left <= 0) {
            char why[sizeof s->why];
            memcpy(why, s->why, sizeof why);
            s->error = ringlet_st__fail(s, RINGLET_STREAM_TIMEOUT, "no stream within %d ms: %.800s", timeout_ms,
                                        why[0] == 0 ? "nobody answers" : why);
            break;
        }
        ringlet_st__step(s, left);
    }
    int error = s->error;
    if (error != 0)
        ringlet_stream_abort(s);
    return error;
}

/* Sends queued fragments, handles answers, connects again. It waits for ms at most. */
static inline int ringlet_stream_poll(ringlet_stream *s, int ms) {
    if (s->mem == NULL || s->error != 0)
        return s->error != 0 ? s->error : (int)RINGLET_STREAM_CLOSED;
    ringlet_st__step(s, ms > 0 ? ms : 0);
    return s->error;
}

/* Waits up to timeout_ms (-1: for ever) for the next command of the run, in a stream with set.follow. 1: *to has it; 0: there
 * is none; below 0: the error of the stream. After a break of the connection the first one is RINGLET_STREAM_PREPARE. */
static inline int ringlet_stream_next_command(ringlet_stream *s, ringlet_stream_command *to, int timeout_ms) {
    int64_t until = timeout_ms < 0 ? 0 : ringlet_st__now() + timeout_ms;
    memset(to, 0, sizeof *to);
    for (;;) {
        int64_t left = ringlet_st__left(until);
        int error = ringlet_stream_poll(s, s->commands_n > 0 || left < 0 ? 0 : (int)left);
        if (error != 0)
            return error;
        if (s->commands_n > 0) {
            *to = s->commands[0];
            memmove(s->commands, s->commands + 1, sizeof s->commands[0] * (size_t)--s->commands_n);
            return 1;
        }
        if (left <= 0)
            return 0;
    }
}

/* Answers a command: the front-end is where it leads (failed is NULL), or failed says why it cannot go there. The answer
 * follows all fragments that were sent before; an answer to a command of an earlier connection has no effect.
 * RINGLET_STREAM_FULL: eight answers wait behind fragments; it is not taken, try again. */
static inline int ringlet_stream_answer(ringlet_stream *s, const ringlet_stream_command *to, const char *failed) {
    if (s->mem == NULL || s->error != 0)
        return s->error != 0 ? s->error : (int)RINGLET_STREAM_CLOSED;
    if (s->state != RINGLET_ST__OPEN || to->connection != s->connected)
        return RINGLET_STREAM_OK;
    if (s->replies_n == (int)(sizeof s->replies / sizeof s->replies[0]))
        ringlet_st__write(s);
    if (s->replies_n == (int)(sizeof s->replies / sizeof s->replies[0]))
        return ringlet_st__fail(s, RINGLET_STREAM_FULL, "the answer to a command is not taken: %d others wait to be sent behind "
                                "fragments; call ringlet_stream_poll, and answer again", s->replies_n);
    size_t n = failed == NULL ? 0 : strlen(failed) < 512 ? strlen(failed) : 512;
    ringlet_st__say(s, to->ticket, failed != NULL ? 2 : to->kind == RINGLET_STREAM_END ? 3 : 1, failed, n);
    ringlet_st__write(s);
    return s->error;
}

/* Says whether this front-end is busy, in a stream with set.follow: then its readout unit is, too, and says so to whoever
 * throttles the trigger. It follows what was sent before, and is said again after a break. */
static inline int ringlet_stream_set_busy(ringlet_stream *s, int busy) {
    if (s->mem == NULL || s->error != 0)
        return s->error != 0 ? s->error : (int)RINGLET_STREAM_CLOSED;
    s->says_busy = busy != 0;
    ringlet_st__say_busy(s);
    ringlet_st__write(s);
    return s->error;
}

/* Sends a fragment, or keeps it until there is a connection; it copies the data. It waits while fragments that are not
 * safe fill the memory. words: may be NULL; type: of this fragment's bank, -1: the stream's. */
static inline int ringlet_stream_send_with(ringlet_stream *s, uint64_t event, const ringlet_stream_words *words,
                                           const void *data, size_t size, int type) {
    if (s->mem == NULL || s->error != 0)
        return s->error != 0 ? s->error : (int)RINGLET_STREAM_CLOSED;
    if (size > s->largest)
        return ringlet_st__fail(s, RINGLET_STREAM_TOO_LARGE, "the fragment of event %" PRIu64 " has %zu bytes, and %" PRIu32
                                " are the most: put ?max= behind the address of the input, and keep three times as much", event, size,
                                s->largest);
    uint64_t least = s->last > s->next ? s->last : s->next;
    if (event == UINT64_MAX)
        return ringlet_st__fail(s, RINGLET_STREAM_ORDER, "an event's number is from 0 to 2^64-2");
    if (event < least)
        return ringlet_st__fail(s, RINGLET_STREAM_ORDER, "event numbers must grow: event %" PRIu64 " comes where %" PRIu64
                                " or a higher one is next; a front-end that counts anew needs a new run", event, least);
    int64_t until = s->timeout_ms < 0 ? 0 : ringlet_st__now() + s->timeout_ms;
    int error = ringlet_st__queue(s, event, words, data, size, type < 0 ? 0 : RINGLET_ST__TYPED, type < 0 ? 0 : type, until);
    if (error != 0)
        return error;
    s->last = event + 1;
    if (s->head - s->sent >= s->set.batch) {
        if (s->state != RINGLET_ST__OPEN || ++s->looked % 64 == 0)
            ringlet_st__step(s, 0);
        else
            ringlet_st__write(s);
    }
    return s->error;
}
static inline int ringlet_stream_send_as(ringlet_stream *s, uint64_t event, const void *data, size_t size, int type) {
    return ringlet_stream_send_with(s, event, NULL, data, size, type);
}
static inline int ringlet_stream_send(ringlet_stream *s, uint64_t event, const void *data, size_t size) {
    return ringlet_stream_send_as(s, event, data, size, -1);
}

/* Whether close has nothing to wait for. */
static inline int ringlet_st__over(const ringlet_stream *s) {
    int gone = s->told_end && s->state != RINGLET_ST__OPEN; /* nobody is left who could take an end, or needs it */
    return (s->end_taken || gone) && ringlet_st__lacks(s) >= s->end;
}

/* Declares the end of the run behind the last event, and waits until Ringlet has taken it and all events are safe or
 * given up (taken is not needed of a run that has told its end, and is gone): timeout_ms at most, or 30 s if timeout_ms is below 0. Then the stream is closed. RINGLET_STREAM_GAVE_UP:
 * some were given up. RINGLET_STREAM_NOT_SAFE: ringlet_stream_error says from which event on fragments may be lost. */
static inline int ringlet_stream_close(ringlet_stream *s, int timeout_ms) {
    if (s->mem == NULL || s->error != 0)
        return s->error != 0 ? s->error : (int)RINGLET_STREAM_CLOSED;
    int64_t until = ringlet_st__now() + (timeout_ms < 0 ? 30000 : timeout_ms);
    s->end = s->last > s->next ? s->last : s->next;
    int error = ringlet_st__queue(s, s->end, NULL, "", 0, RINGLET_ST__END, 0, until);
    s->closing = 1;
    while (error == 0 && s->error == 0 && !ringlet_st__over(s)) {
        int64_t left = ringlet_st__left(until);
        if (left <= 0) {
            char why[300] = "";
            if (s->state != RINGLET_ST__OPEN)
                snprintf(why, sizeof why, " (%.290s)", s->why);
            error = ringlet_st__fail(s, RINGLET_STREAM_NOT_SAFE, "the run ends at event %" PRIu64 ", which Ringlet has %staken, and "
                                     "events from %" PRIu64 " on are not known to be safe%s", s->end,
                                     s->end_taken ? "" : "not ", ringlet_st__lacks(s), why);
            break;
        }
        ringlet_st__step(s, left);
    }
    if (error == 0 && (error = s->error) == 0)
        s->why[0] = 0; /* drops the error of an earlier attempt to connect */
    if (error == 0 && s->gave[0] != 0)
        error = ringlet_st__fail(s, RINGLET_STREAM_GAVE_UP, "the end was taken; %" PRIu64 " fragments that were sent, or more, are "
                                 "in no file of the run; the first of them are those of %s", s->given_up, s->gave);
    ringlet_stream_abort(s);
    return error;
}

#endif
