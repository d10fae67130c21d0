/* MEPs of a builder unit's shared-memory output (docs/format/buffer.md), for a program on its host.
 *
 * C11, Linux, 64-bit little-endian. One header, no library: include it before any other header, or define _GNU_SOURCE.
 *
 *     ringlet_output out;
 *     ringlet_mep mep;
 *     int error = ringlet_output_open(&out, "ringlet-filter-0", 0, 10000);    wait up to 10 s until it is there
 *     while (!error && !(error = ringlet_output_next(&out, &mep, -1)))
 *         ...                                                                 mep.data, mep.size: until the next call
 *     ringlet_output_close(&out);                                             error: RINGLET_OUTPUT_END after a run
 *
 * A run with --output buffer:filter has an output for each builder unit: ringlet-filter-0, ringlet-filter-1, ... A reader
 * that may lose is not waited for: next returns RINGLET_OUTPUT_LOST where MEPs were overwritten before they were read,
 * says in mep.lost how many, and goes on with the next call. An output is for one thread. */
#ifndef RINGLET_OUTPUT_H
#define RINGLET_OUTPUT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__GLIBC__) && !defined(__USE_GNU)
#error "include ringlet_output.h before any other header, or define _GNU_SOURCE"
#endif
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__ || UINTPTR_MAX != UINT64_MAX
#error "the buffer's layout is for 64-bit little-endian machines"
#endif

enum {
    RINGLET_OUTPUT_OK = 0,
    RINGLET_OUTPUT_END = 1,       /* the run has ended, and everything was given out */
    RINGLET_OUTPUT_LOST = 2,      /* MEPs were overwritten before they were read: call again */
    RINGLET_OUTPUT_TIMEOUT = 3,   /* nothing came in time: call again */
    RINGLET_OUTPUT_NONE = -1,     /* no builder unit has made the output in time */
    RINGLET_OUTPUT_GONE = -2,     /* the builder unit has ended without marking the end of the run */
    RINGLET_OUTPUT_DETACHED = -3, /* the builder unit has taken this reader for dead */
    RINGLET_OUTPUT_READERS = -4,  /* 16 readers are there */
    RINGLET_OUTPUT_VERSION = -5,  /* the layout is of another version: take a client and a builder unit of one release */
    RINGLET_OUTPUT_SHARING = -6,  /* a reader that shares MEPs with others may not lose any */
    RINGLET_OUTPUT_BROKEN = -7,   /* what stands there cannot be */
    RINGLET_OUTPUT_SYSTEM = -8    /* a call of the system failed: errno */
};

typedef struct {
    const unsigned char *data; /* the MEP, docs/format/mep.md; NULL of one that is superseded */
    uint64_t size;             /* bytes */
    uint64_t mep, first_event; /* number of the MEP, event id of its first event */
    uint32_t events, attempt;  /* of several attempts at a MEP the highest counts */
    uint32_t run;
    int superseded;            /* the MEP does not count in that attempt: another builder unit delivers it */
    uint64_t lost;             /* with RINGLET_OUTPUT_LOST: how many */
} ringlet_mep;

typedef struct {
    /* to be read */
    uint64_t lost; /* MEPs that were overwritten before they were read */
    /* of this header alone */
    unsigned char *mem, *annex, *copy;
    uint64_t capacity, annex_size, copy_size, position, held, given, acked;
    size_t size, place;
    uint32_t mode, ordinal;
    int fd, may_lose, synced, padded, jumped, out;
} ringlet_output;

