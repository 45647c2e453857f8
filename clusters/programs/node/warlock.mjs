// node-redis-warlock on one Redis server: lock, touch and unlock; the client polls.
import { library, serve, waiting } from "./protocol.mjs";
import { connect } from "./redis.mjs";

const POLL_MS = 50;

// The package's scripts swallow every error but NOSCRIPT, and then they have no result: whether
// the lock was ours is unknown.
function replied(result) {
  if (result === undefined) throw new Error("the package swallowed an error; there was no reply");
  return result;
}

serve((addresses) => {
  const server = connect(addresses[0]);
  const warlock = library("node-redis-warlock")(server);

  // The id of a grant, null if the lock is taken.
  const tried = ({ lock, lease_ms: lease }) =>
    new Promise((resolve, reject) =>
      warlock.lock(lock, lease, (error, unlock, id) =>
        error ? reject(error) : resolve(unlock ? { lock, id } : null),
      ),
    );

  return {
    acquire: async (request) => {
      const until = request.timeout_ms < 0 ? Infinity : Date.now() + request.timeout_ms;
      for (;;) {
        const held = await tried(request);
        if (held !== null || Date.now() + POLL_MS >= until) return held;
        waiting(request);
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      }
    },
    renew: async ({ lock, id }, { lease_ms: lease }) =>
      replied(await warlock.touch(lock, id, lease)) === "OK",
    release: ({ lock, id }) =>
      new Promise((resolve, reject) =>
        warlock.unlock(lock, id, (error, deleted) => (error ? reject(error) : resolve(deleted))),
      ).then((deleted) => replied(deleted) === 1),
    close: () => server.quit(),
  };
});
