/* MEPs of a builder unit's shared-memory output (docs/format/buffer.md), for a program on its host.
 *
 * C11 or C++17 and later, gcc or clang, Linux, 64-bit little-endian. Headers, no library (this one and ringlet.h): include it
 * before any other header, or define _GNU_SOURCE.
 *
 *     ringlet_output out;
 *     ringlet_mep mep;
 *     int error = ringlet_output_open(&out, "ringlet-filter-0", 0, 10000);    wait up to 10 s until it is there
 *     while (!error && !(error = ringlet_output_next(&out, &mep, -1)))
 *         ...                                                                 mep.data, mep.size: until the next call
 *     ringlet_output_close(&out);                                             error: RINGLET_OUTPUT_END after a run
 *
 * A run with --output buffer:filter has an output for each builder unit: ringlet-filter-0, ringlet-filter-1, ... The
 * builder unit does not wait for a reader with may_lose: if it has overwritten MEPs before they were read, next returns
 * RINGLET_OUTPUT_LOST with their number in mep.lost; call next again. An output is for one thread. */
#ifndef RINGLET_OUTPUT_H
#define RINGLET_OUTPUT_H

#include "ringlet.h"
#include <stdlib.h>

enum {
    RINGLET_OUTPUT_OK = 0,
    RINGLET_OUTPUT_END = 1,       /* the run has ended, and next has returned all MEPs */
    RINGLET_OUTPUT_LOST = 2,      /* MEPs were overwritten before they were read: call again */
    RINGLET_OUTPUT_TIMEOUT = 3,   /* nothing came in time: call again */
    RINGLET_OUTPUT_NONE = -1,     /* no builder unit has made the output in time */
    RINGLET_OUTPUT_GONE = -2,     /* the builder unit has ended without marking the end of the run */
    RINGLET_OUTPUT_DETACHED = -3, /* the builder unit took this reader for dead and has detached it */
    RINGLET_OUTPUT_READERS = -4,  /* the output has 16 readers already */
    RINGLET_OUTPUT_VERSION = -5,  /* the layout is of another version: take a client and a builder unit of one release */
    RINGLET_OUTPUT_SHARING = -6,  /* a reader that shares MEPs with others may not lose any */
    RINGLET_OUTPUT_BROKEN = -7,   /* the memory holds wrong data */
    RINGLET_OUTPUT_SYSTEM = -8    /* a call of the system failed: errno */
};

typedef struct {
    const unsigned char *data; /* the MEP, docs/format/mep.md; NULL if it is superseded */
    uint64_t size;             /* bytes */
    uint64_t mep, first_event; /* number of the MEP, event id of its first event */
    uint32_t events, attempt;  /* of several attempts at a MEP the highest counts */
    uint32_t run;
    int superseded;            /* this attempt does not count: another builder unit delivers the MEP */
    uint64_t lost;             /* with RINGLET_OUTPUT_LOST: how many */
} ringlet_mep;