static inline const char *ringlet_output_error(int error) {
    switch (error) {
    case RINGLET_OUTPUT_OK: return "no error";
    case RINGLET_OUTPUT_END: return "the run has ended";
    case RINGLET_OUTPUT_LOST: return "MEPs were overwritten before they were read";
    case RINGLET_OUTPUT_TIMEOUT: return "nothing came in time";
    case RINGLET_OUTPUT_NONE: return "no builder unit of this host has made the output: is its run under way?";
    case RINGLET_OUTPUT_GONE: return "the builder unit has ended without marking the end of the run";
    case RINGLET_OUTPUT_DETACHED: return "the builder unit has taken this reader for dead";
    case RINGLET_OUTPUT_READERS: return "the output has as many readers as it can";
    case RINGLET_OUTPUT_VERSION: return "the layout is of another version: take a client and a builder unit of one release";
    case RINGLET_OUTPUT_SHARING: return "a reader that shares MEPs with others may not lose any";
    case RINGLET_OUTPUT_BROKEN: return "what stands in the memory is no output of a builder unit";
    default: return strerror(errno);
    }
}

/* ---- words ---- */

enum {
    RINGLET_O__HEAD = 0x40, RINGLET_O__FLOOR = 0x80, RINGLET_O__ENDED = 0xC0, RINGLET_O__ENTERED = 0xC8,
    RINGLET_O__NEXT = 0x100, RINGLET_O__LOST = 0x140, RINGLET_O__DATA = 0x180, RINGLET_O__SPACE = 0x1C0,
    RINGLET_O__GONE = 0x200, RINGLET_O__MISSED = 0x208, RINGLET_O__READERS = 0x400, RINGLET_O__ENTRIES = 0x1000,
    RINGLET_O__PID = 4, RINGLET_O__TAIL = 0x40, RINGLET_O__GIVEN = 0x48, RINGLET_O__ACKED = 0x50, RINGLET_O__MISSES = 0x58,
    RINGLET_O__FREE = 0, RINGLET_O__JOINING = 1, RINGLET_O__ACTIVE = 2, RINGLET_O__MAY_LOSE = 3, RINGLET_O__WRITER = 16
};

