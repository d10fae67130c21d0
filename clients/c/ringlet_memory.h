/* ringlet_memory.h: remote memory for a program on the host of a member that has opened a gateway:
 * ringlet mem door NAME. The names below call it a door.
 *
 * C11 or C++17 and later, gcc or clang, Linux, 64-bit little-endian. Headers, no library: include it before any other
 * header, or define _GNU_SOURCE.
 *
 *     ringlet_door door;
 *     uint32_t segment;
 *     uint64_t before;
 *     int error = ringlet_door_open(&door, "mine", 10000);                  wait up to 10 s for a free gateway
 *     if (!error)
 *         error = ringlet_door_import(&door, "count@owner", &segment);
 *     if (!error)
 *         error = ringlet_door_add(&door, segment, 0, 1, &before);
 *     ringlet_door_close(&door);
 *
 * These calls wait until the transfer is over. For many transfers at a time, prepare requests about the bytes of
 * door.data, start all of them by one store, and wait for each or poll it:
 *
 *     ringlet_request r = {.operation = RINGLET_WRITE, .segment = segment, .remote = 4096, .local = 0, .length = 64};
 *     error = ringlet_door_prepare(&door, &r, &ticket);                     waits if 1024 are under way
 *     ringlet_door_start(&door);
 *     error = ringlet_door_wait(&door, ticket, 1000, &result);
 *
 * Functions return RINGLET_OK or another number; ringlet_door_error gives its text. A gateway is for one thread.
 * After a fork the child calls ringlet_door_forget. The layout is docs/format/door.md, the manual docs/memory.md. */
#ifndef RINGLET_MEMORY_H
#define RINGLET_MEMORY_H

#include "ringlet.h"

enum {
    RINGLET_DOOR_REFUSED = 1,  /* the transfer was not done: door.cause says why */
    RINGLET_DOOR_UNKNOWN = 2,  /* it is not known whether the transfer was done: door.cause says why */
    RINGLET_DOOR_PARTIAL = 3,  /* refused, and some bytes may be in place: door.cause says why */
    RINGLET_DOOR_TIMEOUT = 4,  /* the transfer is still under way: wait again */
    RINGLET_DOOR_NONE = -21,   /* no gateway of that name is free in time */
    RINGLET_DOOR_CLOSED = -22, /* the gateway was closed: open another one */
    RINGLET_DOOR_SHUT = -23,   /* the member has closed the gateway, since this program wrote wrong data to it */
    RINGLET_DOOR_GONE = -24,   /* the process that opened the gateway has died */
    RINGLET_DOOR_TICKET = -25, /* the result of that ticket is overwritten: 1024 others were prepared since */
    RINGLET_DOOR_LENGTH = -26, /* the data area is smaller than the transfer */
    RINGLET_DOOR_BROKEN = -27  /* the memory is no gateway of this version */
};

enum { /* operations */
    RINGLET_IMPORT = 1, RINGLET_LEAVE = 2, RINGLET_SIZE = 3, RINGLET_WRITE = 4, RINGLET_READ = 5, RINGLET_ADD = 6,
    RINGLET_SWAP = 7, RINGLET_COMPARE = 8, RINGLET_NOTIFY = 9, RINGLET_WAIT = 10, RINGLET_FENCE = 11
};
enum { RINGLET_LIST = 1, RINGLET_NOTICE = 2, RINGLET_ALONE = 4 }; /* flags */

typedef struct {
    uint8_t operation, flags, context; /* context: 0 to 15; requests of one context are done in order */
    uint32_t segment;
    uint64_t remote;        /* offset in the segment */
    uint32_t local, length; /* range in door.data; with RINGLET_LIST, length is the number of ringlet_piece at local */
    uint64_t a, b;          /* add: the summand; swap: the new word; compare: the expected and the new word; wait: the
                               notices known */
    uint32_t time_ms;       /* most time it may take; 0: the member's limit, and for a wait no limit */
} ringlet_request;

typedef struct {
    uint64_t remote;
    uint32_t local, length;
} ringlet_piece;

typedef struct {
    /* read these */
    unsigned char *data; /* the data area of transfers; calls that copy use its last 4096 bytes */
    uint64_t size;       /* of data, bytes */
    uint8_t cause;       /* why the last transfer was not done: docs/format/door.md */
    /* for this header alone */
    unsigned char *mem;
    size_t mapped;
    uint64_t prepared, started;
    int fd;
} ringlet_door;

