/* ringlet_filter.h: a filter of built events, as a program on the host of a builder unit: --filter process:NAME.
 *
 * C11 or C++17 and later, gcc or clang, Linux, 64-bit little-endian. Headers, no library: include it before any other
 * header, or define _GNU_SOURCE.
 *
 *     ringlet_filter filter;
 *     ringlet_event event;
 *     int error = ringlet_filter_open(&filter, "mine", 60000);     wait up to 60 s for a run with --filter process:mine
 *     while (!error && !(error = ringlet_filter_next(&filter, &event)))
 *         error = ringlet_filter_answer(&filter, event.fragments[0].size > 100 ? RINGLET_ACCEPT : RINGLET_REJECT, 0);
 *     ringlet_filter_close(&filter);                               error: RINGLET_FILTER_END after a run
 *
 * Answer every event before the next one. The builder unit keeps an event that has no answer in time. Start as many of
 * these programs as you need: each event goes to one of them. Data are valid until the next event. A filter is for one
 * thread. The layout is docs/format/ring.md; docs/your-filter.md is the manual. */
#ifndef RINGLET_FILTER_H
#define RINGLET_FILTER_H

#include "ringlet_output.h"
#include <dirent.h>

enum {
    RINGLET_FILTER_OK = 0,
    RINGLET_FILTER_END = 1,     /* the run has ended */
    RINGLET_FILTER_NONE = -1,   /* no builder unit has a place in time */
    RINGLET_FILTER_ORDER = -2,  /* answer each event once, before the next one */
    RINGLET_FILTER_BROKEN = -3, /* the memory holds wrong data */
    RINGLET_FILTER_SYSTEM = -4  /* a call of the system failed: errno */
};

/* Answers. */
enum { RINGLET_ACCEPT = 1, RINGLET_REJECT = 2, RINGLET_FAIL = 4 }; /* FAIL: it could not judge the event, which is kept */

typedef struct {
    const unsigned char *data;
    uint16_t source;
    uint32_t size;
    uint8_t type, version; /* type 92: the source sent nothing in time */
} ringlet_fragment;

typedef struct {
    uint64_t number, mep; /* number of the event, and of its MEP */
    uint32_t run;
    int sources;
    const ringlet_fragment *fragments; /* by rising source */
} ringlet_event;

typedef struct {
    const unsigned char *types, *sizes, *data;
    uint16_t source;
    uint8_t align, version, width; /* width: bytes of a size */
} ringlet_f__packet;

typedef struct {
    /* read these */
    uint64_t judged, dismissed; /* answers; how often the builder unit took the place away, or was gone */
    /* for this header alone */
    char name[128];
    ringlet_ring answers;
    ringlet_output events;
    ringlet_mep mep;
    ringlet_f__packet *packets;
    ringlet_fragment *fragments;
    uint64_t number;
    uint32_t place, crc[256];
    int sources, out, open, lost;
} ringlet_filter;

static inline const char *ringlet_filter_error(int error) {
    switch (error) {
    case RINGLET_FILTER_OK: return "no error";
    case RINGLET_FILTER_END: return "the run has ended";
    case RINGLET_FILTER_NONE: return "no run on this host has a place for this filter: is one under way with --filter process:NAME, as this user?";
    case RINGLET_FILTER_ORDER: return "answer each event once, before the next one";
    case RINGLET_FILTER_BROKEN: return "what stands in the memory is no event of a builder unit";
    default: return strerror(errno);
    }
}

/* The fragment of a source; NULL if the event has none. */
static inline const ringlet_fragment *ringlet_event_fragment(const ringlet_event *e, uint16_t source) {
    for (int i = 0; i < e->sources; i++)
        if (e->fragments[i].source == source)
            return &e->fragments[i];
    return NULL;
}

static inline void ringlet_f__leave(ringlet_filter *f) {
    if (f->open) {
        ringlet_ring_close(&f->answers);
        ringlet_output_close(&f->events);
    }
    f->open = f->lost = f->out = 0, f->place = f->mep.events = 0;
}

/* Attaches to the ring of answers. No process was attached before, since a worker's place serves one process. */
static inline int ringlet_f__ring(ringlet_ring *r, const char *path) {
    memset(r, 0, sizeof *r);
    r->timeout_ms = -1;
    r->any_order = 1; /* MEPs come in any order */
    int error = ringlet__map_ring(r, path);
    if (error == RINGLET_OK)
        error = RINGLET__LOAD(ringlet__w64(r->mem, RINGLET__ATTACHMENTS)) ? RINGLET_ATTACHED : ringlet__attach(r, "");
    if (error != RINGLET_OK)
        ringlet_ring_forget(r);
    return error;
}

