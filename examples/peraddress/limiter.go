package main

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/hostlimit/rules"
)

// A Limiter paces each host, and each address that hosts share: a request takes its turn on its
// host first, then one on the address. Everything but that is the limiter of hosts'.
type Limiter struct {
	*memory.Limiter                          // of hosts
	addresses       *memory.Limiter          // of addresses
	of              func(host string) string // address of a host
	mu              sync.Mutex               // guards waiting
	waiting         map[string]int           // requests that wait for the address, by host
}

// New returns a Limiter. of returns the address of a host, always the same one.
func New(hosts, addresses hostlimit.Config, of func(host string) string) (*Limiter, error) {
	h, err := memory.New(hosts)
	a, addressErr := memory.New(addresses)
	return &Limiter{Limiter: h, addresses: a, of: of, waiting: map[string]int{}}, errors.Join(err, addressErr)
}

// Acquire implements hostlimit.Limiter.
func (l *Limiter) Acquire(ctx context.Context, host string, floor time.Duration) (hostlimit.Lease, error) {
	onHost, err := l.Limiter.Acquire(ctx, host, floor)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	onAddress, err := l.acquireAddress(ctx, host, onHost)
	if err != nil {
		onHost.Release()
		return nil, err
	}
	return &lease{Lease: onHost, address: onAddress, waited: time.Since(begin)}, nil
}

// acquireAddress takes the turn on the address of host, and keeps the one on the host meanwhile.
func (l *Limiter) acquireAddress(ctx context.Context, host string, onHost hostlimit.Lease) (hostlimit.Lease, error) {
	l.count(host, 1)
	defer l.count(host, -1)
	defer renewing(onHost, l.Config().WithDefaults().LeaseTTL/2)()
	if w := rules.Watcher(ctx); w != nil {
		ctx = context.WithValue(ctx, (*hostlimit.Watcher)(nil), watcher{w, host})
	}
	onAddress, err := l.addresses.Acquire(ctx, l.of(host), 0)
	if refused, ok := errors.AsType[*hostlimit.Error](err); ok {
		refused.Key = host
	}
	return onAddress, err
}

// renewing renews a lease again and again, until stop is called.
func renewing(l hostlimit.Lease, every time.Duration) (stop func()) {
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-time.After(every):
				l.Renew()
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) }
}

func (l *Limiter) count(host string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting[host] += n; l.waiting[host] == 0 {
		delete(l.waiting, host)
	}
}

// Next implements hostlimit.Limiter.
func (l *Limiter) Next(ctx context.Context, host string, floor time.Duration) (time.Time, error) {
	next, err := l.Limiter.Next(ctx, host, floor)
	onAddress, addressErr := l.addresses.Next(ctx, l.of(host), 0)
	if onAddress.After(next) {
		next = onAddress
	}
	return next, errors.Join(err, addressErr)
}

// Drain implements hostlimit.Controller. Requests that wait for an address hold their hosts' slots.
func (l *Limiter) Drain(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- l.addresses.Drain(ctx) }()
	return errors.Join(l.Limiter.Drain(ctx), <-ended)
}

// A lease is a turn on a host and on its address.
type lease struct {
	hostlimit.Lease // on the host
	address         hostlimit.Lease
	waited          time.Duration // for the address
}

// Start implements hostlimit.Lease. Both turns start at one time: if one of them has waited, the
// other starts anew.
func (l *lease) Start(ctx context.Context) (hostlimit.Grant, error) {
	for {
		onAddress, err := l.address.Start(ctx)
		if err != nil {
			return hostlimit.Grant{}, err
		}
		g, err := l.Lease.Start(ctx)
		if err != nil || g.Start.Sub(onAddress.Start) < time.Millisecond {
			g.WaitDelay += l.waited
			return g, err
		}
	}
}

// Renew implements hostlimit.Lease.
func (l *lease) Renew() {
	l.Lease.Renew()
	l.address.Renew()
}

// Release implements hostlimit.Lease.
func (l *lease) Release() (expired bool) {
	l.address.Release()
	return l.Lease.Release()
}

// A watcher names the wait for an address.
type watcher struct {
	hostlimit.Watcher
	host string
}

// Waits implements hostlimit.Watcher.
func (w watcher) Waits(on hostlimit.Wait) {
	on.Cause = "address " + on.Key + ": " + on.String()
	on.Hold = "address"
	on.Key = w.host
	on.Ahead = 0 // Cause has it
	w.Watcher.Waits(on)
}

// State implements hostlimit.Controller.
func (l *Limiter) State(ctx context.Context, host string) (hostlimit.HostState, error) {
	s, err := l.Limiter.State(ctx, host)
	l.show(ctx, &s)
	return s, err
}

// List implements hostlimit.Controller.
func (l *Limiter) List(ctx context.Context) iter.Seq2[hostlimit.HostState, error] {
	return func(yield func(hostlimit.HostState, error) bool) {
		for s, err := range l.Limiter.List(ctx) {
			l.show(ctx, &s)
			if !yield(s, err) {
				return
			}
		}
	}
}

// show adds the requests that wait for the address to the state of their host.
func (l *Limiter) show(ctx context.Context, s *hostlimit.HostState) {
	l.mu.Lock()
	waiting := l.waiting[s.Key]
	l.mu.Unlock()
	address := l.of(s.Key)
	on, err := l.addresses.State(ctx, address)
	if waiting == 0 || on.Waiters == 0 || err != nil {
		return
	}
	s.Waiters += waiting
	s.Hold = "address"
	s.Why = "address " + address + ": " + on.Why
	s.Next = on.Next
}
