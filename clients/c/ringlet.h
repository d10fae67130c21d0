/* ringlet.h: a front-end puts fragments into a ring in shared memory, which a readout unit reads as shm:NAME.
 *
 * C11 or C++17 and later, gcc or clang, Linux, 64-bit little-endian. One header, no library: include it before any other
 * header, or define _GNU_SOURCE.
 *
 *     ringlet_ring ring;
 *     int error = ringlet_ring_open(&ring, "calo", 10000);             wait up to 10 s until the ring is there
 *     for (uint64_t event = ringlet_ring_next(&ring); ...; event++)
 *         error = ringlet_ring_put(&ring, event, data, size);          or reserve, fill, commit
 *     error = ringlet_ring_end(&ring);                                 the run's end: wait until all is taken
 *
 * Functions return RINGLET_OK or another of the numbers below; ringlet_ring_error gives the text of one. A ring is for
 * one thread. After a fork the child must call ringlet_ring_forget: the lock that says "this front-end lives" is held
 * as long as any process has the file open. The layout is docs/format/ring.md. */
#ifndef RINGLET_H
#define RINGLET_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__GLIBC__) && !defined(__USE_GNU)
#error "include ringlet.h before any other header, or define _GNU_SOURCE"
#endif
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__ || UINTPTR_MAX != UINT64_MAX
#error "the ring's layout is for 64-bit little-endian machines"
#endif

