/* The loops that only compiled code can time: reading, the STREAM triad, a chase of pointers.
   Each returns seconds by the monotonic clock and keeps nothing. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define HUGE_PAGE ((size_t)2 << 20)

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

double clock_s(void) { return now_s(); }

/* Memory whose start is a multiple of a huge page, asked for in huge pages or in none of them;
   written once, so that it is there. Null where the system has none left. */
void *take(size_t bytes, int huge) {
    size_t whole = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    char *raw = mmap(NULL, whole + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0);
    if (raw == MAP_FAILED) return NULL;
    size_t skip = (HUGE_PAGE - (uintptr_t)raw % HUGE_PAGE) % HUGE_PAGE;
    if (skip) munmap(raw, skip);
    munmap(raw + skip + whole, HUGE_PAGE - skip);
    char *place = raw + skip;
#ifdef MADV_HUGEPAGE
    madvise(place, whole, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#endif
    for (size_t at = 0; at < whole; at += 4096) place[at] = 1;
    return place;
}

void give(void *place, size_t bytes) {
    munmap(place, (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
}

/* Seconds to read `count` words of eight bytes `repeats` times; the sum keeps the loop alive. */
double read_words(const uint64_t *words, size_t count, long repeats, uint64_t *sum) {
    uint64_t total = 0;
    double begin = now_s();
    for (long turn = 0; turn < repeats; turn++) {
        uint64_t part = 0;
        for (size_t i = 0; i < count; i++) part += words[i];
        total += part;
        __asm__ volatile("" : : "r"(words), "r"(total) : "memory");
    }
    double end = now_s();
    *sum = total;
    return end - begin;
}

/* Seconds of STREAM's triad, a = b + s * c, over `count` doubles, `repeats` times. */
double triad(double *restrict a, const double *restrict b, const double *restrict c, size_t count,
             long repeats) {
    double begin = now_s();
    for (long turn = 0; turn < repeats; turn++) {
        for (size_t i = 0; i < count; i++) a[i] = b[i] + 3.0 * c[i];
        __asm__ volatile("" : : "r"(a) : "memory");
    }
    return now_s() - begin;
}

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Links `count` places, `stride` bytes apart, into one circle in a random order (Sattolo 1986), so
   that neither a prefetcher nor the next load knows where it goes. With `shift` the place in each
   stride moves by a cache line from one to the next, so that pages do not share a set of a cache.
   0 where there is no memory for it. */
int link_circle(char *base, size_t count, size_t stride, int shift, uint64_t seed) {
    size_t *order = malloc(count * sizeof *order);
    if (!order) return 0;
    uint64_t state = seed * 2654435761u + 88172645463325252ull;
    for (size_t i = 0; i < count; i++) order[i] = i;
    for (size_t i = count - 1; i > 0; i--) {
        size_t j = next_random(&state) % i;
        size_t kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    size_t lines = stride / 64;
#define PLACE(k) (base + (k) * stride + (shift ? ((k) % lines) * 64 : 0))
    for (size_t i = 0; i < count; i++)
        *(void **)PLACE(order[i]) = PLACE(order[(i + 1) % count]);
#undef PLACE
    free(order);
    return 1;
}

/* Seconds of `steps` loads, each of which says where the next one goes; where it ended is kept. */
double chase(void **start, size_t steps, void ***end) {
    void **at = start;
    double begin = now_s();
    for (size_t i = 0; i < steps; i++) at = *at;
    double seconds = now_s() - begin;
    *end = at;
    return seconds;
}
