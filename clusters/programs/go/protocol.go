// The line protocol of a client program: requests on standard input, responses and events on
// standard output, logs on standard error.
//
//	PROGRAM                                     exit at once: it could be started
//	PROGRAM ADDRESSES LEASE_MS NAME=VALUE...    serve until the end of input
//
// Requests of one attempt run in their order, those of different attempts at the same time.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	resourceWithin = 2 * time.Second
	requestBytes   = 1 << 20
	errorBytes     = 300
)

// locks is a lock library on the servers of a run.
type locks interface {
	// acquire returns the hold of a request; nil, nil or an error that is notGranted: certainly
	// not granted.
	acquire(asked request) (hold, error)
	close()
}

// hold is a lock that was granted to one attempt.
type hold interface {
	// renew reports whether the attempt still holds the lock.
	renew() (bool, error)
	// release reports whether the lock was the attempt's.
	release() (bool, error)
	// token returns the fencing token; nil: none.
	token() *int64
}

// notGranted is an error after which the request certainly has no lock.
type notGranted struct{ error }

// told is a hold that notifies of its loss from the time at which the grant was reported.
type told interface {
	watch()
}

type request struct {
	ID        int64  `json:"id"`
	Op        string `json:"op"`
	Lock      string `json:"lock"`
	Attempt   int64  `json:"attempt"`
	TimeoutMs int64  `json:"timeout_ms"`
	LeaseMs   int64  `json:"lease_ms"`
	Address   string `json:"address"`
	Port      int    `json:"port"`
	Line      string `json:"line"`
}

type response struct {
	ID      int64  `json:"id"`
	Outcome string `json:"outcome"`
	Token   *int64 `json:"token,omitempty"`
	Error   string `json:"error,omitempty"`
	Answer  string `json:"answer,omitempty"`
}

type event struct {
	Event   string `json:"event"`
	Lock    string `json:"lock"`
	Attempt int64  `json:"attempt"`
	Reason  string `json:"reason,omitempty"`
}

type server struct {
	library locks
	mutex   sync.Mutex
	holds   map[int64]hold
	unsure  map[int64]bool
	// The end of the last request of each attempt that has any.
	last map[int64]chan struct{}
}

var output sync.Mutex

// arguments returns the addresses of the servers, the lease, and the options; it ends the process
// if it was started without any.
func arguments() ([]string, time.Duration, map[string]string) {
	if len(os.Args) < 3 {
		os.Exit(0)
	}
	lease, err := time.ParseDuration(os.Args[2] + "ms")
	if err != nil {
		fail(err)
	}
	options := map[string]string{}
	for _, word := range os.Args[3:] {
		name, value, _ := strings.Cut(word, "=")
		options[name] = value
	}
	return strings.Split(os.Args[1], ","), lease, options
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// within returns the context of a call that may wait for the lock, and the function that ends it.
func (asked request) within(atLeast time.Duration) (context.Context, context.CancelFunc) {
	if asked.TimeoutMs < 0 {
		return context.WithCancel(context.Background())
	}
	wait := time.Duration(asked.TimeoutMs) * time.Millisecond
	if wait < atLeast {
		wait = atLeast
	}
	return context.WithTimeout(context.Background(), wait)
}

// lost reports that the hold of an attempt has ended, by the library's own notice.
func (asked request) lost(reason string) {
	write(event{Event: "lost", Lock: asked.Lock, Attempt: asked.Attempt, Reason: reason})
}

// serve answers requests until the end of input.
func serve(library locks) {
	running := server{library: library, holds: map[int64]hold{}, unsure: map[int64]bool{}, last: map[int64]chan struct{}{}}
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, requestBytes)
	for input.Scan() {
		var asked request
		if err := json.Unmarshal(input.Bytes(), &asked); err != nil {
			fail(err)
		}
		running.queue(asked)
	}
	if err := input.Err(); err != nil {
		fail(err)
	}
	library.close()
	os.Exit(0)
}

