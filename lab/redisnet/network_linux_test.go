package redisnet_test

import (
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/redistest"
	"github.com/go-politeness/politeness/lab/nettest"
	"github.com/go-politeness/politeness/redis/redislimit"
)

// An order says what a crawler does until its standard input ends.
type order struct{ Site, Redis string }

const delay = 100 * time.Millisecond

func TestMain(m *testing.M) { nettest.Main(m, order.crawl) }

func (o order) crawl() error {
	client := redis.NewClient(&redis.Options{Addr: o.Redis, DialTimeout: time.Second, ReadTimeout: time.Second, MaxRetries: -1})
	defer client.Close()
	hosts, err := redislimit.New(redislimit.Config{Client: client, Limits: hostlimit.Config{
		Concurrency: 1,
		Delay:       hostlimit.Delay{Min: delay, Max: delay, Adaptive: hostlimit.Fixed, FromEnd: true},
	}})
	if err != nil {
		return err
	}
	defer hosts.Close()
	transport, err := politeness.New(politeness.Config{UserAgent: "NetworkBot/1.0 (+https://bot.example.com; bot@example.com)", Limiter: hosts})
	if err != nil {
		return err
	}
	nettest.Crawl(&http.Client{Transport: transport}, o.Site, 3)
	return nil
}

// TestFleetOnABadNetwork has two machines crawl one site, on a Redis that is on a fourth machine, and
// cuts each way between them. The site sees them as one crawler all the while.
func TestFleetOnABadNetwork(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	n := nettest.New(t, seed)
	one, two, door, memory := n.Machine(), n.Machine(), n.Machine(), n.Machine()
	site, url := nettest.NewSite(t, door)
	var server *redistest.Server
	var err error
	memory.Do(func() {
		server, err = redistest.Run("--bind", memory.Addr.String(), "127.0.0.1", "--protected-mode", "no")
	})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	bad := nettest.Way{Loss: 0.02, Delay: 2 * time.Millisecond, Jitter: 10 * time.Millisecond}
	cut := func(a, b *nettest.Machine, d time.Duration) {
		n.Set(a, b, nettest.Way{Cut: true})
		time.Sleep(d)
		n.Set(a, b, bad)
	}
	for _, m := range []*nettest.Machine{one, two} {
		n.Set(m, memory, bad)
		n.Set(m, door, bad)
	}
	o := order{Site: url, Redis: net.JoinHostPort(memory.Addr.String(), port)}
	first, second := one.Run(t, o), two.Run(t, o)
	both := func() {
		t.Helper()
		site.NextOf(t, first)
		site.NextOf(t, second)
	}
	both()

	// One that can't reach the server starts nothing.
	cut(one, memory, 1500*time.Millisecond)
	both()

	// One whose request is lost on the way to the site keeps the slot.
	cut(two, door, time.Second)
	both()

	// One that can't hear of a refusal doesn't go on either.
	refused := site.Refuse(t, 2*time.Second)
	deaf := two
	if refused.Process == second.Number {
		deaf = one
	}
	cut(deaf, memory, time.Second)
	both()

	first.Finish()
	second.Finish()
	site.Slots(t, 1)
	site.Gaps(t, delay)
	visits := site.Visits()
	t.Logf("%d requests", len(visits))
	if !slices.ContainsFunc(visits, func(v *nettest.Visit) bool { return v.Refused > 0 }) {
		t.Error("no refusal")
	}
}
