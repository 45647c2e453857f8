import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.leader.Participant;

/** Curator's LeaderLatch on ZooKeeper: each attempt is a participant, which leaves by its close. */
final class CuratorLatch extends CuratorLocks {
    private record Hold(Protocol.Request request, LeaderLatch latch) implements Held {}

    private CuratorLatch(String[] words) {
        super(words);
    }

    @Override
    public Object acquire(Protocol.Request request) throws Exception {
        Hold held = new Hold(
            request, new LeaderLatch(client, path(request), Long.toString(request.attempt())));
        held.latch().addListener(new LeaderLatchListener() {
            @Override
            public void isLeader() {}

            @Override
            public void notLeader() {
                if (holds.containsKey(request.attempt())) {
                    Protocol.lost(request, "notLeader");
                }
            }
        });
        asks(held);
        held.latch().start();
        // A latch answers that it leads as soon as it does: its lead may have gone again since.
        if (held.latch().await(waitMs(request), TimeUnit.MILLISECONDS)) {
            return held;
        }
        over(request);
        leave(held);
        return null;
    }

    /** Closes a latch, which deletes its node in the background: that of one may still lead. */
    private void leave(Hold held) throws Exception {
        Protocol.Request request = held.request();
        held.latch().close(LeaderLatch.CloseMode.SILENT);
        client.sync().forPath(path(request));
        String id = Long.toString(request.attempt());
        for (Participant one : held.latch().getParticipants()) {
            if (one.getId().equals(id)) {
                throw new IllegalStateException("a node of " + request.lock() + " is left");
            }
        }
    }

    @Override
    public Boolean renew(Object handle) {
        return ((Hold) handle).latch().hasLeadership();
    }

    @Override
    public boolean release(Object handle) throws Exception {
        Hold held = (Hold) handle;
        over(held.request());
        leave(held);
        return true;
    }

    public static void main(String[] words) throws Exception {
        if (words.length > 0) {
            new Protocol(new CuratorLatch(words)).serve();
        }
    }
}
