// Lock of go-zookeeper, one session for each client. The library has no notice of a loss: its user
// has the events of the session, of which StateDisconnected comes before the servers end it.
//
// Lock has neither a timeout nor a way to give up. A request whose time is over leaves its Lock in
// the queue, and unlocks it as soon as it is granted.
package main

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/samuel/go-zookeeper/zk"
)

const (
	// A Lock that nobody else holds takes several calls.
	tryWait = 100 * time.Millisecond
	// An Unlock without an outcome is repeated this often, at most this many times.
	unlockEvery = 500 * time.Millisecond
	unlockTimes = 60
)

type zookeeper struct {
	connection *zk.Conn
	tokens     bool
	mutex      sync.Mutex
	holds      map[*zkHold]bool
}

type zkHold struct {
	servers *zookeeper
	asked   request
	lock    *zk.Lock
	session int64
	number  *int64
	// Of the notice: whether the grant was reported, and why the hold is over, "" if it is not.
	reported bool
	reason   string
}

func (servers *zookeeper) acquire(asked request) (hold, error) {
	path := "/locks/" + asked.Lock
	held := &zkHold{
		servers: servers,
		asked:   asked,
		lock:    zk.NewLock(servers.connection, path, zk.WorldACL(zk.PermAll)),
		session: servers.connection.SessionID(),
	}
	waiting, cancel := asked.within(tryWait)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- held.lock.Lock() }()
	select {
	case err := <-ended:
		if err != nil {
			// By its documentation it returns when the lock is acquired or with an error, and it
			// has no way to ask again: this attempt does not hold the lock, now or later.
			return nil, notGranted{err}
		}
	case <-waiting.Done():
		go func() {
			if <-ended == nil {
				held.unlock()
			}
		}()
		return nil, nil
	}
	held.begin()
	if servers.tokens {
		held.number = servers.czxid(path)
	}
	return held, nil
}

// begin has the hold notified of the events of its session.
func (held *zkHold) begin() {
	servers := held.servers
	servers.mutex.Lock()
	defer servers.mutex.Unlock()
	servers.holds[held] = true
	if servers.connection.State() != zk.StateHasSession {
		held.reason = "session " + servers.connection.State().String()
	} else if held.session != 0 && held.session != servers.connection.SessionID() {
		held.reason = "another session"
	}
}

// czxid returns that of the first node of the queue, if it is one of this session.
func (servers *zookeeper) czxid(path string) *int64 {
	nodes, _, err := servers.connection.Children(path)
	if err != nil {
		return nil
	}
	first, lowest := "", 0
	for _, node := range nodes {
		number, err := strconv.Atoi(node[strings.LastIndex(node, "-")+1:])
		if err == nil && (first == "" || number < lowest) {
			first, lowest = node, number
		}
	}
	_, found, err := servers.connection.Exists(path + "/" + first)
	if err != nil || found == nil || found.EphemeralOwner != servers.connection.SessionID() {
		return nil
	}
	return &found.Czxid
}

// heard notifies all holds of the end of their session.
func (servers *zookeeper) heard(said zk.Event) {
	if said.Type != zk.EventSession {
		return
	}
	if said.State != zk.StateDisconnected && said.State != zk.StateExpired {
		return
	}
	servers.mutex.Lock()
	defer servers.mutex.Unlock()
	for held := range servers.holds {
		if held.reason == "" {
			held.reason = said.State.String()
			if held.reported {
				held.asked.lost(held.reason)
			}
		}
	}
}

func (held *zkHold) watch() {
	held.servers.mutex.Lock()
	defer held.servers.mutex.Unlock()
	held.reported = true
	if held.reason != "" {
		held.asked.lost(held.reason)
	}
}

func (held *zkHold) token() *int64 { return held.number }

// renew does not ask the servers: the session is kept alive by the library.
func (held *zkHold) renew() (bool, error) {
	held.servers.mutex.Lock()
	defer held.servers.mutex.Unlock()
	return held.reason == "", nil
}

func (held *zkHold) release() (bool, error) {
	held.servers.mutex.Lock()
	delete(held.servers.holds, held)
	held.servers.mutex.Unlock()
	err := held.lock.Unlock()
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	if err != nil {
		go held.unlock()
	}
	return err == nil, err
}

// unlock repeats an Unlock until it has an outcome.
func (held *zkHold) unlock() {
	for i := 0; i < unlockTimes; i++ {
		err := held.lock.Unlock()
		if err == nil || errors.Is(err, zk.ErrNoNode) {
			return
		}
		time.Sleep(unlockEvery)
	}
}

func (servers *zookeeper) close() { servers.connection.Close() }

func main() {
	addresses, lease, options := arguments()
	servers := &zookeeper{tokens: options["tokens"] == "czxid", holds: map[*zkHold]bool{}}
	connection, _, err := zk.Connect(
		addresses, lease, zk.WithEventCallback(servers.heard), zk.WithLogInfo(false))
	if err != nil {
		fail(err)
	}
	servers.connection = connection
	serve(servers)
}
