import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;

/** Curator's InterProcessReadWriteLock on ZooKeeper. */
final class CuratorReadWrite extends CuratorLocks {
    private record Hold(Protocol.Request request, InterProcessMutex lock) implements Held {}

    private CuratorReadWrite(String[] words) {
        super(words);
    }

    @Override
    public Object acquire(Protocol.Request request) throws Exception {
        InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, path(request));
        Hold held = new Hold(request, request.shared() ? both.readLock() : both.writeLock());
        asks(held);
        boolean granted = false;
        try {
            granted = held.lock().acquire(waitMs(request), TimeUnit.MILLISECONDS);
        } finally {
            if (!granted) {
                over(request);
            }
        }
        return granted ? held : null;
    }

    @Override
    public Boolean renew(Object handle) {
        return ((Hold) handle).lock().isOwnedByCurrentThread();
    }

    @Override
    public boolean release(Object handle) throws Exception {
        Hold held = (Hold) handle;
        over(held.request());
        held.lock().release();
        return true;
    }

    public static void main(String[] words) throws Exception {
        if (words.length > 0) {
            new Protocol(new CuratorReadWrite(words)).serve();
        }
    }
}