typedef struct {
    /* read this */
    uint64_t lost; /* MEPs that were overwritten before they were read */
    /* for this header alone */
    unsigned char *mem, *annex, *copy;
    uint64_t capacity, copy_size, position, held, given, acked;
    size_t size, annex_size, place;
    uint32_t mode, ordinal;
    int fd, may_lose, synced, padded, jumped, out;
    const unsigned char *data; /* of the current entry */
    uint64_t length;
    uint32_t type;
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

static inline void ringlet_o__tail(ringlet_output *o, uint64_t tail) {
    if (o->may_lose || RINGLET__LOAD(ringlet__w64(o->mem, o->place + RINGLET_O__TAIL)) == tail)
        return;
    RINGLET__STORE(ringlet__w64(o->mem, o->place + RINGLET_O__TAIL), tail);
    ringlet__bell(o->mem, RINGLET_O__SPACE);
}
/* ---- opening ---- */

/* The error of this header for an error of a segment. */
static inline int ringlet_o__error(int error) {
    return error == RINGLET_NO_RING ? RINGLET_OUTPUT_NONE : error == RINGLET_SYSTEM ? RINGLET_OUTPUT_SYSTEM
                                                                                    : RINGLET_OUTPUT_BROKEN;
}

static inline int ringlet_o__map(ringlet_output *o, const char *path) {
    uint64_t magic, data, annex;
    uint32_t version;
    char beside[4096];
    int fd, error = ringlet__map(path, PROT_READ | PROT_WRITE, 0, 8192, SIZE_MAX, &o->fd, &o->mem, &o->size);
    if (error)
        return ringlet_o__error(error);
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
    snprintf(beside, sizeof beside, "%.*s%.200s", slash == NULL ? 0 : (int)(slash - path) + 1, path, (const char *)o->mem + 0x240);
    if ((error = ringlet__map(beside, PROT_READ, 0, annex, annex, &fd, &o->annex, &o->annex_size)) != 0)
        return ringlet_o__error(error);
    close(fd);
    return RINGLET_OUTPUT_OK;
}

static inline int ringlet_o__join(ringlet_output *o) {
    if (o->may_lose && o->mode == 2)
        return RINGLET_OUTPUT_SHARING;
    for (int i = 0; i < RINGLET_O__WRITER; i++) {
        size_t me = RINGLET_O__READERS + 0x80 * (size_t)i;
        int taken = ringlet__lock(o->fd, 1, i);
        if (taken < 0)
            return RINGLET_OUTPUT_SYSTEM;
        if (taken)
            continue;
        if (RINGLET__LOAD(ringlet__w32(o->mem, me)) != RINGLET_O__FREE) {
            ringlet__lock(o->fd, -1, i);
            continue;
        }
        o->place = me;
        RINGLET__STORE(ringlet__w32(o->mem, me + RINGLET_O__PID), (uint32_t)getpid());
        RINGLET__STORE(ringlet__w64(o->mem, me + RINGLET_O__GIVEN), 0);
        RINGLET__STORE(ringlet__w64(o->mem, me + RINGLET_O__ACKED), 0);
        RINGLET__STORE(ringlet__w64(o->mem, me + RINGLET_O__MISSES), 0);
        if (o->may_lose) {
            RINGLET__STORE(ringlet__w32(o->mem, me), RINGLET_O__MAY_LOSE);
            o->position = RINGLET__LOAD(ringlet__w64(o->mem, RINGLET_O__FLOOR));
            o->synced = o->position == 0;
        } else {
            if (o->mode == 2) {
                RINGLET__STORE(ringlet__w64(o->mem, me + RINGLET_O__TAIL), UINT64_MAX);
            } else {
                RINGLET__STORE(ringlet__w32(o->mem, me), RINGLET_O__JOINING);
                do {
                    o->position = RINGLET__LOAD(ringlet__w64(o->mem, RINGLET_O__FLOOR));
                    RINGLET__STORE(ringlet__w64(o->mem, me + RINGLET_O__TAIL), o->position);
                } while (RINGLET__LOAD(ringlet__w64(o->mem, RINGLET_O__FLOOR)) != o->position);
            }
            RINGLET__STORE(ringlet__w32(o->mem, me), RINGLET_O__ACTIVE);
        }
        ringlet__bell(o->mem, RINGLET_O__SPACE);
        return RINGLET_OUTPUT_OK;
    }
    return RINGLET_OUTPUT_READERS;
}

/* Detaches from the output. May be called twice. */
static inline void ringlet_output_close(ringlet_output *o) {
    if (o->place) {
        uint64_t gone = RINGLET__LOAD(ringlet__w64(o->mem, RINGLET_O__GONE));
        uint64_t tail = RINGLET__LOAD(ringlet__w64(o->mem, o->place + RINGLET_O__TAIL));
        if (!o->may_lose && o->out)
            RINGLET__ADD(ringlet__w64(o->mem, RINGLET_O__LOST), 1);
        while (!o->may_lose && o->mode == 1 && gone < tail &&
               !RINGLET__EXCHANGE(ringlet__w64(o->mem, RINGLET_O__GONE), &gone, tail))
            ;
        RINGLET__STORE(ringlet__w32(o->mem, o->place), RINGLET_O__FREE);
        ringlet__bell(o->mem, RINGLET_O__SPACE);
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

/* Attaches to the output of that name in /dev/shm, or at that path. timeout_ms: how long to wait until a builder
 * unit has made it; -1 waits for ever. */
static inline int ringlet_output_open(ringlet_output *o, const char *name, int may_lose, int timeout_ms) {
    char path[4096];
    int64_t until = ringlet__now() + timeout_ms;
    snprintf(path, sizeof path, "%s%s", strchr(name, '/') == NULL ? "/dev/shm/" : "", name);
    for (;;) {
        memset(o, 0, sizeof *o);
        o->fd = -1, o->may_lose = may_lose != 0;
        int error = ringlet_o__map(o, path);
        if (error == 0 && (error = ringlet_o__join(o)) == 0)
            return error;
        ringlet_output_close(o);
        if (error != RINGLET_OUTPUT_NONE || (timeout_ms >= 0 && ringlet__now() >= until))
            return error;
        ringlet__pause(10);
    }
}

/* ---- reading ---- */

typedef struct { uint32_t length, type, stride, ordinal; } ringlet_o__header;

/* Whether the builder unit has overwritten the entry that was just read. */
static inline int ringlet_o__overtaken(ringlet_output *o) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return o->may_lose && RINGLET__LOAD(ringlet__w64(o->mem, RINGLET_O__FLOOR)) > o->position;
}

/* Reads and checks the entry at the position. 0: it is sound. */
static inline int ringlet_o__look(ringlet_output *o, uint64_t head, ringlet_o__header *h) {
    uint64_t at = o->position, off = at % o->capacity, where[2];
    if (at % 16 || head % 16 || head < at || head - at > o->capacity)
        return 1;
    memcpy(h, o->mem + RINGLET_O__ENTRIES + off, sizeof *h);
    int lent = h->stride & 1;
    h->stride &= ~1u;
    if (h->stride < 16 || h->stride % 16 || h->stride > head - at || off + h->stride > o->capacity || h->length > h->stride - 16)
        return 1;
    o->data = o->mem + RINGLET_O__ENTRIES + off + 16, o->length = h->length;
    if (!lent || h->type == UINT32_MAX)
        return 0;
    memcpy(where, o->data, sizeof where);
    if (h->length != 16 || where[0] > o->annex_size || where[1] > o->annex_size - where[0])
        return 1;
    o->data = o->annex + where[0], o->length = where[1];
    return 0;
}

/* Copies the entry for a reader with may_lose, since the builder unit may overwrite it. */
static inline int ringlet_o__copy(ringlet_output *o) {
    if (o->length > o->copy_size) {
        unsigned char *more = (unsigned char *)realloc(o->copy, o->length);
        if (more == NULL)
            return 1;
        o->copy = more, o->copy_size = o->length;
    }
    memcpy(o->copy, o->data, o->length);
    o->data = o->copy;
    return 0;
}

static inline int ringlet_o__miss(ringlet_output *o, uint32_t ordinal) {
    uint32_t lost = ordinal - o->ordinal; /* modulo 2^32 */
    o->ordinal = ordinal, o->jumped = 0, o->lost += lost;
    RINGLET__STORE(ringlet__w64(o->mem, o->place + RINGLET_O__MISSES), o->lost);
    RINGLET__ADD(ringlet__w64(o->mem, RINGLET_O__MISSED), lost);
    return RINGLET_OUTPUT_LOST;
}

/* Looks for an entry once: OK, LOST, BROKEN, SYSTEM, or TIMEOUT if there is none. */
static inline int ringlet_o__poll(ringlet_output *o) {
    for (;;) {
        ringlet_o__header h = {0, 0, 0, 0};
        if (o->mode == 2)
            o->position = RINGLET__LOAD(ringlet__w64(o->mem, RINGLET_O__NEXT));
        uint64_t floor = RINGLET__LOAD(ringlet__w64(o->mem, RINGLET_O__FLOOR));
        if (o->may_lose && floor > o->position)
            o->position = floor, o->jumped = 1;
        uint64_t at = o->position, head = RINGLET__LOAD(ringlet__w64(o->mem, RINGLET_O__HEAD));
        if (head == at) {
            if (o->mode == 2)
                ringlet_o__tail(o, UINT64_MAX);
            return RINGLET_OUTPUT_TIMEOUT;
        }
        if (o->mode == 2)
            ringlet_o__tail(o, at); /* before the claim */
        int broken = ringlet_o__look(o, head, &h);
        if (o->mode == 2 && RINGLET__LOAD(ringlet__w64(o->mem, RINGLET_O__NEXT)) != at)
            continue; /* another reader has claimed it */
        int pad = h.type == UINT32_MAX, failed = 0;
        if (o->may_lose && !broken && !pad && !ringlet_o__overtaken(o))
            failed = ringlet_o__copy(o);
        if (ringlet_o__overtaken(o))
            continue;
        if (broken || failed)
            return broken ? RINGLET_OUTPUT_BROKEN : RINGLET_OUTPUT_SYSTEM;
        if (o->mode == 1 && o->synced && o->jumped && h.ordinal != o->ordinal)
            return ringlet_o__miss(o, h.ordinal);
        if (o->mode == 1 && o->synced && h.ordinal != o->ordinal && !(o->padded && h.ordinal == o->ordinal + 1))
            return RINGLET_OUTPUT_BROKEN;
        if (o->mode == 2) {
            RINGLET__STORE(ringlet__w64(o->mem, o->place + RINGLET_O__GIVEN), o->given + !pad);
            if (!RINGLET__EXCHANGE(ringlet__w64(o->mem, RINGLET_O__NEXT), &at, at + h.stride)) {
                RINGLET__STORE(ringlet__w64(o->mem, o->place + RINGLET_O__GIVEN), o->given);
                continue;
            }
        }
        o->position += h.stride;
        o->ordinal = h.ordinal + !pad, o->synced = 1, o->padded = pad, o->jumped = 0;
        if (pad) {
            ringlet_o__tail(o, o->mode == 2 ? UINT64_MAX : o->position);
            continue;
        }
        o->type = h.type;
        RINGLET__STORE(ringlet__w64(o->mem, o->place + RINGLET_O__GIVEN), ++o->given);
        o->out = 1;
        return RINGLET_OUTPUT_OK;
    }
}

/* Looks for an entry and for the end of the run: TIMEOUT if there is neither. */
static inline int ringlet_o__look_once(void *output) {
    ringlet_output *o = (ringlet_output *)output;
    if (RINGLET__LOAD(ringlet__w32(o->mem, o->place)) != (o->may_lose ? RINGLET_O__MAY_LOSE : RINGLET_O__ACTIVE))
        return RINGLET_OUTPUT_DETACHED;
    uint64_t ended = RINGLET__LOAD(ringlet__w64(o->mem, RINGLET_O__ENDED)); /* before the look */
    int got = ringlet_o__poll(o);
    if (got != RINGLET_OUTPUT_TIMEOUT || !ended)
        return got;
    uint32_t entered = (uint32_t)RINGLET__LOAD(ringlet__w64(o->mem, RINGLET_O__ENTERED));
    if (o->may_lose && o->synced && o->jumped && entered != o->ordinal)
        return ringlet_o__miss(o, entered);
    return ended == 1 ? RINGLET_OUTPUT_END : RINGLET_OUTPUT_GONE;
}
static inline int ringlet_o__gone(void *output) {
    (void)output;
    return RINGLET_OUTPUT_GONE;
}

/* Releases the MEP that it returned before, and returns the next one. timeout_ms: how long to wait for it; -1 waits as
 * long as the builder unit lives. */
static inline int ringlet_output_next(ringlet_output *o, ringlet_mep *m, int timeout_ms) {
    memset(m, 0, sizeof *m);
    if (o->out) {
        o->out = 0;
        RINGLET__STORE(ringlet__w64(o->mem, o->place + RINGLET_O__ACKED), ++o->acked);
        ringlet_o__tail(o, o->mode == 2 ? UINT64_MAX : o->position);
    }
    uint64_t lost = o->lost;
    int got = ringlet_o__look_once(o);
    if (got == RINGLET_OUTPUT_TIMEOUT)
        got = ringlet__await(o->mem, RINGLET_O__DATA, o->fd, RINGLET_O__WRITER, timeout_ms, RINGLET_OUTPUT_TIMEOUT,
                             ringlet_o__look_once, ringlet_o__gone, o);
    m->lost = o->lost - lost;
    if (got != RINGLET_OUTPUT_OK)
        return got;
    const unsigned char *mark = o->data + o->length - 32;
    if (o->length < 32 || (o->type != 0xCEFA && (o->type != 0x50555352 || o->length != 32)))
        return RINGLET_OUTPUT_BROKEN;
    memcpy(&m->mep, mark, 8), memcpy(&m->first_event, mark + 8, 8), memcpy(&m->events, mark + 16, 4);
    memcpy(&m->attempt, mark + 20, 4), memcpy(&m->run, mark + 24, 4);
    m->superseded = o->type != 0xCEFA, m->size = o->length - 32, m->data = m->superseded ? NULL : o->data;
    return RINGLET_OUTPUT_OK;
}

#endif
