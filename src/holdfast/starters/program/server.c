/* A small lock server in C that remembers: leases, fencing tokens, one text line a question.
 *
 *   server ADDRESS PORT FOLDER
 *
 * It speaks as server.js does. FOLDER/kept has the last token and when the last lease ends at the
 * latest; a server that starts again grants nothing before that moment, and no token twice.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LOCKS = 64, PLUGS = 256, LINE = 1024 };

static struct hold {
  char lock[128];
  long long owner, token, until;
} holds[LOCKS];
static struct { long long token, until; } kept;
static long long quiet;
static int file;

/* The kernel's own monotonic clock: it does not step, and goes on while this process is dead. */
static long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static void keep(long long until) {
  if (until > kept.until) kept.until = until;
  if (pwrite(file, &kept, sizeof kept, 0) != sizeof kept || fdatasync(file)) {
    perror("kept");
    exit(1);
  }
}

static struct hold *place(const char *lock) {
  struct hold *free = NULL;
  for (struct hold *h = holds; h < holds + LOCKS; h++) {
    if (!strcmp(h->lock, lock)) return h;
    if (!free && !*h->lock) free = h;
  }
  if (free) snprintf(free->lock, sizeof free->lock, "%s", lock);
  return free;
}

static long long answer(const char *op, const char *lock, long long owner, long long lease) {
  long long now = now_ms();
  struct hold *h = place(lock);
  if (!h) return 0;
  int held = now < h->until, mine = held && h->owner == owner;
  if (!strcmp(op, "acquire")) {
    if (mine) return h->token;
    if (held || now < quiet) return 0;
    h->owner = owner, h->token = ++kept.token, h->until = now + lease;
    keep(h->until);
    return h->token;
  }
  if (!mine) return 0;
  h->until = strcmp(op, "renew") ? 0 : now + lease;
  if (h->until) keep(h->until);
  return 1;
}

/* Answers one plug's line; 0 if the plug is done with. A client sends a line in one piece. */
static int serve(int plug) {
  char line[LINE], op[16] = "", lock[128] = "";
  long long owner = 0, lease = 0;
  ssize_t got = recv(plug, line, sizeof line - 1, 0);
  if (got <= 0) return 0;
  line[got] = 0;
  sscanf(line, "%15s %127s %lld %lld", op, lock, &owner, &lease);
  int n = !strcmp(op, "ping") ? snprintf(line, sizeof line, "pong\n")
                              : snprintf(line, sizeof line, "%lld\n", answer(op, lock, owner, lease));
  return send(plug, line, n, MSG_NOSIGNAL) == n;
}

int main(int argc, char **argv) {
  struct pollfd plugs[PLUGS] = {{.fd = socket(AF_INET, SOCK_STREAM, 0), .events = POLLIN}};
  struct sockaddr_in here = {.sin_family = AF_INET};
  int count = 1, yes = 1;
  if (argc != 4 || chdir(argv[3]) || (file = open("kept", O_RDWR | O_CREAT, 0644)) < 0) {
    fprintf(stderr, "server ADDRESS PORT FOLDER\n");
    return 2;
  }
  if (pread(file, &kept, sizeof kept, 0) == sizeof kept) quiet = kept.until;
  inet_pton(AF_INET, argv[1], &here.sin_addr);
  here.sin_port = htons(atoi(argv[2]));
  setsockopt(plugs[0].fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(plugs[0].fd, (struct sockaddr *)&here, sizeof here) || listen(plugs[0].fd, PLUGS)) {
    perror("listen");
    return 1;
  }
  printf("serving on %s:%s, nothing is granted for %lld ms\n", argv[1], argv[2],
         quiet > now_ms() ? quiet - now_ms() : 0);
  fflush(stdout);
  while (poll(plugs, count, -1) > 0) {
    for (int n = count - 1; n > 0; n--)
      if (plugs[n].revents && !serve(plugs[n].fd)) {
        close(plugs[n].fd);
        plugs[n] = plugs[--count];
      }
    if (plugs[0].revents && count < PLUGS)
      plugs[count++] = (struct pollfd){.fd = accept(plugs[0].fd, NULL, NULL), .events = POLLIN};
  }
  return 1;
}
