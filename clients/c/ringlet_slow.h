/* ringlet_slow.h: a program sends slow data to Ringlet: values with a name and a time, kept beside the events of a run.
 *
 * C11 or C++17 and later, gcc or clang, Linux. One header, no library: include it before any other header, or define
 * _GNU_SOURCE.
 *
 *     ringlet_slow s;
 *     ringlet_slow_init(&s, "control:7900");                      the address of --slow-data, or unix:PATH
 *     if (ringlet_slow_number(&s, "hall.temp", 21.5, 0, 10000))   wait up to 10 s until it is on the disk
 *         fprintf(stderr, "%s\n", s.why);
 *     ringlet_slow_close(&s);
 *
 * A value connects where there is no connection, and again where it breaks. A sender is for one thread. The lines are
 * docs/format/slowdata.md. */
#ifndef RINGLET_SLOW_H
#define RINGLET_SLOW_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    RINGLET_SLOW_KEPT = 0,     /* the value is on the disk */
    RINGLET_SLOW_UNKEPT = 1,   /* it is in no file, and to send it again does not help */
    RINGLET_SLOW_TIMEOUT = -1, /* no answer in time: it may be kept or not; send it again with the same time */
    RINGLET_SLOW_WRONG = -2    /* the name, the value or the address cannot be used */
};

typedef struct {
    char why[1024]; /* read this after a value that is not kept: a sentence */
    /* for this header alone */
    char address[256], in[2048];
    size_t got;
    uint64_t sent; /* lines on this connection */
    int fd;
} ringlet_slow;

/* Makes a sender; it connects with the first value. */
static inline void ringlet_slow_init(ringlet_slow *s, const char *address) {
    memset(s, 0, sizeof *s);
    s->fd = -1;
    if (strlen(address) < sizeof s->address)
        strcpy(s->address, address);
}

/* Closes the connection. The next value makes a new one. */
static inline void ringlet_slow_close(ringlet_slow *s) {
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    s->got = 0;
    s->sent = 0;
}

/* The seconds of a clock. */
static inline double ringlet_slow_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Waits for events of the socket until the deadline; 0, or an error of the system. */
static inline int ringlet_slow_wait(ringlet_slow *s, short events, double until) {
    for (;;) {
        double left = until - ringlet_slow_clock(CLOCK_MONOTONIC);
        struct pollfd p = {s->fd, events, 0};
        int n = left > 0 ? poll(&p, 1, left > 1e6 ? 1000000000 : (int)(left * 1000) + 1) : 0;
        if (n > 0)
            return 0;
        if (n < 0 && errno == EINTR)
            continue;
        return n < 0 ? errno : ETIMEDOUT;
    }
}

static inline int ringlet_slow_try(ringlet_slow *s, const struct sockaddr *at, socklen_t size, double until) {
    int error = 0;
    socklen_t length = sizeof error;
    s->fd = socket(at->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->fd < 0)
        return errno;
    if (connect(s->fd, at, size) && errno != EINPROGRESS && errno != EINTR)
        error = errno;
    if (!error)
        error = ringlet_slow_wait(s, POLLOUT, until);
    if (!error && getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &length))
        error = errno;
    if (error)
        ringlet_slow_close(s);
    return error;
}

/* Connects to the address; 0, or an error of the system. */
static inline int ringlet_slow_connect(ringlet_slow *s, double until) {
    char host[256];
    struct addrinfo *all = NULL, *one, want;
    int error = EHOSTUNREACH;
    if (!strncmp(s->address, "unix:", 5)) {
        struct sockaddr_un at;
        memset(&at, 0, sizeof at);
        at.sun_family = AF_UNIX;
        if (strlen(s->address + 5) >= sizeof at.sun_path)
            return ENAMETOOLONG;
        strcpy(at.sun_path, s->address + 5);
        return ringlet_slow_try(s, (struct sockaddr *)&at, sizeof at, until);
    }
    strcpy(host, s->address);
    char *colon = strrchr(host, ':'), *name = host;
    if (!colon)
        return EINVAL;
    *colon = 0;
    if (name[0] == '[' && colon > name + 1 && colon[-1] == ']') {
        colon[-1] = 0;
        name++;
    }
    memset(&want, 0, sizeof want);
    want.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(name, colon + 1, &want, &all))
        return EHOSTUNREACH;
    for (one = all; one && s->fd < 0; one = one->ai_next)
        error = ringlet_slow_try(s, one->ai_addr, one->ai_addrlen, until);
    freeaddrinfo(all);
    return error;
}

/* Reads a line into s->in, without its end; a longer one is cut. 0, or an error of the system. */
static inline int ringlet_slow_line(ringlet_slow *s, char *line, size_t room, double until) {
    for (;;) {
        char *end = (char *)memchr(s->in, '\n', s->got);
        if (end || s->got == sizeof s->in) {
            size_t whole = end ? (size_t)(end - s->in) + 1 : s->got, n = whole - (end ? 1 : 0);
            n = n < room - 1 ? n : room - 1;
            memcpy(line, s->in, n);
            line[n] = 0;
            memmove(s->in, s->in + whole, s->got - whole);
            s->got -= whole;
            return 0;
        }
        int error = ringlet_slow_wait(s, POLLIN, until);
        if (error)
            return error;
        ssize_t n = recv(s->fd, s->in + s->got, sizeof s->in - s->got, 0);
        if (n == 0)
            return ECONNRESET;
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return errno;
        if (n > 0)
            s->got += (size_t)n;
    }
}

