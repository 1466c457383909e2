package redisnet_test

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/redislimit"
	"github.com/go-politeness/politeness/internal/redistest"
)

// A delayer is a hook that keeps the answer to the next question for a turn until it is let through.
type delayer struct {
	armed   atomic.Bool
	asked   chan struct{} // closed when the server has answered
	through chan struct{} // closed by the test
}

func (*delayer) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*delayer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (d *delayer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		payload, _ := args[len(args)-1].(string)
		err := next(ctx, cmd)
		if err == nil && strings.Contains(payload, "\xa4take") && d.armed.CompareAndSwap(true, false) {
			close(d.asked)
			<-d.through
		}
		return err
	}
}

// A kind is a web on which every page is there.
type kind struct{}

func (kind) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

// TestAMissedTurnIsNoMissingStart: a process hears so late of its turn that another one has had the
// next turn by then. The number of the first is used up without a start, and their logs say so.
func TestAMissedTurnIsNoMissingStart(t *testing.T) {
	server, err := redistest.Run()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	late := &delayer{asked: make(chan struct{}), through: make(chan struct{})}
	var logs [2]bytes.Buffer
	var told evidence.Recorder
	var closing []func() error
	var crawlers []*http.Client
	for i := range logs {
		client := redis.NewClient(&redis.Options{Addr: server.Addr})
		defer client.Close()
		if i == 0 {
			client.AddHook(late)
		}
		limiter, err := redislimit.New(redislimit.Config{
			Client: client, Limits: hostlimit.Config{Concurrency: 2, Delay: hostlimit.Delay{Min: 20 * time.Millisecond}},
		})
		if err != nil {
			t.Fatal(err)
		}
		log := evidence.JSONLines(&logs[i], evidence.Chained())
		transport, err := politeness.New(politeness.Config{
			UserAgent: "Bot/1.0 (bot@example.com)", Base: kind{},
			Hosts: limiter, Evidence: evidence.Multi(log, &told), DangerouslyIgnoreRobots: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		crawlers = append(crawlers, &http.Client{Transport: transport})
		closing = append(closing, limiter.Close, log.Close)
	}
	get := func(crawler *http.Client) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.example/", http.NoBody)
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := crawler.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		resp.Body.Close()
	}

	for _, crawler := range crawlers {
		get(crawler)
	}
	time.Sleep(100 * time.Millisecond) // until the next turn can be had at once
	late.armed.Store(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		get(crawlers[0])
	}()
	<-late.asked
	get(crawlers[1])
	close(late.through)
	<-done
	for _, end := range closing {
		if err := end(); err != nil {
			t.Error(err)
		}
	}

	var started []uint64
	for _, d := range told.Decisions(evidence.Started) {
		started = append(started, d.Seq)
	}
	if slices.Sort(started); !slices.Equal(started, []uint64{1, 2, 4, 5}) {
		t.Fatalf("started: %v", started)
	}
	report, err := audit.Check(&logs[0], &logs[1])
	if err != nil {
		t.Fatal(err)
	}
	if !report.OK() {
		t.Errorf("the judge says %v", report.Violations)
	}
}
