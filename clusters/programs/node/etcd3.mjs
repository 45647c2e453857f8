// etcd3: `lock.do`, which keeps the lease alive until the function returns; one try, so we poll.
import { library, serve, waiting } from "./protocol.mjs";

const { Etcd3, EtcdLockFailedError } = library("etcd3");
const PORT = 2379;
const ANSWER_WITHIN_MS = 1000;
const POLL_MS = 50;

// The function of `do` runs from the grant to the release.
function done(client, { lock, lease_ms: lease }) {
  return new Promise((granted, rejected) => {
    const held = client.lock(lock).ttl(Math.max(1, Math.ceil(lease / 1000)));
    const left = held.do(() => new Promise((leave) => granted({ leave, left: () => left })));
    left.catch(rejected);
  });
}

// The create revision of the lock's key is its fencing token.
async function withToken(client, lock, held) {
  const found = await client.get(lock).exec();
  if (found.kvs.length) held.token = Number(found.kvs[0].create_revision);
  return held;
}

serve((addresses, { tokens }) => {
  const client = new Etcd3({
    hosts: addresses.map((address) => `http://${address}:${PORT}`),
    // Of streams it would be the end of the lease's renewals.
    defaultCallOptions: ({ isStream }) =>
      isStream ? {} : { deadline: Date.now() + ANSWER_WITHIN_MS },
  });
  return {
    acquire: async (request) => {
      const until = request.timeout_ms < 0 ? Infinity : Date.now() + request.timeout_ms;
      for (;;) {
        try {
          const held = await done(client, request);
          return tokens === "revision" ? await withToken(client, request.lock, held) : held;
        } catch (error) {
          if (!(error instanceof EtcdLockFailedError)) throw error;
        }
        if (Date.now() + POLL_MS >= until) return null;
        waiting(request);
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      }
    },
    release: async ({ leave, left }) => {
      leave();
      await left();
    },
    close: () => client.close(),
  };
});
