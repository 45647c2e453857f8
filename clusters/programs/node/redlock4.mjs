// redlock 4 on several Redis servers: lock, extend and unlock.
import { library, serve } from "./protocol.mjs";
import { connect } from "./redis.mjs";

const Redlock = library("redlock");
const RETRY_MS = 200;

serve((addresses) => {
  const servers = addresses.map(connect);
  const kept = new Map();
  let failures = 0;
  // A call that began before a server failed may have had an effect on it.
  const failuresBefore = new WeakMap();

  function redlock({ timeout_ms: timeout }) {
    const retryCount = timeout < 0 ? -1 : Math.ceil(timeout / RETRY_MS);
    if (!kept.has(retryCount)) {
      const made = new Redlock(servers, { retryCount });
      made.on("clientError", () => (failures += 1));
      kept.set(retryCount, made);
    }
    return kept.get(retryCount);
  }

  function begun(request) {
    failuresBefore.set(request, failures);
    return request;
  }

  return {
    acquire: async (request) => ({
      held: await redlock(begun(request)).lock(request.lock, request.lease_ms),
    }),
    renew: async (handle, request) => {
      begun(request);
      handle.held = await handle.held.extend(request.lease_ms);
    },
    release: async ({ held }, request) => {
      begun(request);
      await held.unlock();
    },
    outcome: (error, request) => {
      if (!(error instanceof Redlock.LockError)) return "info";
      if (error.attempts === 0) return "fail";
      if (failures !== failuresBefore.get(request)) return "info";
      return request.op === "acquire" || request.op === "try" ? "fail" : "not_owner";
    },
    close: () => Promise.all(servers.map((server) => server.quit())),
  };
});