/* Takes the place of a worker. 0: another process has it, or it is being removed. */
static inline int ringlet_f__take(ringlet_filter *f, uint64_t lane) {
    char path[256];
    unsigned number = (unsigned)(lane >> 32), builder = (unsigned)lane;
    snprintf(path, sizeof path, "ringlet-filter-%s-%u-%u-answers", f->name, builder, number);
    if (ringlet_f__ring(&f->answers, path) != RINGLET_OK)
        return 0;
    snprintf(path, sizeof path, "ringlet-filter-%s-%u-%u", f->name, builder, number);
    if (ringlet_output_open(&f->events, path, 0, 1000) == RINGLET_OUTPUT_OK)
        return f->open = 1;
    ringlet_ring_close(&f->answers);
    return 0;
}

/* The lowest place of a worker above last; UINT64_MAX if there is none. Processes take low numbers first, so that all
 * builder units get some. */
static inline uint64_t ringlet_f__lane(const ringlet_filter *f, uint64_t last) {
    uint64_t found = UINT64_MAX;
    char want[160];
    struct dirent *entry;
    DIR *dir = opendir("/dev/shm");
    int n = snprintf(want, sizeof want, "ringlet-filter-%s-", f->name);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        unsigned builder, number;
        int end = 0;
        if (strncmp(entry->d_name, want, (size_t)n) != 0 ||
            sscanf(entry->d_name + n, "%9u-%9u-answers%n", &builder, &number, &end) != 2 || end == 0 || entry->d_name[n + end])
            continue;
        uint64_t lane = (uint64_t)number << 32 | builder;
        if ((last == UINT64_MAX || lane > last) && lane < found)
            found = lane;
    }
    if (dir != NULL)
        closedir(dir);
    return found;
}

static inline int ringlet_f__open(ringlet_filter *f, int timeout_ms) {
    int64_t until = ringlet__now() + timeout_ms;
    for (int waited = 0;; waited = 1) {
        if (waited && ringlet_f__lane(f, UINT64_MAX) != UINT64_MAX)
            ringlet__pause(200); /* the run begins: its builder units make their workers' places one after the other */
        for (uint64_t lane = ringlet_f__lane(f, UINT64_MAX); lane != UINT64_MAX; lane = ringlet_f__lane(f, lane))
            if (ringlet_f__take(f, lane))
                return RINGLET_FILTER_OK;
        if (timeout_ms >= 0 && ringlet__now() >= until)
            return RINGLET_FILTER_NONE;
        ringlet__pause(10);
    }
}

/* Takes a place at a builder unit. timeout_ms: how long to wait for one; -1 waits for ever. */
static inline int ringlet_filter_open(ringlet_filter *f, const char *name, int timeout_ms) {
    memset(f, 0, sizeof *f);
    snprintf(f->name, sizeof f->name, "%s", name);
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c >> 1 ^ (c & 1 ? UINT32_C(0x82F63B78) : 0);
        f->crc[i] = c;
    }
    return ringlet_f__open(f, timeout_ms);
}

/* Gives the place back. May be called twice. */
static inline void ringlet_filter_close(ringlet_filter *f) {
    ringlet_f__leave(f);
    free(f->packets), free(f->fragments);
    f->packets = NULL, f->fragments = NULL, f->sources = 0;
}

static inline uint32_t ringlet_f__u32(const unsigned char *b) {
    uint32_t v;
    memcpy(&v, b, 4);
    return v;
}
static inline uint16_t ringlet_f__u16(const unsigned char *b) {
    uint16_t v;
    memcpy(&v, b, 2);
    return v;
}

/* The size of fragment k in a table. */
static inline uint64_t ringlet_f__size(const unsigned char *sizes, uint8_t width, uint64_t k) {
    return width == 4 ? ringlet_f__u32(sizes + 4 * k) : ringlet_f__u16(sizes + 2 * k);
}

