import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.zookeeper.data.Stat;

/** Curator's InterProcessMutex on ZooKeeper. A request that may re-enter uses the same object. */
final class CuratorMutex extends CuratorLocks {
    private record Hold(Protocol.Request request, Mutex mutex) implements Held {}

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
    private final Map<String, Mutex> reentrant = new ConcurrentHashMap<>();

    private CuratorMutex(String[] words) {
        super(words);
        tokens = Arrays.asList(words).contains("tokens=czxid");
    }

    @Override
    public Object acquire(Protocol.Request request) throws Exception {
        Mutex mutex = request.reenter()
            ? reentrant.computeIfAbsent(request.lock(), lock -> new Mutex(client, path(request)))
            : new Mutex(client, path(request));
        Hold held = new Hold(request, mutex);
        asks(held);
        boolean granted = false;
        try {
            granted = mutex.acquire(waitMs(request), TimeUnit.MILLISECONDS);
        } finally {
            if (!granted) {
                over(request);
            }
        }
        return granted ? held : null;
    }

    @Override
    public Boolean renew(Object handle) {
        return ((Hold) handle).mutex().isOwnedByCurrentThread();
    }

    @Override
    public boolean release(Object handle) throws Exception {
        Hold held = (Hold) handle;
        over(held.request());
        held.mutex().release();
        return true;
    }

    /** The czxid of the lock's node: it grows from grant to grant. */
    @Override
    public Long token(Object handle) throws Exception {
        Stat node = tokens ? client.checkExists().forPath(((Hold) handle).mutex().path()) : null;
        return node == null ? null : node.getCzxid();
    }

    /** An object whose holds are uncertain is not entered again: it would count, and not ask. */
    @Override
    void heard(ConnectionState state) {
        if (state == ConnectionState.SUSPENDED || state == ConnectionState.LOST) {
            reentrant.clear();
        }
        super.heard(state);
    }

    public static void main(String[] words) throws Exception {
        if (words.length > 0) {
            new Protocol(new CuratorMutex(words)).serve();
        }
    }
}
