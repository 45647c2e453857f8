/* Says whether a history of mutexes is free of contradictions: one pass over rows in order of inv.

   Every acquire counts at its return, every release at its call; an acquire of unknown outcome
   with an ok release must find one instant of its own. Answers 1: no contradiction. 0: there is
   one, or something that this pass does not weigh (a tie of two ends, a release called before its
   acquire had returned): then the exact pass in exact.py has to look. -1: no memory. */

#include <stdint.h>
#include <stdlib.h>

enum { LEASES = 1, TOKENS = 2 };

typedef struct {
    int64_t end;     /* of the certain hold that ended last, INT64_MIN: none */
    int64_t token;   /* the largest so far, -1: none */
    int64_t pending; /* row of the last forced instant that no hold has passed yet, -1: none */
    int64_t open;    /* row of the acquire whose hold never ends, -1: none */
} Lock;

typedef struct {
    const uint8_t *release, *ok;
    const int64_t *inv, *ret, *attempt, *lock, *token;
    int32_t *acquired, *released, *next; /* rows */
    Lock *locks;
} History;

/* Which acquire and release of each attempt count. An ok release counts before unknown ones. */
static int join(const History *h, int64_t rows)
{
    for (int64_t row = 0; row < rows; row++) {
        int64_t a = h->attempt[row];
        if (!h->release[row]) {
            if (h->acquired[a] >= 0)
                return 0;
            h->acquired[a] = (int32_t)row;
        } else if (h->released[a] < 0) {
            h->released[a] = (int32_t)row;
        } else if (h->ok[row]) {
            if (h->ok[h->released[a]])
                return 0;
            h->released[a] = (int32_t)row;
        }
    }
    return 1;
}

/* A certain hold [start, end] of a lock; an end of INT64_MAX is never. */
static int hold(const History *h, int64_t acquire, int64_t end, int tokens)
{
    Lock *lock = &h->locks[h->lock[acquire]];
    int64_t start = h->ret[acquire];
    if (start < lock->end || end == lock->end)
        return 0;
    for (int64_t row = lock->pending; row >= 0; row = h->next[row])
        if (start < h->inv[row] && h->ret[row] < end)
            return 0;
    lock->pending = -1;
    lock->end = end;
    if (tokens && h->token[acquire] != -1) {
        if (h->token[acquire] <= lock->token)
            return 0;
        lock->token = h->token[acquire];
    }
    return 1;
}

static void force(const History *h, int64_t row)
{
    Lock *lock = &h->locks[h->lock[row]];
    h->next[row] = (int32_t)lock->pending;
    lock->pending = row;
}

static int pass(const History *h, int64_t rows, int rule)
{
    for (int64_t row = 0; row < rows; row++) {
        int64_t a = h->attempt[row], acquire = h->acquired[a], ended = h->released[a];
        if (!h->release[row]) {
            int returned = ended >= 0 && h->ok[ended];
            if (!h->ok[row] || returned)
                continue;
            if (rule & LEASES)
                force(h, row);
            else if (ended < 0) {
                Lock *lock = &h->locks[h->lock[row]];
                if (lock->open >= 0)
                    return 0;
                lock->open = row;
            }
        } else if (ended == row) {
            if (acquire < 0) {
                if (h->ok[row])
                    return 0;
            } else if (h->ok[acquire]) {
                if (h->inv[row] < h->ret[acquire] || h->lock[row] != h->lock[acquire])
                    return 0;
                if (((rule & LEASES) == 0 || h->ok[row]) && !hold(h, acquire, h->inv[row], rule & TOKENS))
                    return 0;
            } else if (h->ok[row]) {
                if (h->inv[row] < h->inv[acquire] || h->lock[row] != h->lock[acquire])
                    return 0;
                force(h, row);
            }
        }
    }
    return 1;
}

int holdfast_clean(const uint8_t *release, const uint8_t *ok, const int64_t *inv,
                   const int64_t *ret, const int64_t *attempt, const int64_t *lock,
                   const int64_t *token, int64_t rows, int64_t attempts, int64_t locks, int rule)
{
    History h = {release, ok, inv, ret, attempt, lock, token, NULL, NULL, NULL, NULL};
    int clean = -1;
    if (rows >= INT32_MAX)
        return 0;
    h.acquired = malloc((size_t)(attempts + 1) * sizeof *h.acquired);
    h.released = malloc((size_t)(attempts + 1) * sizeof *h.released);
    h.next = malloc((size_t)(rows + 1) * sizeof *h.next);
    h.locks = malloc((size_t)(locks + 1) * sizeof *h.locks);
    if (h.acquired && h.released && h.next && h.locks) {
        for (int64_t n = 0; n < attempts; n++)
            h.acquired[n] = h.released[n] = -1;
        for (int64_t n = 0; n < locks; n++)
            h.locks[n] = (Lock){INT64_MIN, -1, -1, -1};
        clean = join(&h, rows) && pass(&h, rows, rule);
        for (int64_t n = 0; clean == 1 && n < locks; n++)
            if (h.locks[n].open >= 0)
                clean = hold(&h, h.locks[n].open, INT64_MAX, rule & TOKENS);
    }
    free(h.acquired);
    free(h.released);
    free(h.next);
    free(h.locks);
    return clean;
}
