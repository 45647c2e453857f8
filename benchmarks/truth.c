/* A lock server that knows when it did what: for each SET the kernel's stamp of the request's
 * arrival and the time just before its answer, on the clock of a run (CLOCK_BOOTTIME).
 *
 * It speaks enough of the Redis protocol for one small request at a time per connection:
 *   SET key id NX PX ms   granted if free, and lock 0 always is; answered at once
 *   HOLD key id           answered when somebody else was granted the lock under its holder
 *   DEL key id            free if nobody else is left
 * `truth PLANT_US LOG`: with PLANT_US > 0 a SET that meets a HOLD is granted although the lock is
 * held, and the HOLD is answered so many microseconds later. It prints its port, and writes
 * LOG (five int64 a row: what, id, other id, from, to) when its standard input ends. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/net_tstamp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS = 4096, LOCKS = 1024 };
enum { GRANTED = 1, REFUSED = 2, PLANTED = 3 };

struct row { int64_t what, id, other, from, to; };
struct lock { int64_t owner, guest, waiting_id; int waiting; };

static struct row *rows;
static size_t used, room;
static struct lock locks[LOCKS];
static int64_t ahead;

static int64_t now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* How far the wall clock is ahead, from the tightest of many looks. */
static int64_t distance(void)
{
    int64_t best = INT64_MAX, found = 0;
    for (int n = 0; n < 10000; n++) {
        int64_t a = now(CLOCK_BOOTTIME), real = now(CLOCK_REALTIME), b = now(CLOCK_BOOTTIME);
        if (b - a < best) {
            best = b - a;
            found = real - (a + b) / 2;
        }
    }
    return found;
}

static void note(int64_t what, int64_t id, int64_t other, int64_t from, int64_t to)
{
    if (used == room) {
        room = room ? 2 * room : 1 << 20;
        rows = realloc(rows, room * sizeof *rows);
        if (!rows) exit(2);
    }
    rows[used++] = (struct row){what, id, other, from, to};
}

static void say(int to, const char *text)
{
    if (send(to, text, strlen(text), MSG_NOSIGNAL) < 0) { /* it has gone; so has its lock */ }
}

/* The words of one request in place; returns how many. */
static int words(char *text, char **word, int most)
{
    int n = atoi(text + 1), found = 0;
    char *at = strstr(text, "\r\n");
    for (; found < n && found < most && at; found++) {
        long size = atol(at + 3);
        char *begin = strstr(at + 2, "\r\n");
        if (!begin) break;
        word[found] = begin + 2;
        at = begin + 2 + size;
        *at = 0;
    }
    return found;
}

static void set(int from, struct lock *lock, int64_t id, int64_t plant_ns, int64_t came)
{
    if (!lock->owner || (plant_ns && !lock->guest && lock->waiting)) {
        int planted = lock->owner != 0;
        int64_t to = now(CLOCK_BOOTTIME);
        say(from, "+OK\r\n");
        note(planted ? PLANTED : GRANTED, id, lock->owner, came, to);
        if (!planted) {
            lock->owner = id;
            return;
        }
        lock->guest = id;
        while (now(CLOCK_BOOTTIME) < to + plant_ns) { }
        say(lock->waiting, "+OK\r\n");
        lock->waiting = 0;
        return;
    }
    int64_t to = now(CLOCK_BOOTTIME);
    say(from, "$-1\r\n");
    note(REFUSED, id, lock->owner, came, to);
}

static void carry_out(int from, char *text, int64_t plant_ns, int64_t came)
{
    char *word[16] = {0};
    int n = words(text, word, 16);
    if (n < 3) {
        say(from, "+OK\r\n");
        return;
    }
    struct lock *lock = &locks[atoi(word[1]) % LOCKS];
    int64_t id = atoll(word[2]);
    if (!strcmp(word[0], "SET")) {
        struct lock free = {0};
        set(from, lock == locks ? &free : lock, id, plant_ns, came);
    } else if (!strcmp(word[0], "HOLD")) {
        lock->waiting = from;
        lock->waiting_id = id;
    } else if (!strcmp(word[0], "DEL")) {
        if (lock->owner == id) {
            lock->owner = lock->guest;
            lock->guest = 0;
        } else if (lock->guest == id) {
            lock->guest = 0;
        }
        say(from, ":1\r\n");
    } else {
        say(from, "+OK\r\n");
    }
}

/* One request, with the kernel's stamp of its arrival. 0: the connection has ended. */
static int serve(int from, int64_t plant_ns)
{
    char text[4097], control[512];
    struct iovec part = {text, 4096};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1,
                             .msg_control = control, .msg_controllen = sizeof control};
    ssize_t got = recvmsg(from, &message, 0);
    if (got <= 0) return 0;
    text[got] = 0;
    int64_t came = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMPING) {
            struct timespec t;
            memcpy(&t, CMSG_DATA(c), sizeof t);
            if (t.tv_sec) came = t.tv_sec * 1000000000LL + t.tv_nsec - ahead;
        }
    carry_out(from, text, plant_ns, came);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    int64_t plant_ns = atoll(argv[1]) * 1000;
    int one = 1, stamps = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
    int door = socket(AF_INET, SOCK_STREAM, 0), poll = epoll_create1(0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    if (bind(door, (void *)&at, size) || listen(door, 512)) return 2;
    getsockname(door, (void *)&at, &size);
    ahead = distance();
    struct epoll_event event = {.events = EPOLLIN, .data.fd = door}, ready[CLIENTS];
    epoll_ctl(poll, EPOLL_CTL_ADD, door, &event);
    event.data.fd = 0;
    epoll_ctl(poll, EPOLL_CTL_ADD, 0, &event);
    printf("%d\n", ntohs(at.sin_port));
    fflush(stdout);
    for (int over = 0; !over;) {
        int n = epoll_wait(poll, ready, CLIENTS, -1);
        for (int k = 0; k < n; k++) {
            int fd = ready[k].data.fd;
            if (fd == 0) {
                over = 1;
            } else if (fd == door) {
                event.data.fd = accept(door, 0, 0);
                setsockopt(event.data.fd, SOL_SOCKET, SO_TIMESTAMPING, &stamps, sizeof stamps);
                setsockopt(event.data.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                epoll_ctl(poll, EPOLL_CTL_ADD, event.data.fd, &event);
            } else if (!serve(fd, plant_ns)) {
                close(fd);
            }
        }
    }
    FILE *log = fopen(argv[2], "wb");
    return !log || fwrite(rows, sizeof *rows, used, log) != used || fclose(log);
}
