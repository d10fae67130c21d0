/* A reader of a Ringlet buffer in C, from docs/format/buffer.md alone.
 *
 *   reader FILE [LIMIT]
 *
 * Attaches to the buffer, prints "ready", reads to the end of the run (or LIMIT entries), and prints
 * "entries N bytes B sum S" with S the sum of all data bytes. Exit 1: the writer is gone without
 * marking the end. Exit 2: cannot attach. Exit 3: the buffer is corrupted. Linux, little-endian. */
#define _GNU_SOURCE
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

enum { FREE, JOINING, ACTIVE };
enum { BROADCAST = 1, SHARING = 2 };
enum { READERS = 16, WRITER_BYTE = 16 };
#define PAD UINT32_MAX
#define IDLE UINT64_MAX

static unsigned char *mem, *annex;
static uint64_t capacity, annex_size;

static _Atomic uint64_t *w64(size_t off) { return (_Atomic uint64_t *)(mem + off); }
static _Atomic uint32_t *w32(size_t off) { return (_Atomic uint32_t *)(mem + off); }
static uint64_t get64(size_t off) { uint64_t v; memcpy(&v, mem + off, 8); return v; }
static uint32_t get32(size_t off) { uint32_t v; memcpy(&v, mem + off, 4); return v; }

struct entry {
    uint32_t length, type, stride, ordinal; /* as they stand before the data */
    uint32_t lent;
    uint64_t size;
    const unsigned char *data;
};

static int lock_byte(int fd, int cmd, short type, int byte) {
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    if (fcntl(fd, cmd, &l) != 0)
        return -1;
    return l.l_type;
}

