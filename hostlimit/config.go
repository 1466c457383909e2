package hostlimit

import (
	"cmp"
	"time"

	"github.com/go-politeness/politeness/backoff"
)

// Config configures a Limiter. The zero value is 2 requests a host, 200 to 500 ms apart. Set it in
// politeness.Config.Hosts, or pass it to memory.New.
type Config struct {
	// Concurrency is the number of slots per key. The default is 2.
	Concurrency int

	// MaxInFlight bounds the requests in flight over all keys. The default is 0, which is
	// unlimited. Each request in flight occupies one of MaxInFlight places. If places are scarce,
	// the keys that could start get one in turn. A key that waits for its delay or block gets none.
	MaxInFlight int

	// PerSite bounds the requests in flight over all keys of a site, so that no page's links send many
	// concurrent requests to one machine. A site is a registrable domain of the public suffix list,
	// with all its names and ports. The private section of the list counts, so two users of github.io
	// are two sites. If the host is an address, its site is the address with all ports. The default is
	// 16, or Concurrency if that is more. If it is negative, there is no bound. In the result of
	// Limiter.Config, 0 means no bound too. Limits of Override don't raise it. Keys of a site take its
	// places in turn, one each. A key that waits for such a place delays no other site, and occupies
	// no place of MaxInFlight. If several processes share a limiter, the bound may apply to each
	// process by itself.
	PerSite int

	// Delay sets the gap between the starts of two requests on a key.
	Delay Delay

	// SlotTimeout is the longest wait for a slot. The default is 0, so that only MaxWait bounds the
	// wait. The clock of a request runs while every slot of its key is in use. The clock starts
	// anew when a slot is free and the queue waits for the delay or the end of a block. Set
	// SlotTimeout to find bodies that are never read. A long crawl-delay doesn't make a request
	// time out. A slow host with all slots in use may.
	SlotTimeout time.Duration

	// LeaseTTL is the time after which an unused lease loses its slot. A lease is unused if it is
	// neither renewed nor released, for example because a body is neither read nor closed. The
	// default is 300 s. It counts from Acquire, from each Start and from each Renew. A body that is
	// read keeps its slot for any time, so LeaseTTL only has to be longer than the longest wait for
	// a response and for a single read. Change it only if a host needs longer than that.
	LeaseTTL time.Duration

	// MaxWait is the longest wait of a request for its start. The default is an hour. A request
	// whose wait is known to be longer fails immediately, with RetryAt.
	MaxWait time.Duration

	// Backoff is the length of the blocks that refusals set if the response has no Retry-After. The
	// default is backoff.Fibonacci{}. If Backoff is a backoff.Refusals, it can name further
	// responses that count as refusals (see Outcome).
	Backoff backoff.Policy

	// Windows are the hours in which requests may start. The default is none, so that requests may
	// start at any time. Outside of them every key waits as if it were blocked.
	Windows []Window

	// MaxHosts is the approximate number of keys that are kept. The default is 1,000,000. It bounds
	// idle keys only. Some keys are kept whatever MaxHosts is. These are keys with a slot in use or a
	// waiting request, with a delay or block that isn't over, and those whose next request is to be a
	// probe. Any other key may be forgotten, with its learned delay. A key may be forgotten a minute
	// after its last start. If a request then asks for a floor of more than a minute, the request may
	// start too early, because the last start isn't known.
	MaxHosts int

	// Store keeps the state of keys beyond the life of the process. It keeps blocks, refusals in a
	// row, learned delays, and next starts more than a minute away. The default is nil, so that
	// nothing is kept. A change is saved before Observe, Start or, with FromEnd, Release returns.
	// The kept state of a key (its Debt) is read when the key is first used. It is read again if
	// the key is used 10 s or more after the last reading. So processes that share a Store see each
	// other's blocks. Gaps of a minute and less aren't kept. Instead, the first start of a key in a
	// process waits for the key's gap, counted from New. A Store that fails stops no request.
	// Grant.StateErr reports the failure. A Store costs about 450 bytes a key. Package redislimit
	// keeps its state on a server. Its comment says how it uses a Store.
	Store Store

	// Override returns the limits of single keys. The default is nil, so that all keys have the same
	// limits. Override is called at each Acquire, and again when a waiting request may start. It is
	// never called under a lock. It may return other limits each time. It must be quick and safe for
	// concurrent use. Package hostlimit/overrides reads them from a file.
	Override func(key string) (Limits, bool)
}

