// advisory-lock on PostgreSQL: a connection for each lock, whose session owns it.
import { library, serve, waiting } from "./protocol.mjs";

const { default: advisoryLock } = library("advisory-lock");
const PORT = 5432;
const POLL_MS = 50;

// As clusters/systems/postgres starts it.
const LOGIN = { user: "lock", database: "postgres" };

serve(([address]) => {
  const mutex = advisoryLock(`postgres://${LOGIN.user}@${address}:${PORT}/${LOGIN.database}`);
  return {
    acquire: async (request) => {
      const until = request.timeout_ms < 0 ? Infinity : Date.now() + request.timeout_ms;
      for (;;) {
        const unlock = await mutex(request.lock).tryLock();
        if (unlock !== undefined) return { unlock };
        if (Date.now() + POLL_MS >= until) return null;
        waiting(request);
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      }
    },
    release: async ({ unlock }) => {
      await unlock();
    },
  };
});