// queue starts a request as soon as those of its attempt that came before have ended.
func (running *server) queue(asked request) {
	running.mutex.Lock()
	before, ended := running.last[asked.Attempt], make(chan struct{})
	running.last[asked.Attempt] = ended
	running.mutex.Unlock()
	go func() {
		if before != nil {
			<-before
		}
		running.answer(asked)
		running.mutex.Lock()
		if running.last[asked.Attempt] == ended {
			delete(running.last, asked.Attempt)
		}
		running.mutex.Unlock()
		close(ended)
	}()
}

func (running *server) answer(asked request) {
	said := response{ID: asked.ID, Outcome: "info"}
	granted, err := running.call(asked, &said)
	if err != nil {
		said.Error = err.Error()
		if len(said.Error) > errorBytes {
			said.Error = said.Error[:errorBytes]
		}
	}
	write(said)
	if notified, ok := granted.(told); ok {
		notified.watch()
	}
}

// call executes a request and fills in its response; it returns the hold of a new grant.
func (running *server) call(asked request, said *response) (hold, error) {
	switch asked.Op {
	case "send":
		return nil, send(asked, said)
	case "acquire", "try":
		granted, err := running.library.acquire(asked)
		if errors.As(err, &notGranted{}) || err == nil && granted == nil {
			said.Outcome = "fail"
		} else if err != nil {
			running.mutex.Lock()
			running.unsure[asked.Attempt] = true
			running.mutex.Unlock()
		}
		if err != nil || granted == nil {
			return nil, err
		}
		said.Token, said.Outcome = granted.token(), "ok"
		running.mutex.Lock()
		running.holds[asked.Attempt] = granted
		running.mutex.Unlock()
		return granted, nil
	case "renew", "release":
		held := running.held(asked)
		if held == nil && running.mayHold(asked) {
			return nil, errors.New("no lock of this attempt, whose acquire has no certain outcome")
		}
		if held == nil {
			said.Outcome = "not_owner"
			return nil, nil
		}
		action := held.renew
		if asked.Op == "release" {
			action = held.release
		}
		ours, err := action()
		if err != nil {
			return nil, err
		}
		said.Outcome = "not_owner"
		if ours {
			said.Outcome = "ok"
		}
		return nil, nil
	}
	return nil, errors.New("unknown op " + asked.Op)
}

// mayHold says whether the acquire of an attempt returned an error: the servers may have granted it.
func (running *server) mayHold(asked request) bool {
	running.mutex.Lock()
	defer running.mutex.Unlock()
	return running.unsure[asked.Attempt]
}

// held returns the hold of an attempt, and forgets it if the request is its release.
func (running *server) held(asked request) hold {
	running.mutex.Lock()
	defer running.mutex.Unlock()
	held := running.holds[asked.Attempt]
	if asked.Op == "release" {
		delete(running.holds, asked.Attempt)
	}
	return held
}

// send sends a line to the protected resource, by a send of this process; one connection for each.
func send(asked request, said *response) error {
	address := net.JoinHostPort(asked.Address, fmt.Sprint(asked.Port))
	resource, err := net.DialTimeout("tcp", address, resourceWithin)
	if err != nil {
		said.Outcome = "fail"
		return err
	}
	defer resource.Close()
	if err := resource.SetDeadline(time.Now().Add(resourceWithin)); err != nil {
		return err
	}
	if _, err := resource.Write([]byte(asked.Line + "\n")); err != nil {
		return err
	}
	answer, err := bufio.NewReader(resource).ReadString('\n')
	if err != nil {
		return err
	}
	said.Outcome, said.Answer = "ok", strings.TrimSpace(answer)
	return nil
}

func write(said interface{}) {
	line, err := json.Marshal(said)
	if err != nil {
		fail(err)
	}
	output.Lock()
	defer output.Unlock()
	if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
		fail(err)
	}
}