/* Words that another process changes: the same in C and C++, with gcc and clang. */
#ifndef RINGLET__LOAD
#define RINGLET__LOAD(word) __atomic_load_n(word, __ATOMIC_SEQ_CST)
#define RINGLET__ACQUIRE(word) __atomic_load_n(word, __ATOMIC_ACQUIRE)
#define RINGLET__STORE(word, value) __atomic_store_n(word, value, __ATOMIC_SEQ_CST)
#define RINGLET__RELEASE(word, value) __atomic_store_n(word, value, __ATOMIC_RELEASE)
#define RINGLET__ADD(word, value) __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST)
#define RINGLET__EXCHANGE(word, before, value) \
    __atomic_compare_exchange_n(word, before, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#endif

enum {
    RINGLET_OK = 0,
    RINGLET_DROPPED = 1,    /* put: the ring is full, the fragment was dropped and counted */
    RINGLET_NO_RING = -1,   /* no readout unit has made the ring in time */
    RINGLET_ATTACHED = -2,  /* another front-end fills the ring */
    RINGLET_ENDED = -3,     /* the run of this ring has ended */
    RINGLET_CLOSED = -4,    /* the readout unit has closed the ring: open the ring of the next run */
    RINGLET_GONE = -5,      /* the readout unit has died: open the ring of the next run */
    RINGLET_REFUSED = -6,   /* the readout unit has found wrong data in the ring, and reads no more of it */
    RINGLET_FULL = -7,      /* no room in time */
    RINGLET_TOO_LARGE = -8, /* a fragment has ring.largest bytes at most */
    RINGLET_ORDER = -9,     /* commit what was reserved, once; reserve one place at a time */
    RINGLET_EVENT = -10,    /* the event number 2^64-1 is reserved */
    RINGLET_BROKEN = -11,   /* the memory is no ring of this version, or is damaged */
    RINGLET_FOREIGN = -12,  /* the ring belongs to another user, or the name is that of no ring */
    RINGLET_SYSTEM = -13,   /* a call of the system failed: errno */
    RINGLET_NOT_TAKEN = -14, /* the readout unit has not taken the end of the run in time */
    RINGLET_BACK = -15,     /* event numbers must grow */
    RINGLET_NAME = -16,     /* the name of a front-end has 64 bytes at most */
    RINGLET_TELLS_NOTHING = -17 /* the readout unit is of a release that tells nothing of the run in a ring */
};

#define RINGLET_MAX_FRAGMENT 65535 /* bytes, unless the input declares more: ring.largest */

typedef struct {
    /* set these after open */
    uint8_t type;   /* of the fragments' banks; 51 (TestDet) after open */
    int drop;       /* 1: a full ring throws fragments away; 0 after open: the front-end waits */
    int timeout_ms; /* most time to wait for room; -1 after open: as long as the readout unit lives */
    int end_timeout_ms; /* how long end waits until the readout unit has taken the end; 30000 after open */
    /* read these */
    uint16_t source; /* id of the source that the readout unit reads from this ring */
    uint64_t run;    /* number of the run */
    uint32_t largest; /* bytes of the largest fragment that the readout unit takes */
    /* for this header alone */
    unsigned char *mem, *place;
    uint64_t size, position, taken, next, at, safe, dropped, given_up, ranges;
    size_t reserved, mapped;
    uint64_t told; /* ticket of the last command */
    int fd, mark, any_order, revised, follows;
    unsigned char words[16]; /* of the reserved place */
    uint32_t words_size, words_flags;
} ringlet_ring;

/* What a front-end that follows the run is told. */
enum { RINGLET_PREPARE = 1, RINGLET_BEGIN, RINGLET_PAUSE, RINGLET_RESUME, RINGLET_RUN_ENDS };
typedef struct {
    int kind;
    uint64_t run;    /* its number */
    unsigned source; /* id of the source */
    char name[65];   /* how the run calls the source; empty: it has no name */
    uint64_t ticket; /* for ringlet_ring_answer */
} ringlet_ring_command;

/* What else a fragment may have: with ?number=trigger behind the address of the input, events are matched by the trigger
 * number. A readout unit of an earlier release reads over it. */
typedef struct {
    int has_trigger, has_stamp;
    uint64_t trigger, stamp; /* stamp: ns since 1970, UTC */
} ringlet_ring_words;

/* A range of events; fragments of this front-end for them are in no file of the run. */
typedef struct {
    uint64_t from, to; /* to: the first event behind them */
    uint32_t reason;   /* ringlet_ring_reason puts it into words */
    uint32_t count;    /* of fragments */
    uint64_t missed;   /* ranges before this one that the ring has overwritten */
} ringlet_given_up;

static inline const char *ringlet_ring_error(int error) {
    switch (error) {
    case RINGLET_OK: return "no error";
    case RINGLET_DROPPED: return "the ring is full: the fragment was dropped";
    case RINGLET_NO_RING: return "no readout unit has made the ring: does its run use this input?";
    case RINGLET_ATTACHED: return "another front-end fills the ring";
    case RINGLET_ENDED: return "the front-end has declared the end of its run: the next run has a new ring";
    case RINGLET_CLOSED: return "the readout unit has closed the ring";
    case RINGLET_GONE: return "the readout unit has ended without closing the ring";
    case RINGLET_REFUSED: return "the readout unit has refused what stood in the ring, and reads no more of it";
    case RINGLET_FULL: return "the ring was full for too long";
    case RINGLET_TOO_LARGE:
        return "the fragment is too large: put ?max= and its size behind the address of the input";
    case RINGLET_ORDER: return "commit what was reserved, once, and reserve one place at a time";
    case RINGLET_EVENT: return "the event number 2^64-1 is reserved";
    case RINGLET_BROKEN: return "what stands in the memory is no ring of fragments of this version";
    case RINGLET_FOREIGN: return "the file is not the ring of a process of this user";
    case RINGLET_NOT_TAKEN:
        return "the readout unit has not taken the end of the run in time: what it has not read may be lost";
    case RINGLET_BACK: return "event numbers must grow in a ring; a front-end that counts anew needs a new run";
    case RINGLET_TELLS_NOTHING: return "the readout unit is of a release that tells nothing of the run in a ring";
    case RINGLET_NAME: return "the name of a front-end has 64 bytes at most";
    default: return strerror(errno);
    }
}

/* Why fragments were given up. */
static inline const char *ringlet_ring_reason(uint32_t reason) {
    switch (reason) {
    case 1: return "they came too late";
    case 2: return "they came again";
    case 3: return "their numbers run backwards";
    case 4: return "their numbers are far from those before and after";
    case 5: return "they were left over at the end of the run";
    default: return "for a reason that this release does not know";
    }
}

/* ---- for all clients of shared memory: segments, words, bells, locks ---- */

static inline uint64_t *ringlet__w64(unsigned char *mem, size_t off) { return (uint64_t *)(void *)(mem + off); }
static inline uint32_t *ringlet__w32(unsigned char *mem, size_t off) { return (uint32_t *)(void *)(mem + off); }

static inline void ringlet__pause(int ms) {
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}
static inline int64_t ringlet__now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* A bell is a sequence number and a count of waiters. Store the change before you ring. */
static inline void ringlet__bell(unsigned char *mem, size_t bell) {
    if (RINGLET__LOAD(ringlet__w32(mem, bell + 4)) == 0)
        return;
    RINGLET__ADD(ringlet__w32(mem, bell), 1);
    syscall(SYS_futex, mem + bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* A lock of a byte of the file says that its holder lives. take 1: take it; 0: ask who has it; -1: release it.
 * Returns 1 if another process has it, -1 with errno after an error. */
static inline int ringlet__lock(int fd, int take, int byte) {
    struct flock l;
    memset(&l, 0, sizeof l);
    l.l_type = take < 0 ? F_UNLCK : F_WRLCK;
    l.l_whence = SEEK_SET;
    l.l_start = byte;
    l.l_len = 1;
    if (fcntl(fd, take ? F_OFD_SETLK : F_OFD_GETLK, &l) != 0)
        return take && (errno == EAGAIN || errno == EACCES) ? 1 : -1;
    return !take && l.l_type != F_UNLCK;
}

/* Sleeps on a bell until look returns something else than pending; timeout_ms (-1: for ever) at most. After each 100
 * ms it asks whether the other side has the lock of its byte. If not, the other side has died: look is called once
 * more, and then the result is that of gone. */
static inline int ringlet__await(unsigned char *mem, size_t bell, int fd, int byte, int timeout_ms, int pending,
                                 int (*look)(void *), int (*gone)(void *), void *context) {
    int64_t until = ringlet__now() + timeout_ms, left = 100;
    for (;;) {
        if (timeout_ms >= 0 && (left = until - ringlet__now()) <= 0)
            return look(context);
        struct timespec patience = {0, (long)(left < 100 ? left : 100) * 1000000};
        RINGLET__ADD(ringlet__w32(mem, bell + 4), 1);
        uint32_t seq = RINGLET__LOAD(ringlet__w32(mem, bell));
        int got = look(context), late = 0;
        if (got == pending)
            late = syscall(SYS_futex, mem + bell, FUTEX_WAIT, seq, &patience, NULL, 0) != 0 && errno == ETIMEDOUT;
        RINGLET__ADD(ringlet__w32(mem, bell + 4), UINT32_MAX);
        if (got == pending && late && ringlet__lock(fd, 0, byte) == 0 && (got = look(context)) == pending)
            return gone(context);
        if (got != pending)
            return got;
    }
}

/* Reads the card under the name, which says where the memory is: docs/format/segment.md. */
static inline int ringlet__card(const char *name, char where[64], uint64_t meant[3]) {
    char path[512], text[200], again[200];
    int pid, fd, n = snprintf(path, sizeof path, "%s%s", strchr(name, '/') ? "" : "/dev/shm/", name);
    if (n < 0 || (size_t)n >= sizeof path)
        return RINGLET_FOREIGN;
    int card = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (card < 0)
        return errno == ENOENT ? RINGLET_NO_RING : errno == EACCES || errno == ELOOP ? RINGLET_FOREIGN : RINGLET_SYSTEM;
    struct stat st;
    ssize_t got = fstat(card, &st) == 0 ? read(card, text, sizeof text - 1) : -1;
    close(card);
    if (got < 0)
        return RINGLET_SYSTEM;
    text[got] = 0;
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0)
        return RINGLET_FOREIGN;
    if (sscanf(text, "ringlet-segment 2 /proc/%d/fd/%d %" SCNu64 " %" SCNu64 " %" SCNu64, &pid, &fd, &meant[0],
               &meant[1], &meant[2]) != 5)
        return RINGLET_FOREIGN;
    snprintf(where, 64, "/proc/%d/fd/%d", pid, fd);
    snprintf(again, sizeof again, "ringlet-segment 2 %s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", where, meant[0],
             meant[1], meant[2]);
    return strcmp(text, again) == 0 ? RINGLET_OK : RINGLET_FOREIGN;
}

/* Maps the memory that a card names, if device and inode are those of the card and the file is sealed: then no
 * process can cut it short. RINGLET_NO_RING: there is none; RINGLET_BROKEN: its size is not from least to most
 * bytes. */
static inline int ringlet__map(const char *name, int access, int flags, uint64_t least, uint64_t most, int *fd,
                               unsigned char **mem, size_t *size) {
    char where[64], link[32] = "";
    uint64_t meant[3]; /* size, device, inode */
    int error = ringlet__card(name, where, meant);
    if (error != RINGLET_OK)
        return error;
    if (readlink(where, link, sizeof link - 1) < 0)
        return errno == EACCES ? RINGLET_FOREIGN : RINGLET_NO_RING;
    if (strncmp(link, "/memfd:ringlet-segment:", 23) != 0 ||
        (*fd = open(where, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) < 0)
        return RINGLET_NO_RING;
    struct stat st;
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
    int has = fcntl(*fd, F_GET_SEALS);
    if (fstat(*fd, &st) != 0 || has < 0 || (has & seals) != seals || st.st_uid != geteuid())
        error = RINGLET_FOREIGN;
    else if ((uint64_t)st.st_size != meant[0] || st.st_dev != meant[1] || st.st_ino != meant[2])
        error = RINGLET_NO_RING;
    else if (meant[0] < least || meant[0] > most)
        error = RINGLET_BROKEN;
    if (error == RINGLET_OK) {
        void *at = mmap(NULL, (size_t)meant[0], access, MAP_SHARED | flags, *fd, 0);
        if (at != MAP_FAILED) {
            *mem = (unsigned char *)at;
            *size = (size_t)meant[0];
            return RINGLET_OK;
        }
        error = RINGLET_SYSTEM;
    }
    close(*fd);
    *fd = -1;
    return error;
}

/* ---- words of a ring's header ---- */

enum {
    RINGLET__STATE = 0x40, RINGLET__PID = 0x44, RINGLET__ATTACHMENTS = 0x48, RINGLET__SILENT = 0x50,
    RINGLET__FEATURES = 0x2C, RINGLET__REVISION = 0x54, RINGLET__BY = 0x58, RINGLET__SETTLED = 0xD8,
    RINGLET__AGAIN = 0xE0, RINGLET__END = 0x108, RINGLET__RANGES = 0x200, RINGLET__GIVEN_UP = 0x208,
    RINGLET__WHO = 0x240, RINGLET__TABLE = 0x400, RINGLET__TABLE_SIZE = 64,
    RINGLET__WRITTEN = 0x80, RINGLET__DROPS = 0x88, RINGLET__MARKS = 0x90,
    RINGLET__NAME = 0x280, RINGLET__COMMAND = 0x2C0, RINGLET__FOLLOWS = 0x310, RINGLET__REPLY = 0x318, RINGLET__WHY = 0x320,
    RINGLET__WHY_SIZE = 192,
    RINGLET__TAKEN = 0xC0, RINGLET__SAFE = 0xC8, RINGLET__WAKE = 0xD0, RINGLET__CONSUMER = 0x100,
    RINGLET__RECORDS = 0x140, RINGLET__SPACE = 0x180, RINGLET__DATA = 0x1000
};

static inline uint64_t ringlet__load(const ringlet_ring *r, size_t off) {
    return RINGLET__ACQUIRE(ringlet__w64(r->mem, off));
}
static inline void ringlet__store(ringlet_ring *r, size_t off, uint64_t v) {
    RINGLET__RELEASE(ringlet__w64(r->mem, off), v);
}

static inline int ringlet__reading(const ringlet_ring *r) {
    uint32_t s = RINGLET__ACQUIRE(ringlet__w32(r->mem, RINGLET__CONSUMER));
    return s == 1 ? RINGLET_OK : s == 3 ? RINGLET_REFUSED : RINGLET_CLOSED;
}
/* Why the consumer's lock is free: a readout unit that closes the ring sets the state before it releases the lock. */
static inline int ringlet__gone(void *ring) {
    int error = ringlet__reading((ringlet_ring *)ring);
    return error == RINGLET_OK ? (int)RINGLET_GONE : error;
}
static inline int ringlet__consumer(ringlet_ring *r) {
    switch (ringlet__lock(r->fd, 0, 1)) {
    case 0: return ringlet__gone(r);
    case 1: return RINGLET_OK;
    default: return RINGLET_SYSTEM;
    }
}

/* Loads the taken position and checks it: it must lie within the ring, not beyond the written one. */
static inline int ringlet__look(ringlet_ring *r) {
    uint64_t t = ringlet__load(r, RINGLET__TAKEN);
    if (t % 16 != 0 || r->position % 16 != 0 || t < r->taken || t > r->position || r->position - t > r->size)
        return RINGLET_BROKEN;
    r->taken = t;
    return RINGLET_OK;
}

/* ---- opening ---- */

static inline int ringlet__map_ring(ringlet_ring *r, const char *name) {
    return ringlet__map(name, PROT_READ | PROT_WRITE, MAP_POPULATE, RINGLET__DATA + (256 << 10), (uint64_t)4 << 30, &r->fd,
                        &r->mem, &r->mapped);
}

/* Unmaps the ring without telling the readout unit: for the child of a fork, and after a failed open. */
static inline void ringlet_ring_forget(ringlet_ring *r) {
    if (r->mem == NULL)
        return;
    munmap(r->mem, r->mapped);
    close(r->fd);
    r->mem = r->place = NULL;
}

/* Sets the next event to that of the mark at the written position; if both marks are there, to the higher one. */
static inline int ringlet__resume(ringlet_ring *r) {
    int found = 0;
    for (int i = 0; i < 2; i++) {
        uint64_t next = ringlet__load(r, RINGLET__MARKS + 16 * (size_t)i + 8);
        if (ringlet__load(r, RINGLET__MARKS + 16 * (size_t)i) == r->position && (!found || next > r->next)) {
            r->next = next;
            r->mark = i;
            found = 1;
        }
    }
    return found ? RINGLET_OK : RINGLET_BROKEN;
}

/* Records the next event in the mark that is not valid now, its position first. */
static inline void ringlet__note(ringlet_ring *r, uint64_t next) {
    r->mark ^= 1;
    r->next = next;
    ringlet__store(r, RINGLET__MARKS + 16 * (size_t)r->mark, r->position);
    ringlet__store(r, RINGLET__MARKS + 16 * (size_t)r->mark + 8, next);
}

/* Waits until the readout unit has judged the fragments that the front-end before has left, and sets the next event: if
 * that front-end ended with a wild event number, the next event is not behind it. */
static inline void ringlet__settle(ringlet_ring *r) {
    int64_t until = ringlet__now() + 200;
    while (r->revised && RINGLET__LOAD(ringlet__w64(r->mem, RINGLET__SETTLED)) != r->position && ringlet__now() < until)
        ringlet__pause(1);
    if (!r->revised || RINGLET__LOAD(ringlet__w64(r->mem, RINGLET__SETTLED)) != r->position)
        return;
    uint64_t again = RINGLET__LOAD(ringlet__w64(r->mem, RINGLET__AGAIN));
    if (again == 0 || RINGLET__LOAD(ringlet__w64(r->mem, RINGLET__SETTLED)) != r->position)
        return;
    ringlet__note(r, again - 1);
    ringlet__note(r, again - 1); /* overwrites both marks: else the other one would be valid again */
}

/* Stores a text, padded with zeros. */
static inline void ringlet__text(ringlet_ring *r, size_t at, size_t size, const char *text) {
    size_t n = strlen(text);
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = 0;
        if (i < n)
            memcpy(&word, text + i, n - i < 8 ? n - i : 8);
        ringlet__store(r, at + i, word);
    }
}

/* Writes the name of this front-end, and then that it is attached. */
static inline void ringlet__sign(ringlet_ring *r, const char *name) {
    ringlet__text(r, RINGLET__WHO, 64, name);
    RINGLET__STORE(ringlet__w64(r->mem, RINGLET__REPLY), 0);
    r->told = RINGLET__LOAD(ringlet__w64(r->mem, RINGLET__COMMAND)) >> 8; /* of a command to the front-end before */
    if (r->follows)
        RINGLET__STORE(ringlet__w64(r->mem, RINGLET__FOLLOWS), ringlet__load(r, RINGLET__ATTACHMENTS) + 1);
    RINGLET__STORE(ringlet__w32(r->mem, RINGLET__REVISION), 2);
    RINGLET__STORE(ringlet__w64(r->mem, RINGLET__BY), ringlet__load(r, RINGLET__ATTACHMENTS) + 1);
}

static inline int ringlet__attach(ringlet_ring *r, const char *frontend) {
    static const unsigned char begin[12] = {'R', 'N', 'G', 'L', 'R', 'I', 'N', 'G', 1, 0, 0, 0};
    uint32_t source;
    r->size = r->mapped - RINGLET__DATA;
    memcpy(&source, r->mem + 0x0C, 4);
    memcpy(&r->run, r->mem + 0x20, 8);
    memcpy(&r->largest, r->mem + 0x28, 4);
    if (memcmp(r->mem, begin, sizeof begin) != 0 || ringlet__load(r, 0x10) != RINGLET__DATA ||
        ringlet__load(r, 0x18) != r->size || r->size % 4096 != 0 || source > UINT16_MAX ||
        r->largest < RINGLET_MAX_FRAGMENT || 3 * ((uint64_t)r->largest + 16) > r->size)
        return RINGLET_BROKEN;
    r->source = (uint16_t)source;
    r->revised = r->mem[RINGLET__FEATURES] & 1;
    if (r->follows && (r->mem[RINGLET__FEATURES] & 2) == 0)
        return RINGLET_TELLS_NOTHING;
    int error = ringlet__consumer(r);
    if (error == RINGLET_OK)
        switch (ringlet__lock(r->fd, 1, 0)) {
        case 0: break;
        case 1: return RINGLET_ATTACHED;
        default: return RINGLET_SYSTEM;
        }
    if (error == RINGLET_OK && RINGLET__LOAD(ringlet__w32(r->mem, RINGLET__STATE)) == 2)
        error = RINGLET_ENDED;
    if (error == RINGLET_OK)
        error = ringlet__reading(r);
    r->position = ringlet__load(r, RINGLET__WRITTEN);
    if (error == RINGLET_OK)
        error = ringlet__look(r);
    if (error == RINGLET_OK)
        error = ringlet__resume(r);
    if (error != RINGLET_OK)
        return error;
    ringlet__sign(r, frontend);
    RINGLET__STORE(ringlet__w32(r->mem, RINGLET__PID), (uint32_t)getpid());
    RINGLET__STORE(ringlet__w32(r->mem, RINGLET__SILENT), 0);
    RINGLET__STORE(ringlet__w32(r->mem, RINGLET__STATE), 1); /* before the number */
    RINGLET__ADD(ringlet__w64(r->mem, RINGLET__ATTACHMENTS), 1);
    ringlet__bell(r->mem, RINGLET__RECORDS);
    return RINGLET_OK;
}

static inline int ringlet__open(ringlet_ring *r, const char *name, const char *frontend, int follows, int timeout_ms) {
    int64_t until = ringlet__now() + timeout_ms;
    for (int pause = 1;; pause = pause < 64 ? 2 * pause : 100) {
        memset(r, 0, sizeof *r);
        r->type = 51;
        r->follows = follows;
        r->timeout_ms = -1;
        r->end_timeout_ms = 30000;
        if (strlen(frontend) > 64)
            return RINGLET_NAME;
        int error = ringlet__map_ring(r, name);
        if (error == RINGLET_OK && (error = ringlet__attach(r, frontend)) == RINGLET_OK) {
            ringlet__settle(r);
            return RINGLET_OK;
        }
        int saved = errno;
        ringlet_ring_forget(r);
        errno = saved;
        if (error == RINGLET_CLOSED || error == RINGLET_GONE)
            error = RINGLET_NO_RING; /* the next run's ring has the same name */
        if ((error != RINGLET_NO_RING && error != RINGLET_ATTACHED) || (timeout_ms >= 0 && ringlet__now() >= until))
            return error;
        ringlet__pause(pause);
    }
}

/* Opens a ring: NAME in /dev/shm, or a path. Waits up to timeout_ms (-1: for ever) until a readout unit has made it and
 * no other front-end fills it. frontend: the name of this one, for logs and reports, at most 64 bytes. After an error
 * there is nothing to close. */
static inline int ringlet_ring_open_as(ringlet_ring *r, const char *name, const char *frontend, int timeout_ms) {
    return ringlet__open(r, name, frontend, 0, timeout_ms);
}

/* ringlet_ring_open_as of a front-end that follows the run: ringlet_ring_next_command says what the run wants. */
static inline int ringlet_ring_follow_as(ringlet_ring *r, const char *name, const char *frontend, int timeout_ms) {
    return ringlet__open(r, name, frontend, 1, timeout_ms);
}

/* ringlet_ring_open_as without a name. */
static inline int ringlet_ring_open(ringlet_ring *r, const char *name, int timeout_ms) {
    return ringlet_ring_open_as(r, name, "", timeout_ms);
}

/* ---- fragments ---- */

/* The event after the last one that any front-end of this run has committed or dropped: continue there. */
static inline uint64_t ringlet_ring_next(const ringlet_ring *r) { return r->next; }

/* All events below it are safe: the front-end may forget them. */
static inline uint64_t ringlet_ring_safe(ringlet_ring *r) {
    return r->safe = r->mem != NULL ? ringlet__load(r, RINGLET__SAFE) : r->safe;
}

/* How many fragments were dropped in this run. */
static inline uint64_t ringlet_ring_dropped(ringlet_ring *r) {
    return r->dropped = r->mem != NULL ? ringlet__load(r, RINGLET__DROPS) : r->dropped;
}

/* How many fragments of this run's ring the readout unit has given up: they are in no file. */
static inline uint64_t ringlet_ring_given_up(ringlet_ring *r) {
    return r->given_up = r->mem != NULL && r->revised ? ringlet__load(r, RINGLET__GIVEN_UP) : r->given_up;
}

/* Returns each range that was given up once: 1, 0 if there is no further one, or an error. The ring keeps the last
 * 64. */
static inline int ringlet_ring_next_given_up(ringlet_ring *r, ringlet_given_up *g) {
    memset(g, 0, sizeof *g);
    if (r->mem == NULL)
        return RINGLET_CLOSED;
    uint64_t n = r->revised ? RINGLET__LOAD(ringlet__w64(r->mem, RINGLET__RANGES)) : 0;
    if (n < r->ranges)
        return RINGLET_BROKEN;
    if (n - r->ranges > RINGLET__TABLE_SIZE) {
        g->missed = n - RINGLET__TABLE_SIZE - r->ranges;
        r->ranges = n - RINGLET__TABLE_SIZE;
    }
    while (r->ranges < n) { /* at most 64 times */
        size_t at = RINGLET__TABLE + 32 * (size_t)(r->ranges % RINGLET__TABLE_SIZE);
        uint64_t seq = RINGLET__LOAD(ringlet__w64(r->mem, at + 24));
        g->from = RINGLET__LOAD(ringlet__w64(r->mem, at));
        g->to = RINGLET__LOAD(ringlet__w64(r->mem, at + 8));
        uint64_t why = RINGLET__LOAD(ringlet__w64(r->mem, at + 16));
        g->reason = (uint32_t)why;
        g->count = (uint32_t)(why >> 32);
        if (seq == ++r->ranges && RINGLET__LOAD(ringlet__w64(r->mem, at + 24)) == seq)
            return g->from < g->to ? 1 : RINGLET_BROKEN;
        g->missed++; /* the readout unit is overwriting it */
    }
    return 0;
}

/* Reserves a place if there is room now. */
static inline int ringlet__try(ringlet_ring *r, size_t size) {
    r->reserved = size;
    int error = ringlet__reading(r);
    if (error != RINGLET_OK)
        return error;
    uint64_t need = 16 + ((uint64_t)size + r->words_size + 15) / 16 * 16, at = r->position, rest = r->size - at % r->size;
    if (need > rest)
        at += rest; /* a wrap record takes the rest */
    if (at + need - r->taken > r->size) {
        if ((error = ringlet__look(r)) != RINGLET_OK)
            return error;
        if (at + need - r->taken > r->size)
            return RINGLET_FULL;
    }
    r->at = at;
    r->place = r->mem + RINGLET__DATA + at % r->size + 16 + r->words_size;
    return RINGLET_OK;
}

static inline int ringlet__try_again(void *ring) {
    ringlet_ring *r = (ringlet_ring *)ring;
    return ringlet__try(r, r->reserved);
}

/* Returns a place for a fragment of size bytes, which the caller fills and commits. If the ring is full, it waits; with
 * drop it returns RINGLET_FULL at once. words: may be NULL. */
static inline int ringlet_ring_reserve_with(ringlet_ring *r, const ringlet_ring_words *words, size_t size, void **place) {
    if (r->mem == NULL)
        return RINGLET_CLOSED;
    if (size > r->largest)
        return RINGLET_TOO_LARGE;
    if (r->place != NULL)
        return RINGLET_ORDER;
    r->words_size = r->words_flags = 0;
    if (words != NULL && words->has_trigger) {
        memcpy(r->words, &words->trigger, 8);
        r->words_size = 8, r->words_flags = 2;
    }
    if (words != NULL && words->has_stamp) {
        memcpy(r->words + r->words_size, &words->stamp, 8);
        r->words_size += 8, r->words_flags |= 4;
    }
    int error = ringlet__try(r, size);
    if (error == RINGLET_FULL && !r->drop)
        error = ringlet__await(r->mem, RINGLET__SPACE, r->fd, 1, r->timeout_ms, RINGLET_FULL, ringlet__try_again,
                               ringlet__gone, r);
    *place = r->place;
    return error;
}
static inline int ringlet_ring_reserve(ringlet_ring *r, size_t size, void **place) {
    return ringlet_ring_reserve_with(r, NULL, size, place);
}

static inline void ringlet__header(ringlet_ring *r, uint64_t at, uint64_t event, uint32_t size, uint32_t type_flags) {
    unsigned char *h = r->mem + RINGLET__DATA + at % r->size;
    memcpy(h, &event, 8);
    memcpy(h + 8, &size, 4);
    memcpy(h + 12, &type_flags, 4);
}

/* Hands over the first size bytes of the reserved place, as the fragment of that event. Event numbers grow:
 * RINGLET_BACK if this one is below ringlet_ring_next. */
static inline int ringlet_ring_commit(ringlet_ring *r, uint64_t event, size_t size) {
    if (r->place == NULL || size > r->reserved)
        return RINGLET_ORDER;
    if (event == UINT64_MAX)
        return RINGLET_EVENT;
    if (event < r->next && !r->any_order)
        return RINGLET_BACK;
    if (r->at != r->position)
        ringlet__header(r, r->position, 0, (uint32_t)(r->at - r->position - 16), 1 << 8);
    ringlet__header(r, r->at, event, (uint32_t)size, r->type | r->words_flags << 8);
    memcpy(r->mem + RINGLET__DATA + r->at % r->size + 16, r->words, r->words_size);
    uint64_t from = r->position;
    r->position = r->at + 16 + ((uint64_t)size + r->words_size + 15) / 16 * 16;
    ringlet__note(r, event + 1);
    RINGLET__STORE(ringlet__w64(r->mem, RINGLET__WRITTEN), r->position); /* from here on the readout unit owns it */
    if (RINGLET__LOAD(ringlet__w32(r->mem, RINGLET__RECORDS + 4)) != 0) { /* it sleeps: for this record? */
        uint64_t wake = RINGLET__LOAD(ringlet__w64(r->mem, RINGLET__WAKE));
        if (from < wake && wake <= r->position)
            ringlet__bell(r->mem, RINGLET__RECORDS);
    }
    r->place = NULL;
    return RINGLET_OK;
}

/* Releases the reserved place. */
static inline void ringlet_ring_cancel(ringlet_ring *r) { r->place = NULL; }

/* Counts the fragment of an event as dropped. */
static inline int ringlet_ring_drop(ringlet_ring *r, uint64_t event) {
    if (r->mem == NULL)
        return RINGLET_CLOSED;
    if (event == UINT64_MAX)
        return RINGLET_EVENT;
    if (event < r->next && !r->any_order)
        return RINGLET_BACK;
    RINGLET__ADD(ringlet__w64(r->mem, RINGLET__DROPS), 1);
    ringlet__note(r, event + 1);
    return RINGLET_OK;
}

/* Copies a fragment into the ring. RINGLET_DROPPED: the ring was full and drop is set. words: may be NULL. */
static inline int ringlet_ring_put_with(ringlet_ring *r, uint64_t event, const ringlet_ring_words *words, const void *data,
                                        size_t size) {
    void *place;
    int error = ringlet_ring_reserve_with(r, words, size, &place);
    if (error == RINGLET_FULL && r->drop)
        return (error = ringlet_ring_drop(r, event)) == RINGLET_OK ? RINGLET_DROPPED : error;
    if (error != RINGLET_OK)
        return error;
    if (size > 0)
        memcpy(place, data, size);
    if ((error = ringlet_ring_commit(r, event, size)) != RINGLET_OK)
        ringlet_ring_cancel(r);
    return error;
}
static inline int ringlet_ring_put(ringlet_ring *r, uint64_t event, const void *data, size_t size) {
    return ringlet_ring_put_with(r, event, NULL, data, size);
}

/* ---- the life of the run ---- */

static inline int ringlet__told(void *ring) {
    ringlet_ring *r = (ringlet_ring *)ring;
    if (RINGLET__LOAD(ringlet__w64(r->mem, RINGLET__COMMAND)) >> 8 > r->told)
        return 1;
    return ringlet__reading(r);
}

/* Waits up to timeout_ms (-1: for ever) for the next command of the run. 1: *to has it; 0: there is none; below 0: an error,
 * RINGLET_CLOSED: the run is over. A front-end that looks seldom gets the last command alone. */
static inline int ringlet_ring_next_command(ringlet_ring *r, ringlet_ring_command *to, int timeout_ms) {
    memset(to, 0, sizeof *to);
    if (r->mem == NULL)
        return RINGLET_CLOSED;
    int got = ringlet__told(r);
    if (got == 0 && timeout_ms != 0)
        got = ringlet__await(r->mem, RINGLET__SPACE, r->fd, 1, timeout_ms, 0, ringlet__told, ringlet__gone, r);
    if (got != 1)
        return got;
    uint64_t word = RINGLET__LOAD(ringlet__w64(r->mem, RINGLET__COMMAND));
    to->kind = (int)(word & 0xFF);
    to->ticket = r->told = word >> 8;
    to->run = r->run, to->source = r->source;
    memcpy(to->name, r->mem + RINGLET__NAME, 64);
    return 1;
}

/* Answers a command, behind all committed fragments: the front-end is where it leads (failed is NULL), or failed says why it
 * cannot go there, of which 192 bytes count. */
static inline int ringlet_ring_answer(ringlet_ring *r, const ringlet_ring_command *to, const char *failed) {
    if (r->mem == NULL)
        return RINGLET_CLOSED;
    RINGLET__STORE(ringlet__w64(r->mem, RINGLET__REPLY), 0);
    ringlet__text(r, RINGLET__WHY, RINGLET__WHY_SIZE, failed == NULL ? "" : failed);
    uint64_t kind = failed != NULL ? 2 : to->kind == RINGLET_RUN_ENDS ? 3 : 1;
    RINGLET__STORE(ringlet__w64(r->mem, RINGLET__REPLY), to->ticket << 8 | kind);
    ringlet__bell(r->mem, RINGLET__RECORDS);
    return RINGLET_OK;
}

static inline void ringlet__leave(ringlet_ring *r, uint32_t state) {
    RINGLET__STORE(ringlet__w32(r->mem, RINGLET__STATE), state);
    ringlet__bell(r->mem, RINGLET__RECORDS);
}
static inline void ringlet__shut(ringlet_ring *r) {
    ringlet_ring_safe(r);
    ringlet_ring_dropped(r);
    ringlet_ring_given_up(r);
    ringlet_ring_forget(r);
}

/* Whether the readout unit has taken all and the end. A readout unit of an earlier release only tells that it has taken
 * all. */
static inline int ringlet__ended(void *ring) {
    ringlet_ring *r = (ringlet_ring *)ring;
    if (r->revised ? RINGLET__LOAD(ringlet__w64(r->mem, RINGLET__END)) != 0
                   : ringlet__look(r) == RINGLET_OK && r->taken == r->position)
        return RINGLET_OK;
    int error = ringlet__reading(r);
    return error == RINGLET_OK ? RINGLET_NOT_TAKEN : error;
}

/* Declares the end of this front-end's run, waits for ring.end_timeout_ms at most until the readout unit has taken
 * all fragments in the ring and the end, and closes the ring in any case. No fragment of this run may follow. Taken
 * fragments are not yet safe. RINGLET_NOT_TAKEN, RINGLET_CLOSED, RINGLET_GONE, RINGLET_REFUSED: fragments that the
 * readout unit has not read may be lost. */
static inline int ringlet_ring_end(ringlet_ring *r) {
    if (r->mem == NULL)
        return RINGLET_OK;
    ringlet__leave(r, 2);
    int error = ringlet__await(r->mem, RINGLET__SPACE, r->fd, 1, r->end_timeout_ms, RINGLET_NOT_TAKEN, ringlet__ended,
                               ringlet__gone, r);
    ringlet__shut(r);
    return error;
}

/* Detaches from the ring: this or another front-end may attach again and go on; committed fragments stay in the ring.
 * After end or close it does nothing. */
static inline void ringlet_ring_close(ringlet_ring *r) {
    if (r->mem == NULL)
        return;
    ringlet__leave(r, 3);
    ringlet__shut(r);
}

#endif