// Delay sets the gap between two starts on a key. The gap is a random time in [Min, Max], or the
// adaptive delay or the caller's floor if that is longer. Set it in Config.Delay, or in the Limits
// of one key.
type Delay struct {
	Min, Max time.Duration // bounds of the random delay, by default 200 to 500 ms; if only Max is 0, it is Min
	Adaptive Adaptive      // formula that changes the delay, by default Learned
	Ceiling  time.Duration // upper bound of the adaptive delay, by default 60 s, or Min if that is longer

	// FromEnd is for hosts that need a pause. Gap and floor then count from the end of the request
	// before (Release). It needs Concurrency 1.
	FromEnd bool
	// DangerouslyNone is for your own servers and tests. If it is true, there is no random delay.
	// Crawl-delay, Adaptive and blocks still apply.
	DangerouslyNone bool
}

// Limits replace Concurrency and Delay for one key. Zero fields keep the Config's. A Delay replaces
// the whole Delay of the Config. Config.Override returns them.
type Limits struct {
	Concurrency int
	Delay       Delay
}

// WithDefaults returns c with its zero fields set to their defaults. A zero MaxInFlight and a zero
// SlotTimeout stay, since they mean that there is no bound. Backoff becomes a backoff.Refusals. Use
// it to show the limits that apply.
func (c Config) WithDefaults() Config {
	own := Limits{c.Concurrency, c.Delay}.WithDefaults()
	c.Concurrency = own.Concurrency
	c.Delay = own.Delay
	c.PerSite = cmp.Or(c.PerSite, max(16, c.Concurrency))
	c.LeaseTTL = cmp.Or(c.LeaseTTL, 300*time.Second)
	c.MaxWait = cmp.Or(c.MaxWait, time.Hour)
	c.MaxHosts = cmp.Or(c.MaxHosts, 1_000_000)
	switch p := c.Backoff.(type) {
	case backoff.Refusals:
		c.Backoff = p.WithDefaults()
	case *backoff.Refusals:
		if p != nil { // New refuses it
			c.Backoff = p.WithDefaults()
		}
	default:
		c.Backoff = backoff.Refusals{Policy: p}.WithDefaults()
	}
	return c
}

// WithDefaults returns l with its zero fields set to the defaults of a Config. Use it to show the
// limits of a key.
func (l Limits) WithDefaults() Limits {
	l.Concurrency = cmp.Or(l.Concurrency, 2)
	l.Delay = l.Delay.withDefaults()
	return l
}

// withDefaults returns d with the defaults in place of its zero fields.
func (d Delay) withDefaults() Delay {
	if d.Min == 0 && d.Max == 0 && !d.DangerouslyNone {
		d.Min = 200 * time.Millisecond
		d.Max = 500 * time.Millisecond
	}
	d.Max = max(d.Min, d.Max) // Max 0, or a mistake that New refuses
	d.Ceiling = cmp.Or(d.Ceiling, max(d.Min, time.Minute))
	return d
}

// Of returns the limits of key, as Override returns them at this moment, with all defaults filled
// in. Use it to plan ahead. For example, a frontier asks how many concurrent requests a host takes.
func (c Config) Of(key string) Limits {
	l := Limits{c.Concurrency, c.Delay}
	if c.Override != nil {
		if own, ok := c.Override(key); ok {
			l = own.or(l)
		}
	}
	return l.WithDefaults()
}

// or returns l with its zero fields taken from the limits of a Config.
func (l Limits) or(config Limits) Limits {
	return Limits{cmp.Or(l.Concurrency, config.Concurrency), cmp.Or(l.Delay, config.Delay)}
}

// A Window is a part of the day, counted from midnight UTC. From is in it, To isn't. One whose From
// is later than its To spans midnight, for example {22 * time.Hour, 6 * time.Hour}. Set it in
// Config.Windows, to crawl at night only, for example.
type Window struct{ From, To time.Duration }