enum {
    RINGLET_D__STATE = 0x40, RINGLET_D__PID = 0x48, RINGLET_D__ATTACHED = 0x50, RINGLET_D__STARTED = 0x80,
    RINGLET_D__WAKE = 0xC0, RINGLET_D__DOOR = 0x100, RINGLET_D__WORK = 0x140, RINGLET_D__COMPLETED = 0x180,
    RINGLET_D__RING = 4096, RINGLET_D__WORDS = RINGLET_D__RING + 1024 * 64,
    RINGLET_D__DATA = RINGLET_D__WORDS + 1024 * 16
};

static inline const char *ringlet_door_cause(int cause) {
    static const char *const memory[] = {
        "no cause", "no node that was asked exports that name", "the export is withdrawn: import the name again",
        "the bytes do not lie in the segment", "the owner does not open these pages for it",
        "a word is 8 bytes long and stands at a multiple of 8", "the owner has no room for it: ask again later",
        "it was cancelled", "the peer does not speak this version of the messages of memory", "its time is over",
        "an earlier write of the same context failed: ask for a fence", "the link to the owner is over",
        "the import, the door or its space is closed", "several nodes export that name: import name@node"};
    static const char *const door[] = {
        "there is no such operation", "a flag that the operation does not have, or a byte that must be 0",
        "there are ordering contexts 0 to 15", "1 to 4096 bytes, a name of 1 to 255, or a list of 1 to 64 pieces",
        "the local bytes do not lie in the data area", "the handle is of no segment that is imported",
        "the descriptor of that place is still under way", "64 segments are imported", "16 waits are under way"};
    if (cause >= 0 && (size_t)cause < sizeof memory / sizeof *memory)
        return memory[cause];
    if (cause >= 32 && (size_t)cause - 32 < sizeof door / sizeof *door)
        return door[cause - 32];
    return "a cause without a name";
}

static inline const char *ringlet_door_error(const ringlet_door *d, int error) {
    switch (error) {
    case RINGLET_OK: return "no error";
    case RINGLET_DOOR_REFUSED:
    case RINGLET_DOOR_UNKNOWN:
    case RINGLET_DOOR_PARTIAL: return ringlet_door_cause(d->cause);
    case RINGLET_DOOR_TIMEOUT: return "the transfer is still under way";
    case RINGLET_DOOR_NONE: return "no door of that name is free: has a member opened one (ringlet mem door)?";
    case RINGLET_DOOR_CLOSED: return "the door was closed by its member";
    case RINGLET_DOOR_SHUT: return "the door was closed, since what this program wrote to it cannot be";
    case RINGLET_DOOR_GONE: return "the process that opened the door has died";
    case RINGLET_DOOR_TICKET: return "the result is gone: 1024 requests were prepared after that one";
    case RINGLET_DOOR_LENGTH: return "the bytes do not fit into the data area";
    case RINGLET_DOOR_BROKEN: return "what stands in the memory is no door of this version";
    default: return ringlet_ring_error(error);
    }
}

/* ---- words ---- */

/* Whether the gateway is open, as its member says. */
static inline int ringlet_d__state(const ringlet_door *d) {
    uint64_t s = RINGLET__ACQUIRE(ringlet__w64(d->mem, RINGLET_D__DOOR));
    return s == 1 ? (int)RINGLET_OK : s == 3 ? (int)RINGLET_DOOR_SHUT : (int)RINGLET_DOOR_CLOSED;
}

/* ---- opening ---- */

/* Unmaps the gateway without telling the member: for the child of a fork, and after a failed open. */
static inline void ringlet_door_forget(ringlet_door *d) {
    if (d->mem == NULL)
        return;
    munmap(d->mem, d->mapped);
    close(d->fd);
    d->mem = d->data = NULL;
}

/* Maps the memory of a gateway. */
static inline int ringlet_d__map(ringlet_door *d, const char *path) {
    int error = ringlet__map(path, PROT_READ | PROT_WRITE, MAP_POPULATE, RINGLET_D__DATA + 8192,
                             RINGLET_D__DATA + ((uint64_t)1 << 30), &d->fd, &d->mem, &d->mapped);
    if (error != RINGLET_OK)
        return error == RINGLET_BROKEN ? (int)RINGLET_DOOR_BROKEN : error;
    d->data = d->mem + RINGLET_D__DATA;
    d->size = d->mapped - RINGLET_D__DATA;
    return RINGLET_OK;
}

