import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * What all recipes of Curator share: one client, and its notice of a loss. Their documentation says
 * that a holder cannot be certain of the lock once the connection is SUSPENDED.
 *
 * <p>Arguments: the servers' addresses, the session timeout in ms, NAME=VALUE...
 */
abstract class CuratorLocks implements Protocol.Locks {
    /** Without a time to wait a recipe would not even look whether it is the first in the queue. */
    static final int TRY_MS = 100;

    private static final int PORT = 2181;
    private static final int CONNECT_MS = 1000;
    private static final int RETRY_MS = 100;
    private static final int RETRIES = 3;

    /** A hold of an attempt, or an attempt that may get it. */
    interface Held {
        Protocol.Request request();
    }

    final CuratorFramework client;
    final Map<Long, Held> holds = new ConcurrentHashMap<>();

    CuratorLocks(String[] words) {
        String servers = String.join(",",
            Arrays.stream(words[0].split(",")).map(address -> address + ":" + PORT).toList());
        ExponentialBackoffRetry retries = new ExponentialBackoffRetry(RETRY_MS, RETRIES);
        client = CuratorFrameworkFactory.newClient(
            servers, Integer.parseInt(words[1]), CONNECT_MS, retries);
        client.getConnectionStateListenable().addListener((one, state) -> heard(state));
        client.start();
    }

    static long waitMs(Protocol.Request request) {
        return request.timeoutMs() < 0 ? Long.MAX_VALUE : Math.max(request.timeoutMs(), TRY_MS);
    }

    static String path(Protocol.Request request) {
        return "/locks/" + request.lock();
    }

    /** The hold of an attempt that asks, which is notified while it asks, too. */
    void asks(Held held) {
        holds.put(held.request().attempt(), held);
    }

    void over(Protocol.Request request) {
        holds.remove(request.attempt());
    }

    @Override
    public void close() {
        client.close();
    }

    void heard(ConnectionState state) {
        if (state == ConnectionState.SUSPENDED || state == ConnectionState.LOST) {
            holds.values().forEach(held -> Protocol.lost(held.request(), "connection " + state));
        }
    }
}