/* Views the MFPs of the MEP: docs/format/mep.md and mfp.md. */
static inline int ringlet_f__parse(ringlet_filter *f) {
    const unsigned char *b = f->mep.data;
    uint64_t size = f->mep.size, events = f->mep.events;
    uint64_t m = size < 8 ? 0 : ringlet_f__u16(b + 2), table = 8 + ((2 * m + 3) & ~UINT64_C(3));
    if (m == 0 || table + 4 * m > size)
        return RINGLET_FILTER_BROKEN;
    if ((int)m > f->sources) {
        free(f->packets), free(f->fragments);
        f->packets = (ringlet_f__packet *)malloc(m * sizeof *f->packets);
        f->fragments = (ringlet_fragment *)malloc(m * sizeof *f->fragments);
        if (f->packets == NULL || f->fragments == NULL)
            return f->sources = 0, RINGLET_FILTER_SYSTEM;
    }
    f->sources = (int)m;
    for (uint64_t i = 0; i < m; i++) {
        uint64_t at = 4 * (uint64_t)ringlet_f__u32(b + table + 4 * i);
        if (at + 20 > size || ringlet_f__u16(b + at + 2) != events || b[at + 18] > 16)
            return RINGLET_FILTER_BROKEN;
        uint16_t magic = ringlet_f__u16(b + at);
        if (magic != 0x40CE && magic != 0x40CF && magic != 0x40D0)
            return RINGLET_FILTER_BROKEN;
        uint8_t width = magic == 0x40CE ? 2 : 4;
        uint64_t sizes = at + 20 + ((events + 3) & ~UINT64_C(3));
        uint64_t data = sizes + ((width * events + 3) & ~UINT64_C(3));
        data += magic == 0x40D0 ? 16 * events : 0; /* trigger numbers and time stamps */
        uint64_t end = data;
        for (uint64_t k = 0; k < events && data <= size; k++) {
            uint64_t mask = (UINT64_C(1) << b[at + 18]) - 1;
            end += (ringlet_f__size(b + sizes, width, k) + mask) & ~mask;
        }
        if (end > size)
            return RINGLET_FILTER_BROKEN;
        ringlet_f__packet packet = {b + at + 20, b + sizes, b + data, ringlet_f__u16(b + at + 16), b[at + 18], b[at + 19], width};
        f->packets[i] = packet;
    }
    return RINGLET_FILTER_OK;
}

/* Reads the next MEP; if the builder unit has taken the place away, from another place. */
static inline int ringlet_f__more(ringlet_filter *f) {
    for (;;) {
        int error = RINGLET_OUTPUT_GONE;
        if (f->open && (!f->lost || RINGLET__LOAD(ringlet__w64(f->events.mem, RINGLET_O__ENDED)) == 1))
            error = ringlet_output_next(&f->events, &f->mep, -1);
        if (error == RINGLET_OUTPUT_OK) {
            f->place = 0;
            return ringlet_f__parse(f);
        }
        if (error == RINGLET_OUTPUT_END)
            return RINGLET_FILTER_END;
        if (error != RINGLET_OUTPUT_GONE && error != RINGLET_OUTPUT_DETACHED)
            return error == RINGLET_OUTPUT_SYSTEM ? RINGLET_FILTER_SYSTEM : RINGLET_FILTER_BROKEN;
        ringlet_f__leave(f);
        f->dismissed++;
        if ((error = ringlet_f__open(f, 10000)) != RINGLET_FILTER_OK)
            return error;
    }
}

/* Returns the next event, and waits for it as long as the builder unit lives. */
static inline int ringlet_filter_next(ringlet_filter *f, ringlet_event *e) {
    if (f->out)
        return RINGLET_FILTER_ORDER;
    if (f->place >= f->mep.events || f->lost) {
        do {
            int error = ringlet_f__more(f);
            if (error)
                return error;
        } while (f->mep.events == 0);
    }
    for (int i = 0; i < f->sources; i++) {
        ringlet_f__packet *p = &f->packets[i];
        uint32_t size = (uint32_t)ringlet_f__size(p->sizes, p->width, f->place);
        uint32_t mask = (UINT32_C(1) << p->align) - 1;
        ringlet_fragment fragment = {p->data, p->source, size, p->types[f->place], p->version};
        f->fragments[i] = fragment;
        p->data += (size + mask) & ~mask;
    }
    f->number = f->mep.first_event + f->place++;
    f->out = 1;
    ringlet_event event = {f->number, f->mep.mep, f->mep.run, f->sources, f->fragments};
    *e = event;
    return RINGLET_FILTER_OK;
}

/* Answers the current event. bits: 16 bits of your choice, which travel with the decision. */
static inline int ringlet_filter_answer(ringlet_filter *f, int decision, uint16_t bits) {
    unsigned char b[16] = {0};
    uint64_t number = f->number & ((UINT64_C(1) << 48) - 1);
    uint32_t crc = UINT32_MAX;
    if (!f->out)
        return RINGLET_FILTER_ORDER;
    f->out = 0, f->judged++;
    if (f->lost)
        return RINGLET_FILTER_OK;
    memcpy(b, &number, 8), b[8] = (unsigned char)decision, memcpy(b + 10, &bits, 2);
    for (int i = 0; i < 14; i++)
        crc = f->crc[(crc ^ b[i]) & 0xFF] ^ crc >> 8;
    crc = ~crc;
    uint16_t seal = (uint16_t)(crc ^ crc >> 16);
    memcpy(b + 14, &seal, 2);
    int error = ringlet_ring_put(&f->answers, f->number, b, sizeof b);
    if (error == RINGLET_CLOSED || error == RINGLET_GONE || error == RINGLET_REFUSED)
        f->lost = 1; /* too slow, or the run is over: the builder unit does not wait for the answer */
    else if (error)
        return error == RINGLET_SYSTEM ? RINGLET_FILTER_SYSTEM : RINGLET_FILTER_BROKEN;
    return RINGLET_FILTER_OK;
}

#endif