static inline int ringlet_d__attach(ringlet_door *d) {
    const uint64_t head[7] = {1, 1024, RINGLET_D__RING, RINGLET_D__WORDS, RINGLET_D__DATA, d->size, 64};
    if (memcmp(d->mem, "RNGLMEMD", 8) != 0 || memcmp(d->mem + 8, head, sizeof head) != 0)
        return RINGLET_DOOR_BROKEN;
    switch (ringlet__lock(d->fd, 0, 1)) {
    case 0: return RINGLET_NO_RING; /* its member is dead */
    case 1: break;
    default: return RINGLET_SYSTEM;
    }
    switch (ringlet__lock(d->fd, 1, 0)) {
    case 0: break;
    case 1: return RINGLET_ATTACHED;
    default: return RINGLET_SYSTEM;
    }
    /* A gateway serves one client. If that has left, the member is about to make a new one. */
    if (RINGLET__LOAD(ringlet__w64(d->mem, RINGLET_D__ATTACHED)) != 0 || ringlet_d__state(d) != RINGLET_OK)
        return RINGLET_NO_RING;
    RINGLET__STORE(ringlet__w64(d->mem, RINGLET_D__PID), (uint64_t)getpid());
    RINGLET__STORE(ringlet__w64(d->mem, RINGLET_D__STATE), 1);
    RINGLET__STORE(ringlet__w64(d->mem, RINGLET_D__ATTACHED), 1);
    ringlet__bell(d->mem, RINGLET_D__WORK);
    return RINGLET_OK;
}

/* Takes a free gateway: NAME in /dev/shm, of which the member may have opened several, or a path. Waits up to
 * timeout_ms (-1: for ever). After an error there is nothing to close. */
static inline int ringlet_door_open(ringlet_door *d, const char *name, int timeout_ms) {
    int64_t until = ringlet__now() + timeout_ms;
    for (int pause = 1;; pause = pause < 64 ? 2 * pause : 100) {
        int error = RINGLET_OK;
        for (int i = 0; i < 8; i++) {
            char path[512];
            int n = strchr(name, '/') != NULL ? snprintf(path, sizeof path, "%s", name)
                                              : snprintf(path, sizeof path, "/dev/shm/ringlet-door-%s-%d", name, i);
            memset(d, 0, sizeof *d);
            error = n < 0 || (size_t)n >= sizeof path ? RINGLET_FOREIGN : ringlet_d__map(d, path);
            if (error == RINGLET_OK && (error = ringlet_d__attach(d)) == RINGLET_OK)
                return RINGLET_OK;
            int saved = errno;
            ringlet_door_forget(d);
            errno = saved;
            if (error != RINGLET_NO_RING && error != RINGLET_ATTACHED)
                return error;
        }
        if (timeout_ms >= 0 && ringlet__now() >= until)
            return RINGLET_DOOR_NONE;
        ringlet__pause(pause);
    }
}

/* Detaches from the gateway, which ends the transfers under way. May be called twice. */
static inline void ringlet_door_close(ringlet_door *d) {
    if (d->mem == NULL)
        return;
    RINGLET__STORE(ringlet__w64(d->mem, RINGLET_D__STATE), 2);
    ringlet__bell(d->mem, RINGLET_D__WORK);
    ringlet_door_forget(d);
}

/* ---- many at a time ---- */

/* Polls a transfer: RINGLET_DOOR_TIMEOUT if it is under way. */
static inline int ringlet_door_poll(ringlet_door *d, uint64_t ticket, uint64_t *result) {
    size_t at = RINGLET_D__WORDS + ticket % 1024 * 16;
    uint64_t w = RINGLET__ACQUIRE(ringlet__w64(d->mem, at + 8));
    if (w >> 16 != ((ticket + 1) & 0xFFFFFFFFFFFF))
        return d->prepared - ticket > 1024 ? RINGLET_DOOR_TICKET : RINGLET_DOOR_TIMEOUT;
    if (result != NULL && (w & 0xFF) == 1)
        *result = RINGLET__ACQUIRE(ringlet__w64(d->mem, at));
    d->cause = (uint8_t)(w >> 8);
    switch (w & 0xFF) {
    case 1: return RINGLET_OK;
    case 2: return RINGLET_DOOR_REFUSED;
    case 4: return RINGLET_DOOR_PARTIAL;
    default: return RINGLET_DOOR_UNKNOWN;
    }
}

/* Starts all prepared requests. */
static inline void ringlet_door_start(ringlet_door *d) {
    uint64_t from = d->started;
    if (d->mem == NULL || from == d->prepared)
        return;
    d->started = d->prepared;
    RINGLET__STORE(ringlet__w64(d->mem, RINGLET_D__STARTED), d->started);
    uint64_t wake = RINGLET__LOAD(ringlet__w64(d->mem, RINGLET_D__WAKE));
    if (from < wake && wake <= d->started)
        ringlet__bell(d->mem, RINGLET_D__WORK);
}

