import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.data.Stat;

/**
 * Curator's InterProcessMutex on ZooKeeper. Its documentation says that a holder cannot be certain
 * of the lock once the connection is SUSPENDED: that is the notice of the loss.
 *
 * <p>Arguments: the servers' addresses, the session timeout in ms, NAME=VALUE...
 */
final class CuratorMutex implements Protocol.Locks {
    private static final int PORT = 2181;
    private static final int CONNECT_MS = 1000;
    private static final int RETRY_MS = 100;
    private static final int RETRIES = 3;
    private static final int TRY_MS = 100;

    private record Held(String lock, long attempt, Mutex mutex) {}

    /** The mutex, which also tells its node. */
    private static final class Mutex extends InterProcessMutex {
        Mutex(CuratorFramework client, String path) {
            super(client, path);
        }

        String path() {
            return getLockPath();
        }
    }

    private final boolean tokens;
    private final CuratorFramework client;
    private final Map<Long, Held> holds = new ConcurrentHashMap<>();

    private CuratorMutex(String servers, int sessionMs, boolean tokens) {
        this.tokens = tokens;
        ExponentialBackoffRetry retries = new ExponentialBackoffRetry(RETRY_MS, RETRIES);
        client = CuratorFrameworkFactory.newClient(servers, sessionMs, CONNECT_MS, retries);
        client.getConnectionStateListenable().addListener((one, state) -> heard(state));
        client.start();
    }

    @Override
    public Object acquire(String lock, long attempt, long timeoutMs) throws Exception {
        Mutex mutex = new Mutex(client, "/locks/" + lock);
        Held held = new Held(lock, attempt, mutex);
        holds.put(attempt, held);
        boolean granted = false;
        try {
            // Without a time to wait it would not even look whether it is the first in the queue.
            long waitMs = timeoutMs < 0 ? Long.MAX_VALUE : Math.max(timeoutMs, TRY_MS);
            granted = mutex.acquire(waitMs, TimeUnit.MILLISECONDS);
        } finally {
            if (!granted) {
                holds.remove(attempt);
            }
        }
        return granted ? held : null;
    }

    @Override
    public Boolean renew(Object handle) {
        return ((Held) handle).mutex().isOwnedByCurrentThread();
    }

    @Override
    public boolean release(Object handle) throws Exception {
        Held held = (Held) handle;
        holds.remove(held.attempt());
        held.mutex().release();
        return true;
    }

    /** The czxid of the lock's node: it grows from grant to grant. */
    @Override
    public Long token(Object handle) throws Exception {
        Stat node = tokens ? client.checkExists().forPath(((Held) handle).mutex().path()) : null;
        return node == null ? null : node.getCzxid();
    }

    @Override
    public void close() {
        client.close();
    }

    private void heard(ConnectionState state) {
        if (state == ConnectionState.SUSPENDED || state == ConnectionState.LOST) {
            holds.values().forEach(
                held -> Protocol.lost(held.lock(), held.attempt(), "connection " + state));
        }
    }

    public static void main(String[] words) throws Exception {
        if (words.length == 0) {
            return;
        }
        String[] addresses = words[0].split(",");
        String servers = String.join(",",
            Arrays.stream(addresses).map(address -> address + ":" + PORT).toList());
        new Protocol(new CuratorMutex(servers, Integer.parseInt(words[1]),
            Arrays.asList(words).contains("tokens=czxid"))).serve();
    }
}
