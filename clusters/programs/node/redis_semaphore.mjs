// redis-semaphore: on one Redis server its Mutex, Semaphore or MultiSemaphore; on several its
// RedlockMutex, RedlockSemaphore or RedlockMultiSemaphore. The package refreshes by itself, unless
// the interval is 0.
import { library, lost, serve } from "./protocol.mjs";
import { connect } from "./redis.mjs";

const { Mutex, MultiSemaphore, RedlockMultiSemaphore, RedlockMutex, RedlockSemaphore, Semaphore } =
  library("redis-semaphore");
const UNBOUNDED_MS = 1e9;

serve((addresses, options) => {
  const servers = addresses.map(connect);
  const several = servers.length > 1;

  function made(request) {
    const { lock, timeout_ms: timeout, lease_ms: lockTimeout, permits = 1, limit = 1 } = request;
    const settings = { lockTimeout, onLockLost: (error) => lost(request, error.message) };
    if (options.renew === "call") settings.refreshInterval = 0;
    if (timeout === 0) settings.acquireAttemptsLimit = 1;
    else settings.acquireTimeout = timeout < 0 ? UNBOUNDED_MS : timeout;
    const place = several ? servers : servers[0];
    if (options.api === "multi-semaphore") {
      const Multi = several ? RedlockMultiSemaphore : MultiSemaphore;
      return new Multi(place, lock, limit, permits, settings);
    }
    if (options.api === "semaphore") {
      return new (several ? RedlockSemaphore : Semaphore)(place, lock, limit, settings);
    }
    return new (several ? RedlockMutex : Mutex)(place, lock, settings);
  }

  return {
    acquire: async (request) => {
      const lock = made(request);
      return (await lock.tryAcquire()) ? lock : null;
    },
    // The user may only ask whether the package still counts itself as the owner.
    renew: options.renew === "call" ? undefined : (lock) => lock.isAcquired,
    release: (lock) => lock.release(),
    close: () => Promise.all(servers.map((server) => server.quit())),
  };
});