typedef struct {
    ringlet_door *door;
    uint64_t ticket, *result;
} ringlet_d__waiter;

static inline int ringlet_d__look(void *waiter) {
    ringlet_d__waiter *w = (ringlet_d__waiter *)waiter;
    int open = ringlet_d__state(w->door), error = ringlet_door_poll(w->door, w->ticket, w->result); /* the state first */
    return error == RINGLET_DOOR_TIMEOUT && open != RINGLET_OK ? open : error;
}
static inline int ringlet_d__gone(void *waiter) {
    int open = ringlet_d__state(((ringlet_d__waiter *)waiter)->door);
    return open == RINGLET_OK ? (int)RINGLET_DOOR_GONE : open;
}

/* Waits until a transfer is over, timeout_ms at most (-1: as long as the gateway is open). result: the handle, the
 * size, the word before, the number of notices; may be NULL. */
static inline int ringlet_door_wait(ringlet_door *d, uint64_t ticket, int timeout_ms, uint64_t *result) {
    if (d->mem == NULL)
        return RINGLET_DOOR_CLOSED;
    if (ticket >= d->started)
        ringlet_door_start(d);
    int error = RINGLET_DOOR_TIMEOUT;
    for (int i = 0; i < 2000 && error == RINGLET_DOOR_TIMEOUT; i++)
        error = ringlet_door_poll(d, ticket, result);
    if (error == RINGLET_DOOR_TIMEOUT) {
        ringlet_d__waiter w = {d, ticket, result};
        error = ringlet__await(d->mem, RINGLET_D__COMPLETED, d->fd, 1, timeout_ms, RINGLET_DOOR_TIMEOUT, ringlet_d__look,
                               ringlet_d__gone, &w);
    }
    return error;
}

/* Prepares a transfer; ringlet_door_start starts it. It waits while the request 1024 before this one is under way. */
static inline int ringlet_door_prepare(ringlet_door *d, const ringlet_request *r, uint64_t *ticket) {
    if (d->mem == NULL)
        return RINGLET_DOOR_CLOSED;
    uint64_t p = d->prepared;
    if (p >= 1024) {
        int error = ringlet_door_poll(d, p - 1024, NULL);
        if (error == RINGLET_DOOR_TIMEOUT)
            error = ringlet_door_wait(d, p - 1024, -1, NULL);
        if (error < 0)
            return error;
    }
    unsigned char *at = d->mem + RINGLET_D__RING + p % 1024 * 64;
    memset(at, 0, 64);
    at[0] = r->operation;
    at[1] = r->flags;
    at[2] = r->context;
    memcpy(at + 0x04, &r->segment, 4);
    memcpy(at + 0x08, &r->remote, 8);
    memcpy(at + 0x10, &r->local, 4);
    memcpy(at + 0x14, &r->length, 4);
    memcpy(at + 0x18, &r->a, 8);
    memcpy(at + 0x20, &r->b, 8);
    memcpy(at + 0x28, &r->time_ms, 4);
    d->prepared = p + 1;
    if (ticket != NULL)
        *ticket = p;
    return RINGLET_OK;
}

/* ---- one at a time ---- */

static inline ringlet_request ringlet_d__request(uint8_t operation) {
    ringlet_request r;
    memset(&r, 0, sizeof r);
    r.operation = operation;
    return r;
}

/* Executes one request and waits for its end. */
static inline int ringlet_door_do(ringlet_door *d, const ringlet_request *r, uint64_t *result) {
    uint64_t ticket;
    int error = ringlet_door_prepare(d, r, &ticket);
    return error != RINGLET_OK ? error : ringlet_door_wait(d, ticket, -1, result);
}

/* Imports NAME or NAME@NODE. */
static inline int ringlet_door_import(ringlet_door *d, const char *name, uint32_t *segment) {
    uint64_t handle = 0;
    size_t n = strlen(name);
    if (d->mem == NULL)
        return RINGLET_DOOR_CLOSED;
    ringlet_request r = ringlet_d__request(RINGLET_IMPORT);
    r.local = (uint32_t)(d->size - 4096), r.length = (uint32_t)n;
    memcpy(d->data + d->size - 4096, name, n < 4096 ? n : 4096);
    int error = ringlet_door_do(d, &r, &handle);
    *segment = (uint32_t)handle;
    return error;
}

/* Releases an imported segment. */
static inline int ringlet_door_leave(ringlet_door *d, uint32_t segment) {
    ringlet_request r = ringlet_d__request(RINGLET_LEAVE);
    r.segment = segment;
    return ringlet_door_do(d, &r, NULL);
}