/* Sends a line over the connection, and reads its answer into *answer. 0, or an error of the system. */
static inline int ringlet_slow_once(ringlet_slow *s, const char *line, int *answer, double until) {
    char text[1024];
    if (s->fd < 0) {
        int error = ringlet_slow_connect(s, until);
        if (error)
            return error;
    }
    for (size_t size = strlen(line), done = 0; done < size;) {
        int error = ringlet_slow_wait(s, POLLOUT, until);
        if (error)
            return error;
        ssize_t n = send(s->fd, line + done, size - done, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return errno;
        done += n > 0 ? (size_t)n : 0;
    }
    s->sent++;
    *answer = RINGLET_SLOW_KEPT;
    for (;;) {
        uint64_t number;
        int at = 0, error = ringlet_slow_line(s, text, sizeof text, until);
        if (error)
            return error;
        if (sscanf(text, "unkept %" SCNu64 " %n", &number, &at) == 1 && number == s->sent && at > 0) {
            *answer = RINGLET_SLOW_UNKEPT;
            strcpy(s->why, text + at);
        } else if (sscanf(text, "done %" SCNu64, &number) == 1 && number >= s->sent) {
            return 0;
        }
    }
}

static inline int ringlet_slow_send(ringlet_slow *s, const char *name, const char *value, double time, int timeout_ms) {
    char line[8192 + 512];
    double until = timeout_ms < 0 ? 1e18 : ringlet_slow_clock(CLOCK_MONOTONIC) + timeout_ms / 1000.0;
    s->why[0] = 0;
    if (!s->address[0] || !name[0] || name[0] == '#' || strpbrk(name, " \t\r\n") || strlen(name) > 200 || strlen(value) > 8192) {
        snprintf(s->why, sizeof s->why, "the name is empty, has blanks or begins with #, the text is too long, or there is no address");
        return RINGLET_SLOW_WRONG;
    }
    if (time == 0)
        time = ringlet_slow_clock(CLOCK_REALTIME);
    if (!(time >= 0 && time < 7e9)) {
        snprintf(s->why, sizeof s->why, "the time is not in seconds since 1970");
        return RINGLET_SLOW_WRONG;
    }
    long long us = (long long)(time * 1e6 + 0.5); /* a locale's comma would be no point */
    snprintf(line, sizeof line, "%s %s %lld.%06lld\n", name, value, us / 1000000, us % 1000000);
    for (;;) {
        int answer, error = ringlet_slow_once(s, line, &answer, until);
        if (!error)
            return answer;
        ringlet_slow_close(s);
        if (ringlet_slow_clock(CLOCK_MONOTONIC) + 0.1 > until) {
            snprintf(s->why, sizeof s->why, "%s has not answered: %s", s->address, strerror(error));
            return RINGLET_SLOW_TIMEOUT;
        }
        struct timespec pause = {0, 100000000};
        nanosleep(&pause, NULL);
    }
}

/* Sends a number that was so at a time, in seconds since 1970 (0: now), and waits timeout_ms (-1: for ever) until it is
 * on the disk. The result is a RINGLET_SLOW_ word. */
static inline int ringlet_slow_number(ringlet_slow *s, const char *name, double value, double time, int timeout_ms) {
    char text[64];
    if (!isfinite(value)) {
        snprintf(s->why, sizeof s->why, "%s is no finite number: send a word for what the sensor says", name);
        return RINGLET_SLOW_WRONG;
    }
    snprintf(text, sizeof text, "%.17g", value);
    for (char *c = text; *c; c++)
        if (*c == ',') /* of a locale */
            *c = '.';
    return ringlet_slow_send(s, name, text, time, timeout_ms);
}

/* Sends a text in UTF-8, as ringlet_slow_number a number. */
static inline int ringlet_slow_text(ringlet_slow *s, const char *name, const char *text, double time, int timeout_ms) {
    char quoted[8192 + 1];
    size_t n = 0;
    quoted[n++] = '"';
    for (const char *c = text; *c && n < sizeof quoted - 8; c++) {
        if (*c == '"' || *c == '\\') {
            quoted[n++] = '\\';
            quoted[n++] = *c;
        } else if ((unsigned char)*c < 0x20) {
            n += (size_t)snprintf(quoted + n, 8, "\\u%04x", (unsigned)(unsigned char)*c);
        } else {
            quoted[n++] = *c;
        }
        if (n >= sizeof quoted - 8 && c[1]) {
            snprintf(s->why, sizeof s->why, "the text of %s is too long: at most 1024 bytes are kept", name);
            return RINGLET_SLOW_WRONG;
        }
    }
    quoted[n++] = '"';
    quoted[n] = 0;
    return ringlet_slow_send(s, name, quoted, time, timeout_ms);
}

#endif
