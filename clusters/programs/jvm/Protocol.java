import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * The line protocol of a client program: requests on standard input, responses and events on
 * standard output, logs on standard error.
 *
 * <p>All calls of an attempt run in a thread of its own, because locks belong to threads; those of
 * attempts that may re-enter a lock run in one thread for the lock.
 */
final class Protocol {
    /** What an acquire asks for. Of a plain one the terms are those of an exclusive lock. */
    record Request(
        String lock, long attempt, long timeoutMs, boolean shared, int permits, int limit,
        boolean reenter) {
        static Request of(JsonNode line) {
            return new Request(
                line.get("lock").asText(), line.get("attempt").asLong(),
                line.path("timeout_ms").asLong(), line.path("mode").asText().equals("shared"),
                line.path("permits").asInt(1), line.path("limit").asInt(1),
                line.path("reenter").asBoolean());
        }
    }

    /** A lock library. A handle stands for the lock of one attempt. */
    interface Locks {
        /** A handle that holds the lock, or null if it was not granted in time. */
        Object acquire(Request request) throws Exception;

        /** Whether the attempt still holds the lock; null: the library has no renewal. */
        Boolean renew(Object handle) throws Exception;

        /** Whether the lock was the attempt's. */
        boolean release(Object handle) throws Exception;

        /** The fencing token of a handle; null: none. */
        default Long token(Object handle) throws Exception {
            return null;
        }

        void close();
    }

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = System.out;
    private static final int RESOURCE_MS = 2000;
    private final Locks locks;
    private final Map<Long, Object> handles = new ConcurrentHashMap<>();
    /** Attempts whose acquire raised an error, and may have been granted by the servers. */
    private final Set<Long> unsure = ConcurrentHashMap.newKeySet();
    private final Map<Long, ExecutorService> threads = new ConcurrentHashMap<>();
    private final Map<String, ExecutorService> reentrant = new ConcurrentHashMap<>();

    Protocol(Locks locks) {
        this.locks = locks;
    }

    /** Serves requests until the end of input. */
    void serve() throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode request = JSON.readTree(line);
            long attempt = request.get("attempt").asLong();
            thread(request, attempt).execute(() -> answer(request, attempt));
        }
        locks.close();
        System.exit(0);
    }

    /** The attempt's hold has ended, by the library's own notice. */
    static void lost(Request request, String reason) {
        ObjectNode said = JSON.createObjectNode().put("event", "lost").put("lock", request.lock());
        write(said.put("attempt", request.attempt()).put("reason", reason));
    }

    /** The thread of an attempt; that of the lock for those that may re-enter it. */
    private ExecutorService thread(JsonNode line, long attempt) {
        if (!line.path("reenter").asBoolean()) {
            return threads.computeIfAbsent(attempt, one -> newThread());
        }
        String lock = line.get("lock").asText();
        ExecutorService one = reentrant.computeIfAbsent(lock, name -> newThread());
        threads.put(attempt, one);
        return one;
    }

    private static ExecutorService newThread() {
        return Executors.newSingleThreadExecutor(Protocol::daemon);
    }

    private void answer(JsonNode request, long attempt) {
        ObjectNode said = JSON.createObjectNode().put("id", request.get("id").asLong());
        try {
            said.put("outcome", outcome(request, attempt, said));
        } catch (Exception error) {
            said.put("outcome", "info").put("error", error.toString());
            if (acquires(request)) {
                unsure.add(attempt);
            }
        }
        write(said);
        boolean over = !handles.containsKey(attempt);
        if (over) {
            ExecutorService gone = threads.remove(attempt);
            if (!reentrant.containsValue(gone)) {
                gone.shutdown();
            }
        }
    }

    /** Sends a line to the protected resource, by a send of this process. */
    private static String sent(JsonNode request, ObjectNode said) throws Exception {
        boolean open = false;
        try (Socket plug = new Socket()) {
            plug.setTcpNoDelay(true);
            plug.setSoTimeout(RESOURCE_MS);
            String address = request.get("address").asText();
            plug.connect(new InetSocketAddress(address, request.get("port").asInt()), RESOURCE_MS);
            open = true;
            byte[] line = (request.get("line").asText() + "\n").getBytes(StandardCharsets.UTF_8);
            plug.getOutputStream().write(line);
            String answer =
                new BufferedReader(new InputStreamReader(plug.getInputStream())).readLine();
            if (answer == null) {
                return "info";
            }
            said.put("answer", answer);
            return "ok";
        } catch (IOException error) {
            said.put("error", error.toString());
            return open ? "info" : "fail";
        }
    }

    private String outcome(JsonNode request, long attempt, ObjectNode said) throws Exception {
        String op = request.get("op").asText();
        if (op.equals("send")) {
            return sent(request, said);
        }
        if (acquires(request)) {
            Object handle = locks.acquire(Request.of(request));
            if (handle == null) {
                return "fail";
            }
            handles.put(attempt, handle);
            Long token = locks.token(handle);
            if (token != null) {
                said.put("token", token);
            }
            return "ok";
        }
        Object handle = handles.get(attempt);
        if (handle == null && unsure.contains(attempt)) {
            said.put("error", "no lock of this attempt, whose acquire has no certain outcome");
            return "info";
        }
        if (handle == null) {
            return "not_owner";
        }
        if (op.equals("renew")) {
            Boolean kept = locks.renew(handle);
            return kept == null ? "fail" : kept ? "ok" : "not_owner";
        }
        handles.remove(attempt);
        return locks.release(handle) ? "ok" : "not_owner";
    }

    private static boolean acquires(JsonNode request) {
        String op = request.get("op").asText();
        return op.equals("acquire") || op.equals("try");
    }

    private static synchronized void write(ObjectNode said) {
        OUT.println(said);
        OUT.flush();
    }

    private static Thread daemon(Runnable work) {
        Thread made = new Thread(work);
        made.setDaemon(true);
        return made;
    }
}