/* Size of a segment, bytes. */
static inline int ringlet_door_size(ringlet_door *d, uint32_t segment, uint64_t *size) {
    ringlet_request r = ringlet_d__request(RINGLET_SIZE);
    r.segment = segment;
    return ringlet_door_do(d, &r, size);
}

/* Writes n bytes to an offset of a segment, 4096 at a time. */
static inline int ringlet_door_put(ringlet_door *d, uint32_t segment, uint64_t off, const void *bytes, size_t n) {
    int error = d->mem == NULL ? (int)RINGLET_DOOR_CLOSED : (int)RINGLET_OK;
    for (size_t at = 0; at < n && error == RINGLET_OK; at += 4096) {
        ringlet_request r = ringlet_d__request(RINGLET_WRITE);
        r.segment = segment, r.remote = off + at, r.local = (uint32_t)(d->size - 4096),
        r.length = (uint32_t)(n - at < 4096 ? n - at : 4096);
        memcpy(d->data + r.local, (const unsigned char *)bytes + at, r.length);
        error = ringlet_door_do(d, &r, NULL);
    }
    return error;
}

/* Reads n bytes at an offset of a segment, 4096 at a time. */
static inline int ringlet_door_get(ringlet_door *d, uint32_t segment, uint64_t off, void *bytes, size_t n) {
    int error = d->mem == NULL ? (int)RINGLET_DOOR_CLOSED : (int)RINGLET_OK;
    for (size_t at = 0; at < n && error == RINGLET_OK; at += 4096) {
        ringlet_request r = ringlet_d__request(RINGLET_READ);
        r.segment = segment, r.remote = off + at, r.local = (uint32_t)(d->size - 4096),
        r.length = (uint32_t)(n - at < 4096 ? n - at : 4096);
        if ((error = ringlet_door_do(d, &r, NULL)) == RINGLET_OK)
            memcpy((unsigned char *)bytes + at, d->data + r.local, r.length);
    }
    return error;
}

/* Adds to a word of 8 bytes atomically. */
static inline int ringlet_door_add(ringlet_door *d, uint32_t segment, uint64_t off, uint64_t delta, uint64_t *before) {
    ringlet_request r = ringlet_d__request(RINGLET_ADD);
    r.segment = segment, r.remote = off, r.a = delta;
    return ringlet_door_do(d, &r, before);
}

/* Replaces a word. */
static inline int ringlet_door_swap(ringlet_door *d, uint32_t segment, uint64_t off, uint64_t word, uint64_t *before) {
    ringlet_request r = ringlet_d__request(RINGLET_SWAP);
    r.segment = segment, r.remote = off, r.a = word;
    return ringlet_door_do(d, &r, before);
}

/* Replaces a word if it equals expected: it has if *before equals expected. */
static inline int ringlet_door_compare_and_swap(ringlet_door *d, uint32_t segment, uint64_t off, uint64_t expected,
                                                uint64_t word, uint64_t *before) {
    ringlet_request r = ringlet_d__request(RINGLET_COMPARE);
    r.segment = segment, r.remote = off, r.a = expected, r.b = word;
    return ringlet_door_do(d, &r, before);
}

/* Counts a notice at the page of an offset, and wakes the processes that wait there. */
static inline int ringlet_door_notify(ringlet_door *d, uint32_t segment, uint64_t off, uint64_t *notices) {
    ringlet_request r = ringlet_d__request(RINGLET_NOTIFY);
    r.segment = segment, r.remote = off;
    return ringlet_door_do(d, &r, notices);
}

/* Waits until the page of an offset has had more notices than *known, and stores their number; time_ms 0: for ever. */
static inline int ringlet_door_await(ringlet_door *d, uint32_t segment, uint64_t off, uint32_t time_ms,
                                     uint64_t *known) {
    ringlet_request r = ringlet_d__request(RINGLET_WAIT);
    r.segment = segment, r.remote = off, r.a = *known, r.time_ms = time_ms;
    uint64_t notices = 0;
    int error = ringlet_door_do(d, &r, &notices);
    if (error == RINGLET_OK)
        *known = notices;
    return error;
}

/* Waits until all earlier requests of a context are over, and returns the errors of writes to combining pages. */
static inline int ringlet_door_fence(ringlet_door *d, uint32_t segment, uint8_t context) {
    ringlet_request r = ringlet_d__request(RINGLET_FENCE);
    r.segment = segment, r.context = context;
    return ringlet_door_do(d, &r, NULL);
}

#endif
