import java.util.Collection;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;

/**
 * Curator's InterProcessSemaphoreV2 on ZooKeeper. It takes several leases one after another: two
 * clients may wait for each other until their time is over, and then give back what they have.
 */
final class CuratorSemaphore extends CuratorLocks {
    private record Hold(
        Protocol.Request request, InterProcessSemaphoreV2 semaphore, Collection<Lease> leases)
        implements Held {}

    private CuratorSemaphore(String[] words) {
        super(words);
    }

    @Override
    public Object acquire(Protocol.Request request) throws Exception {
        InterProcessSemaphoreV2 semaphore =
            new InterProcessSemaphoreV2(client, path(request), request.limit());
        Hold asking = new Hold(request, semaphore, null);
        asks(asking);
        Collection<Lease> leases = null;
        try {
            leases = semaphore.acquire(request.permits(), waitMs(request), TimeUnit.MILLISECONDS);
        } finally {
            if (leases == null) {
                over(request);
            }
        }
        return leases == null ? null : new Hold(request, semaphore, leases);
    }

    /** Whether nothing was heard of a loss: the recipe has no question of its own. */
    @Override
    public Boolean renew(Object handle) {
        return client.getZookeeperClient().isConnected();
    }

    @Override
    public boolean release(Object handle) {
        Hold held = (Hold) handle;
        over(held.request());
        held.semaphore().returnAll(held.leases());
        return true;
    }

    public static void main(String[] words) throws Exception {
        if (words.length > 0) {
            new Protocol(new CuratorSemaphore(words)).serve();
        }
    }
}