static inline _Atomic uint64_t *ringlet_o__w64(const ringlet_output *o, size_t off) {
    return (_Atomic uint64_t *)(void *)(o->mem + off);
}
static inline _Atomic uint32_t *ringlet_o__w32(const ringlet_output *o, size_t off) {
    return (_Atomic uint32_t *)(void *)(o->mem + off);
}
static inline void ringlet_o__bell(ringlet_output *o) {
    if (atomic_load(ringlet_o__w32(o, RINGLET_O__SPACE + 4)) == 0)
        return;
    atomic_fetch_add(ringlet_o__w32(o, RINGLET_O__SPACE), 1);
    syscall(SYS_futex, o->mem + RINGLET_O__SPACE, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}
static inline void ringlet_o__tail(ringlet_output *o, uint64_t tail) {
    if (o->may_lose || atomic_load(ringlet_o__w64(o, o->place + RINGLET_O__TAIL)) == tail)
        return;
    atomic_store(ringlet_o__w64(o, o->place + RINGLET_O__TAIL), tail);
    ringlet_o__bell(o);
}
/* 1: another has the lock of that byte; -1: errno. */
static inline int ringlet_o__lock(int fd, int cmd, short type, int byte) {
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    if (fcntl(fd, cmd, &l) != 0)
        return cmd == F_OFD_SETLK && (errno == EAGAIN || errno == EACCES) ? 1 : -1;
    return cmd == F_OFD_GETLK && l.l_type != F_UNLCK;
}
static inline int64_t ringlet_o__now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- opening ---- */

/* The card of a segment says where its memory is: docs/format/segment.md. */
static inline int ringlet_o__segment(const char *path, int *fd, size_t *size) {
    char where[64];
    uint64_t bytes, device, inode;
    unsigned version;
    struct stat st;
    FILE *card = fopen(path, "re");
    if (card == NULL)
        return errno == ENOENT ? RINGLET_OUTPUT_NONE : RINGLET_OUTPUT_SYSTEM;
    int n = fscanf(card, "ringlet-segment %u %63s %" SCNu64 " %" SCNu64 " %" SCNu64, &version, where, &bytes, &device, &inode);
    fclose(card);
    if (n != 5 || version != 2 || strncmp(where, "/proc/", 6) != 0)
        return RINGLET_OUTPUT_BROKEN;
    *fd = open(where, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0)
        return errno == ENOENT ? RINGLET_OUTPUT_NONE : RINGLET_OUTPUT_SYSTEM;
    if (fstat(*fd, &st) != 0 || (uint64_t)st.st_size != bytes || st.st_dev != device || st.st_ino != inode ||
        st.st_uid != geteuid() || (fcntl(*fd, F_GET_SEALS) & F_SEAL_SHRINK) == 0) {
        close(*fd);
        return RINGLET_OUTPUT_BROKEN;
    }
    *size = (size_t)bytes;
    return RINGLET_OUTPUT_OK;
}

static inline int ringlet_o__map(ringlet_output *o, const char *path) {
    int error = ringlet_o__segment(path, &o->fd, &o->size), fd;
    uint64_t magic, data, annex;
    uint32_t version;
    char beside[4096];
    if (error)
        return error;
    o->mem = o->size < 8192 ? MAP_FAILED : mmap(NULL, o->size, PROT_READ | PROT_WRITE, MAP_SHARED, o->fd, 0);
    if (o->mem == MAP_FAILED) {
        o->mem = NULL;
        return o->size < 8192 ? RINGLET_OUTPUT_BROKEN : RINGLET_OUTPUT_SYSTEM;
    }
    memcpy(&magic, o->mem, 8), memcpy(&version, o->mem + 8, 4), memcpy(&o->mode, o->mem + 12, 4);
    memcpy(&data, o->mem + 16, 8), memcpy(&o->capacity, o->mem + 24, 8), memcpy(&annex, o->mem + 40, 8);
    if (magic != UINT64_C(0x524655424C474E52))
        return RINGLET_OUTPUT_BROKEN;
    if (version != 3)
        return RINGLET_OUTPUT_VERSION;
    if (data != RINGLET_O__ENTRIES || o->capacity != o->size - RINGLET_O__ENTRIES || (o->mode != 1 && o->mode != 2))
        return RINGLET_OUTPUT_BROKEN;
    if (annex == 0)
        return RINGLET_OUTPUT_OK;
    const char *slash = strrchr(path, '/');
    size_t got;
    snprintf(beside, sizeof beside, "%.*s%.200s", slash == NULL ? 0 : (int)(slash - path) + 1, path, (const char *)o->mem + 0x240);
    if ((error = ringlet_o__segment(beside, &fd, &got)) != 0)
        return error;
    o->annex = got != annex ? MAP_FAILED : mmap(NULL, got, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (o->annex == MAP_FAILED) {
        o->annex = NULL;
        return got != annex ? RINGLET_OUTPUT_BROKEN : RINGLET_OUTPUT_SYSTEM;
    }
    o->annex_size = annex;
    return RINGLET_OUTPUT_OK;
}

static inline int ringlet_o__join(ringlet_output *o) {
    if (o->may_lose && o->mode == 2)
        return RINGLET_OUTPUT_SHARING;
    for (int i = 0; i < RINGLET_O__WRITER; i++) {
        size_t me = RINGLET_O__READERS + 0x80 * (size_t)i;
        int taken = ringlet_o__lock(o->fd, F_OFD_SETLK, F_WRLCK, i);
        if (taken < 0)
            return RINGLET_OUTPUT_SYSTEM;
        if (taken)
            continue;
        if (atomic_load(ringlet_o__w32(o, me)) != RINGLET_O__FREE) {
            ringlet_o__lock(o->fd, F_OFD_SETLK, F_UNLCK, i);
            continue;
        }
        o->place = me;
        atomic_store(ringlet_o__w32(o, me + RINGLET_O__PID), (uint32_t)getpid());
        atomic_store(ringlet_o__w64(o, me + RINGLET_O__GIVEN), 0);
        atomic_store(ringlet_o__w64(o, me + RINGLET_O__ACKED), 0);
        atomic_store(ringlet_o__w64(o, me + RINGLET_O__MISSES), 0);
        if (o->may_lose) {
            atomic_store(ringlet_o__w32(o, me), RINGLET_O__MAY_LOSE);
            o->position = atomic_load(ringlet_o__w64(o, RINGLET_O__FLOOR));
            o->synced = o->position == 0;
        } else {
            if (o->mode == 2) {
                atomic_store(ringlet_o__w64(o, me + RINGLET_O__TAIL), UINT64_MAX);
            } else {
                atomic_store(ringlet_o__w32(o, me), RINGLET_O__JOINING);
                do {
                    o->position = atomic_load(ringlet_o__w64(o, RINGLET_O__FLOOR));
                    atomic_store(ringlet_o__w64(o, me + RINGLET_O__TAIL), o->position);
                } while (atomic_load(ringlet_o__w64(o, RINGLET_O__FLOOR)) != o->position);
            }
            atomic_store(ringlet_o__w32(o, me), RINGLET_O__ACTIVE);
        }
        ringlet_o__bell(o);
        return RINGLET_OUTPUT_OK;
    }
    return RINGLET_OUTPUT_READERS;
}

/* Leaves the output. Twice is once. */
static inline void ringlet_output_close(ringlet_output *o) {
    if (o->place) {
        uint64_t gone = atomic_load(ringlet_o__w64(o, RINGLET_O__GONE));
        uint64_t tail = atomic_load(ringlet_o__w64(o, o->place + RINGLET_O__TAIL));
        if (!o->may_lose && o->out)
            atomic_fetch_add(ringlet_o__w64(o, RINGLET_O__LOST), 1);
        while (!o->may_lose && o->mode == 1 && gone < tail &&
               !atomic_compare_exchange_weak(ringlet_o__w64(o, RINGLET_O__GONE), &gone, tail))
            ;
        atomic_store(ringlet_o__w32(o, o->place), RINGLET_O__FREE);
        ringlet_o__bell(o);
    }
    if (o->mem != NULL)
        munmap(o->mem, o->size);
    if (o->annex != NULL)
        munmap(o->annex, o->annex_size);
    if (o->fd >= 0)
        close(o->fd);
    free(o->copy);
    o->mem = o->annex = o->copy = NULL, o->place = 0, o->fd = -1;
}

/* Attaches to the output of that name in /dev/shm, or at that path. timeout_ms: how long to wait until a builder unit has
 * made it; -1 waits for ever. */
static inline int ringlet_output_open(ringlet_output *o, const char *name, int may_lose, int timeout_ms) {
    char path[4096];
    int64_t until = ringlet_o__now() + timeout_ms;
    snprintf(path, sizeof path, "%s%s", strchr(name, '/') == NULL ? "/dev/shm/" : "", name);
    for (;;) {
        memset(o, 0, sizeof *o);
        o->fd = -1, o->may_lose = may_lose != 0;
        int error = ringlet_o__map(o, path);
        if (error == 0 && (error = ringlet_o__join(o)) == 0)
            return error;
        ringlet_output_close(o);
        if (error != RINGLET_OUTPUT_NONE || (timeout_ms >= 0 && ringlet_o__now() >= until))
            return error;
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
}

/* ---- reading ---- */

typedef struct { uint32_t length, type, stride, ordinal; } ringlet_o__header;

/* Something of what may have been overwritten was read: was it? */
static inline int ringlet_o__overtaken(ringlet_output *o) {
    atomic_thread_fence(memory_order_seq_cst);
    return o->may_lose && atomic_load(ringlet_o__w64(o, RINGLET_O__FLOOR)) > o->position;
}

/* Reads and checks the entry at the position. 0: it is sound. */
static inline int ringlet_o__look(ringlet_output *o, uint64_t head, ringlet_o__header *h, const unsigned char **data, uint64_t *size) {
    uint64_t at = o->position, off = at % o->capacity, where[2];
    if (at % 16 || head % 16 || head < at || head - at > o->capacity)
        return 1;
    memcpy(h, o->mem + RINGLET_O__ENTRIES + off, sizeof *h);
    int lent = h->stride & 1;
    h->stride &= ~1u;
    if (h->stride < 16 || h->stride % 16 || h->stride > head - at || off + h->stride > o->capacity || h->length > h->stride - 16)
        return 1;
    *data = o->mem + RINGLET_O__ENTRIES + off + 16, *size = h->length;
    if (!lent || h->type == UINT32_MAX)
        return 0;
    memcpy(where, *data, sizeof where);
    if (h->length != 16 || where[0] > o->annex_size || where[1] > o->annex_size - where[0])
        return 1;
    *data = o->annex + where[0], *size = where[1];
    return 0;
}

/* Copies for a reader that may lose. */
static inline int ringlet_o__copy(ringlet_output *o, const unsigned char **data, uint64_t size) {
    if (size > o->copy_size) {
        unsigned char *more = realloc(o->copy, size);
        if (more == NULL)
            return 1;
        o->copy = more, o->copy_size = size;
    }
    memcpy(o->copy, *data, size);
    *data = o->copy;
    return 0;
}

static inline int ringlet_o__miss(ringlet_output *o, ringlet_mep *m, uint32_t ordinal) {
    m->lost = ordinal - o->ordinal; /* modulo 2^32 */
    o->ordinal = ordinal, o->jumped = 0, o->lost += m->lost;
    atomic_store(ringlet_o__w64(o, o->place + RINGLET_O__MISSES), o->lost);
    atomic_fetch_add(ringlet_o__w64(o, RINGLET_O__MISSED), m->lost);
    return RINGLET_OUTPUT_LOST;
}

/* One look: OK, LOST, BROKEN, SYSTEM, or TIMEOUT where there is nothing. */
static inline int ringlet_o__poll(ringlet_output *o, ringlet_mep *m, const unsigned char **data, uint64_t *size, uint32_t *type) {
    for (;;) {
        ringlet_o__header h = {0, 0, 0, 0};
        if (o->mode == 2)
            o->position = atomic_load(ringlet_o__w64(o, RINGLET_O__NEXT));
        uint64_t floor = atomic_load(ringlet_o__w64(o, RINGLET_O__FLOOR));
        if (o->may_lose && floor > o->position)
            o->position = floor, o->jumped = 1;
        uint64_t at = o->position, head = atomic_load(ringlet_o__w64(o, RINGLET_O__HEAD));
        if (head == at) {
            if (o->mode == 2)
                ringlet_o__tail(o, UINT64_MAX);
            return RINGLET_OUTPUT_TIMEOUT;
        }
        if (o->mode == 2)
            ringlet_o__tail(o, at); /* before the claim */
        int broken = ringlet_o__look(o, head, &h, data, size);
        if (o->mode == 2 && atomic_load(ringlet_o__w64(o, RINGLET_O__NEXT)) != at)
            continue; /* another was faster */
        int pad = h.type == UINT32_MAX, failed = 0;
        if (o->may_lose && !broken && !pad && !ringlet_o__overtaken(o))
            failed = ringlet_o__copy(o, data, *size);
        if (ringlet_o__overtaken(o))
            continue;
        if (broken || failed)
            return broken ? RINGLET_OUTPUT_BROKEN : RINGLET_OUTPUT_SYSTEM;
        if (o->mode == 1 && o->synced && o->jumped && h.ordinal != o->ordinal)
            return ringlet_o__miss(o, m, h.ordinal);
        if (o->mode == 1 && o->synced && h.ordinal != o->ordinal && !(o->padded && h.ordinal == o->ordinal + 1))
            return RINGLET_OUTPUT_BROKEN;
        if (o->mode == 2) {
            atomic_store(ringlet_o__w64(o, o->place + RINGLET_O__GIVEN), o->given + !pad);
            if (!atomic_compare_exchange_strong(ringlet_o__w64(o, RINGLET_O__NEXT), &at, at + h.stride)) {
                atomic_store(ringlet_o__w64(o, o->place + RINGLET_O__GIVEN), o->given);
                continue;
            }
        }
        o->position += h.stride;
        o->ordinal = h.ordinal + !pad, o->synced = 1, o->padded = pad, o->jumped = 0;
        if (pad) {
            ringlet_o__tail(o, o->mode == 2 ? UINT64_MAX : o->position);
            continue;
        }
        *type = h.type;
        atomic_store(ringlet_o__w64(o, o->place + RINGLET_O__GIVEN), ++o->given);
        o->out = 1;
        return RINGLET_OUTPUT_OK;
    }
}

/* Waits until something new may be there. 0: the builder unit is gone. */
static inline int ringlet_o__wait(ringlet_output *o, uint64_t head, int ms) {
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    atomic_fetch_add(ringlet_o__w32(o, RINGLET_O__DATA + 4), 1);
    uint32_t seq = atomic_load(ringlet_o__w32(o, RINGLET_O__DATA));
    long rc = 0;
    if (atomic_load(ringlet_o__w64(o, RINGLET_O__HEAD)) == head && atomic_load(ringlet_o__w64(o, RINGLET_O__ENDED)) == 0)
        rc = syscall(SYS_futex, o->mem + RINGLET_O__DATA, FUTEX_WAIT, seq, &t, NULL, 0);
    int late = rc != 0 && errno == ETIMEDOUT;
    atomic_fetch_sub(ringlet_o__w32(o, RINGLET_O__DATA + 4), 1);
    return !late || ringlet_o__lock(o->fd, F_OFD_GETLK, F_WRLCK, RINGLET_O__WRITER) != 0;
}

/* Gives the MEP that it gave before back to the builder unit, and gives the next one. timeout_ms: how long to wait for it;
 * -1 waits as long as the builder unit lives. */
static inline int ringlet_output_next(ringlet_output *o, ringlet_mep *m, int timeout_ms) {
    const unsigned char *data = NULL;
    uint64_t size = 0;
    uint32_t type = 0;
    int64_t until = ringlet_o__now() + timeout_ms;
    int alive = 1;
    memset(m, 0, sizeof *m);
    if (o->out) {
        o->out = 0;
        atomic_store(ringlet_o__w64(o, o->place + RINGLET_O__ACKED), ++o->acked);
        ringlet_o__tail(o, o->mode == 2 ? UINT64_MAX : o->position);
    }
    for (;;) {
        if (atomic_load(ringlet_o__w32(o, o->place)) != (o->may_lose ? RINGLET_O__MAY_LOSE : RINGLET_O__ACTIVE))
            return RINGLET_OUTPUT_DETACHED;
        uint64_t head = atomic_load(ringlet_o__w64(o, RINGLET_O__HEAD));
        uint64_t ended = atomic_load(ringlet_o__w64(o, RINGLET_O__ENDED)); /* before the look */
        int got = ringlet_o__poll(o, m, &data, &size, &type);
        if (got == RINGLET_OUTPUT_OK)
            break;
        if (got != RINGLET_OUTPUT_TIMEOUT)
            return got;
        uint32_t entered = (uint32_t)atomic_load(ringlet_o__w64(o, RINGLET_O__ENTERED));
        if (ended && o->may_lose && o->synced && o->jumped && entered != o->ordinal)
            return ringlet_o__miss(o, m, entered);
        if (ended || !alive)
            return ended == 1 ? RINGLET_OUTPUT_END : RINGLET_OUTPUT_GONE;
        int64_t left = timeout_ms < 0 ? 100 : until - ringlet_o__now();
        if (left <= 0)
            return RINGLET_OUTPUT_TIMEOUT;
        alive = ringlet_o__wait(o, head, left < 100 ? (int)left : 100);
    }
    if (size < 32 || (type != 0xCEFA && (type != 0x50555352 || size != 32)))
        return RINGLET_OUTPUT_BROKEN;
    const unsigned char *mark = data + size - 32;
    memcpy(&m->mep, mark, 8), memcpy(&m->first_event, mark + 8, 8), memcpy(&m->events, mark + 16, 4);
    memcpy(&m->attempt, mark + 20, 4), memcpy(&m->run, mark + 24, 4);
    m->superseded = type != 0xCEFA, m->size = size - 32, m->data = m->superseded ? NULL : data;
    return RINGLET_OUTPUT_OK;
}

#endif
