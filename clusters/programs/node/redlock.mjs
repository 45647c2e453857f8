// redlock 5 and its fork on several Redis servers: acquire and extend, or `using`, which extends by
// itself.
import { library, lost, named, serve } from "./protocol.mjs";
import { connect } from "./redis.mjs";

const { Redlock, ExecutionError, ResourceLockedError } = imported();
const RETRY_MS = 200;
const THRESHOLD_MS = 500;

function imported() {
  const found = library(named);
  return { ...found, Redlock: found.Redlock ?? found.default };
}

// Certain only if every server rejected every round. A call that asked no server had no effect.
async function outcome(error, { op }) {
  if (!(error instanceof ExecutionError)) return "info";
  const rounds = await Promise.all(error.attempts);
  const rejected = rounds.every(
    ({ votesFor, votesAgainst }) =>
      votesFor.size === 0 &&
      [...votesAgainst.values()].every((vote) => vote instanceof ResourceLockedError),
  );
  if (!rejected) return "info";
  return rounds.length === 0 || op === "acquire" || op === "try" ? "fail" : "not_owner";
}

function settings({ timeout_ms: timeout, lease_ms: lease }) {
  return {
    retryCount: timeout < 0 ? -1 : Math.ceil(timeout / RETRY_MS),
    automaticExtensionThreshold: Math.min(THRESHOLD_MS, Math.floor(lease / 2)),
  };
}

// The routine of `using` runs from the grant to the release.
function used(redlock, request) {
  return new Promise((granted, rejected) => {
    const routine = (signal) =>
      new Promise((leave) => {
        signal.addEventListener("abort", () => lost(request, signal.error?.message ?? "aborted"));
        granted({ leave, left });
      });
    const left = redlock.using([request.lock], request.lease_ms, settings(request), routine);
    left.catch(rejected);
  });
}

serve((addresses, options) => {
  const redlock = new Redlock(addresses.map(connect));
  const close = () => redlock.quit();
  if (options.renew === "library") {
    return {
      acquire: (request) => used(redlock, request),
      release: async ({ leave, left }) => {
        leave();
        await left;
      },
      outcome,
      close,
    };
  }
  return {
    acquire: async (request) => ({
      held: await redlock.acquire([request.lock], request.lease_ms, settings(request)),
    }),
    renew: async (handle, { lease_ms }) => {
      handle.held = await handle.held.extend(lease_ms);
    },
    release: async ({ held }) => {
      await held.release();
    },
    outcome,
    close,
  };
});
