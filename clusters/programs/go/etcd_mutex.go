// Mutex of etcd's own client for Go (clientv3/concurrency), with a session for each attempt, as
// `etcdctl lock` uses it, or its Election, as `etcdctl elect` does. The session keeps its lease
// alive; its channel Done is the notice of the loss.
package main

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
	pb "go.etcd.io/etcd/etcdserver/etcdserverpb"
)

const (
	port       = "2379"
	callWithin = time.Second
	// A try is a Lock with a short wait: this version of the client has no TryLock.
	tryWait = 100 * time.Millisecond
	// The key of a Mutex whose Unlock succeeded.
	unlocked = "\x00"
)

type etcd struct {
	client *clientv3.Client
	token  string
	elects bool
}

// session is that of one attempt, with the notice of its loss.
type session struct {
	*concurrency.Session
	asked request
	left  chan struct{}
}

type etcdHold struct {
	session
	mutex  *concurrency.Mutex
	number *int64
}

type electionHold struct {
	session
	election *concurrency.Election
	number   *int64
}

func (servers etcd) acquire(asked request) (hold, error) {
	of, err := newSession(servers.client, asked.LeaseMs)
	if err != nil {
		// Without a session nothing was asked of the lock.
		return nil, nil
	}
	own := session{Session: of, asked: asked, left: make(chan struct{})}
	if servers.elects {
		return servers.campaign(own)
	}
	return servers.lock(own)
}

func (servers etcd) lock(session session) (hold, error) {
	asked := session.asked
	mutex := concurrency.NewMutex(session.Session, "/locks/"+asked.Lock)
	waiting, cancel := asked.within(tryWait)
	defer cancel()
	if err := mutex.Lock(waiting); err != nil {
		// With its lease the key is gone, whatever became of the call.
		if session.end() != nil && mutex.Key() != unlocked {
			return nil, err
		}
		return nil, nil
	}
	held := &etcdHold{session: session, mutex: mutex}
	switch servers.token {
	case "revision":
		held.number = revision(mutex)
	case "header":
		number := mutex.Header().Revision
		held.number = &number
	}
	return held, nil
}

func (servers etcd) campaign(session session) (hold, error) {
	asked := session.asked
	election := concurrency.NewElection(session.Session, "/locks/"+asked.Lock)
	waiting, cancel := asked.within(tryWait)
	defer cancel()
	if err := election.Campaign(waiting, strconv.FormatInt(asked.Attempt, 10)); err != nil {
		// With its lease the key is gone, whatever became of the call.
		if session.end() != nil {
			return nil, err
		}
		return nil, nil
	}
	held := &electionHold{session: session, election: election}
	if servers.token == "revision" {
		number := election.Rev()
		held.number = &number
	}
	return held, nil
}

// newSession returns a session whose lease is the shortest whole number of seconds that is not
// shorter than what was asked for.
func newSession(client *clientv3.Client, leaseMs int64) (*concurrency.Session, error) {
	granting, cancel := context.WithTimeout(client.Ctx(), callWithin)
	defer cancel()
	seconds := (leaseMs + 999) / 1000
	lease, err := client.Grant(granting, seconds)
	if err != nil {
		return nil, err
	}
	return concurrency.NewSession(
		client, concurrency.WithTTL(int(seconds)), concurrency.WithLease(lease.ID))
}

// revision returns the create revision of the mutex's key.
func revision(mutex *concurrency.Mutex) *int64 {
	owner := pb.Compare(mutex.IsOwner())
	number := owner.GetCreateRevision()
	return &number
}

// end ends a session and its lease, whose end would else be waited for by the servers.
func (session session) end() error {
	session.Orphan()
	calling, cancel := context.WithTimeout(session.Client().Ctx(), callWithin)
	defer cancel()
	_, err := session.Client().Revoke(calling, session.Lease())
	return err
}

func (held *etcdHold) token() *int64     { return held.number }
func (held *electionHold) token() *int64 { return held.number }

// watch notifies of the end of the session, until the release.
func (session session) watch() {
	go func() {
		select {
		case <-session.Done():
			session.asked.lost("session.Done")
		case <-session.left:
		}
	}()
}

// renew asks the servers: the session renews its lease by itself.
func (held *etcdHold) renew() (bool, error) {
	client := held.Client()
	calling, cancel := context.WithTimeout(client.Ctx(), callWithin)
	defer cancel()
	said, err := client.Txn(calling).If(held.mutex.IsOwner()).Commit()
	if err != nil {
		return false, err
	}
	return said.Succeeded, nil
}

func (held *etcdHold) release() (bool, error) {
	close(held.left)
	calling, cancel := context.WithTimeout(held.Client().Ctx(), callWithin)
	defer cancel()
	err := held.mutex.Unlock(calling)
	go held.end()
	return err == nil, err
}

// renew proclaims the leader again, which the servers refuse if it leads no more.
func (held *electionHold) renew() (bool, error) {
	calling, cancel := context.WithTimeout(held.Client().Ctx(), callWithin)
	defer cancel()
	err := held.election.Proclaim(calling, strconv.FormatInt(held.asked.Attempt, 10))
	if errors.Is(err, concurrency.ErrElectionNotLeader) {
		return false, nil
	}
	return err == nil, err
}

func (held *electionHold) release() (bool, error) {
	close(held.left)
	calling, cancel := context.WithTimeout(held.Client().Ctx(), callWithin)
	defer cancel()
	err := held.election.Resign(calling)
	go held.end()
	return err == nil, err
}

func (servers etcd) close() { servers.client.Close() }

func main() {
	addresses, _, options := arguments()
	urls := make([]string, len(addresses))
	for i, address := range addresses {
		urls[i] = "http://" + net.JoinHostPort(address, port)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: urls, DialTimeout: callWithin})
	if err != nil {
		fail(err)
	}
	elects := options["api"] == "election"
	serve(etcd{client: client, token: options["tokens"], elects: elects})
}