/* A bell is a sequence and a count of waiters. Ring after the change is stored. */
static void ring(size_t bell) {
    if (atomic_load(w32(bell + 4)) == 0)
        return;
    atomic_fetch_add(w32(bell), 1);
    syscall(SYS_futex, w32(bell), FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void set_tail(size_t me, uint64_t tail) {
    if (atomic_load(w64(me + 0x40)) != tail) {
        atomic_store(w64(me + 0x40), tail);
        ring(0x1C0);
    }
}

static void corrupt(const char *what) {
    fprintf(stderr, "corrupted: %s\n", what);
    exit(3);
}

/* look reads and checks the header at pos; 0 when pos is the head. */
static int look(uint64_t pos, struct entry *e) {
    uint64_t head = atomic_load(w64(0x040));
    if (head < pos || head - pos > capacity || head % 16 || pos % 16)
        corrupt("head");
    if (head == pos)
        return 0;
    memcpy(e, mem + 4096 + pos % capacity, 16);
    e->lent = e->stride & 1;
    e->stride &= ~1u;
    if (e->stride < 16 || e->stride % 16 || e->stride > head - pos ||
        pos % capacity + e->stride > capacity || e->length > e->stride - 16)
        return -1;
    e->data = mem + 4096 + pos % capacity + 16;
    e->size = e->length;
    if (e->type != PAD && e->lent) { /* the entry says where its data lie */
        uint64_t where[2];
        if (e->length != sizeof where)
            return -1;
        memcpy(where, e->data, sizeof where);
        if (where[0] > annex_size || where[1] > annex_size - where[0])
            return -1;
        e->data = annex + where[0];
        e->size = where[1];
    }
    return 1;
}

/* wait until something new may be there; 0 when the writer is gone. */
static int wait_data(int fd, uint64_t pos) {
    struct timespec patience = {0, 100 * 1000 * 1000};
    long rc = 0;
    atomic_fetch_add(w32(0x184), 1);
    uint32_t seq = atomic_load(w32(0x180));
    if (atomic_load(w64(0x040)) == pos && atomic_load(w64(0x0C0)) == 0)
        rc = syscall(SYS_futex, w32(0x180), FUTEX_WAIT, seq, &patience, NULL, 0);
    int late = rc != 0 && errno == ETIMEDOUT;
    atomic_fetch_sub(w32(0x184), 1);
    return !late || lock_byte(fd, F_OFD_GETLK, F_WRLCK, WRITER_BYTE) != F_UNLCK;
}

static size_t join(int fd, uint32_t mode, uint64_t *pos) {
    for (int i = 0; i < READERS; i++) {
        size_t me = 0x400 + 0x80 * (size_t)i;
        if (lock_byte(fd, F_OFD_SETLK, F_WRLCK, i) < 0)
            continue;
        if (atomic_load(w32(me)) != FREE) {
            lock_byte(fd, F_OFD_SETLK, F_UNLCK, i);
            continue;
        }
        atomic_store(w32(me + 0x04), (uint32_t)getpid());
        atomic_store(w64(me + 0x48), 0);
        atomic_store(w64(me + 0x50), 0);
        if (mode == SHARING) {
            atomic_store(w64(me + 0x40), IDLE);
        } else {
            atomic_store(w32(me), JOINING);
            do {
                *pos = atomic_load(w64(0x080));
                atomic_store(w64(me + 0x40), *pos);
            } while (atomic_load(w64(0x080)) != *pos);
        }
        atomic_store(w32(me), ACTIVE);
        ring(0x1C0);
        return me;
    }
    return 0;
}

/* open_segment follows the card of a segment to its memory (docs/format/segment.md). */
static int open_segment(const char *name, struct stat *st) {
    char where[64];
    uint64_t size, dev, inode;
    unsigned version;
    FILE *card = fopen(name, "re");
    if (card == NULL)
        return -1;
    int n = fscanf(card, "ringlet-segment %u %63s %" SCNu64 " %" SCNu64 " %" SCNu64, &version, where, &size, &dev, &inode);
    fclose(card);
    if (n != 5 || version != 2 || strncmp(where, "/proc/", 6) != 0)
        return -1;
    int fd = open(where, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, st) != 0 || (uint64_t)st->st_size != size || st->st_dev != dev || st->st_ino != inode ||
        (fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) == 0)
        return -1;
    return fd;
}

int main(int argc, char **argv) {
    struct stat st;
    int fd = argc > 1 ? open_segment(argv[1], &st) : -1;
    if (fd < 0 || st.st_size < 8192)
        return 2;
    mem = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mem == MAP_FAILED)
        return 2;
    uint32_t mode = get32(0x0C);
    capacity = get64(0x18);
    if (memcmp(mem, "RNGLBUFR", 8) != 0 || get32(0x08) != 3 || get64(0x10) != 4096 ||
        capacity + 4096 != (uint64_t)st.st_size || (mode != BROADCAST && mode != SHARING))
        return 2;
    annex_size = get64(0x28);
    if (annex_size > 0) { /* a segment of that name, beside this one */
        char path[4096];
        struct stat at;
        const char *slash = strrchr(argv[1], '/');
        int before = slash == NULL ? 0 : (int)(slash - argv[1]) + 1;
        snprintf(path, sizeof path, "%.*s%.200s", before, argv[1], (const char *)mem + 0x240);
        int afd = open_segment(path, &at);
        if (afd < 0 || (uint64_t)at.st_size != annex_size)
            return 2;
        annex = mmap(NULL, (size_t)annex_size, PROT_READ, MAP_SHARED, afd, 0);
        if (annex == MAP_FAILED)
            return 2;
    }
    uint64_t limit = argc > 2 ? strtoull(argv[2], NULL, 10) : UINT64_MAX;
    uint64_t pos = 0, entries = 0, bytes = 0, sum = 0;
    size_t me = join(fd, mode, &pos);
    if (me == 0)
        return 2;
    puts("ready");
    fflush(stdout);

    int status = 0, alive = 1;
    while (entries < limit) {
        struct entry e;
        uint64_t ended = atomic_load(w64(0x0C0)); /* before the look */
        if (mode == SHARING) {
            pos = atomic_load(w64(0x100));
            set_tail(me, pos); /* before the claim */
        }
        int found = look(pos, &e);
        if (mode == SHARING && atomic_load(w64(0x100)) != pos)
            continue;
        if (found < 0)
            corrupt("entry");
        if (found == 0) {
            if (mode == SHARING)
                set_tail(me, IDLE);
            if (ended || !alive) {
                status = ended == 1 ? 0 : 1;
                break;
            }
            alive = wait_data(fd, pos);
            continue;
        }
        if (mode == SHARING) {
            uint64_t at = pos;
            atomic_store(w64(me + 0x48), entries + (e.type != PAD));
            if (!atomic_compare_exchange_strong(w64(0x100), &at, pos + e.stride)) {
                atomic_store(w64(me + 0x48), entries);
                continue;
            }
        }
        if (e.type != PAD) {
            entries++;
            atomic_store(w64(me + 0x48), entries);
            for (uint64_t i = 0; i < e.size; i++)
                sum += e.data[i];
            bytes += e.size;
            atomic_store(w64(me + 0x50), entries);
        }
        pos += e.stride;
        set_tail(me, mode == SHARING ? IDLE : pos);
    }

    if (mode == BROADCAST) { /* what the last reader acknowledged stays acknowledged */
        uint64_t gone = atomic_load(w64(0x200));
        while (gone < pos && !atomic_compare_exchange_weak(w64(0x200), &gone, pos))
            ;
    }
    atomic_store(w32(me), FREE);
    ring(0x1C0);
    printf("entries %llu bytes %llu sum %llu\n", (unsigned long long)entries, (unsigned long long)bytes,
           (unsigned long long)sum);
    return status;
}
