// Proxy is an HTTP forward proxy on loopback that makes any program polite: each request
// that comes through it is checked against robots.txt, takes its turn on its host,
// obeys 429 and Retry-After, and is on record.
//
//	go run ./examples/proxy                                            # shows itself on a site of its own
//	go run ./examples/proxy -listen 127.0.0.1:8118 -agent "MyBot/1.0 (+https://example.com/bot)" -evidence crawl.jsonl -state proxy.state
//
// Then tell your program of it:
//
//	curl --proxy http://127.0.0.1:8118 --parallel http://example.com/ http://example.com/about
//	http_proxy=http://127.0.0.1:8118 wget --recursive --execute robots=off http://example.com/
//	http_proxy=http://127.0.0.1:8118 scrapy crawl spider \
//	    --set ROBOTSTXT_OBEY=False --set AUTOTHROTTLE_ENABLED=False --set DOWNLOAD_DELAY=0 --set DOWNLOAD_TIMEOUT=600
//
// The program's own robots.txt check would ask through the proxy, as a page like any
// other; its own delays and retries come on top. Its timeout has to be longer than -max-wait,
// as the answer comes when the turn has come.
//
// A request that is refused is answered by the proxy, with "Proxy-Status: politeness"
// (RFC 9209) and the reason, also in the body, and Retry-After where coming back helps:
//
//	400  the request can't be sent: no absolute URL, not http or https
//	403  robots.txt disallows it, the budget is spent, or the address isn't public: don't come back
//	503  no turn within -max-wait, the host is blocked, or its robots.txt can't be had: come back
//	502, 504  the site can't be reached, or not in time
//	405  CONNECT
//
// What the site itself answers is passed on as it is, 429 included, and has no Proxy-Status
// of that name. A program that repeats a 503 at once, as Scrapy does, is refused at once
// again, and the site doesn't notice.
//
// What doesn't work:
//
//   - CONNECT, which is how programs ask a proxy for https. Inside of a tunnel the proxy sees no
//     URL, no status and no robots.txt, so it refuses. Use the library instead, or ask for the
//     https URL in the open, as RFC 9112 (section 3.2.2) has it: then the proxy speaks TLS to
//     the site.
//
//     curl --proxy http://127.0.0.1:8118 --request-target https://example.com/ http://example.com/
//     printf 'GET https://example.com/ HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n' | nc 127.0.0.1 8118
//
//     Python's http.client and whatever else lets you write the request line can do so.
//     Links and redirects to https then have to be asked for likewise. A browser can't:
//     see examples/chromedp.
//
//   - The program's User-Agent: the one of -agent is sent instead.
//
//   - Listening anywhere but on loopback: an open proxy would crawl in your name for
//     whoever finds it. Every user of this machine can use it.
//
//   - Sites on this machine and in its networks, unless -private is given: a program that
//     follows links of strangers must not be led there. Addresses are looked at when they are
//     dialed, whatever name led to them.
//
//   - A second proxy behind this one: http_proxy in its environment is ignored, since that
//     is usually itself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"golang.org/x/net/netutil"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
)

func main() {
	listen := flag.String("listen", "", "`address` to serve on, such as 127.0.0.1:8118; empty: show it on a site of its own")
	agent := flag.String("agent", "ProxyExample/1.0 (+https://github.com/go-politeness/politeness; bot@example.com)", "User-Agent that is sent")
	file := flag.String("evidence", "", "append the evidence (JSON Lines) to `FILE`")
	private := flag.Bool("private", false, "pass requests on to loopback and private addresses as well")
	maxWait := flag.Duration("max-wait", time.Minute, "longest `time` that a request waits for its turn")
	state := flag.String("state", "", "remember in `DIR` what hosts are owed, and robots.txt, for the next run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	var err error
	if *listen == "" {
		err = demo(ctx, os.Stdout, *agent)
	} else {
		err = serve(ctx, os.Stderr, *listen, *agent, *file, *state, *maxWait, *private)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
		os.Exit(1)
	}
}

// serve serves until ctx is done, and lets what has begun come to its end then.
func serve(ctx context.Context, out io.Writer, address, agent, file, state string, maxWait time.Duration, private bool) (err error) {
	var proof evidence.Evidence
	if file != "" {
		f, openErr := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if openErr != nil {
			return openErr
		}
		defer f.Close()
		log := evidence.JSONLines(f)
		defer func() { err = errors.Join(err, log.Close()) }()
		proof = log
	}
	transport, err := newTransport(agent, state, proof, maxWait, private)
	if err != nil {
		return err
	}
	listener, err := listenLoopback(ctx, address)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "proxy: http_proxy=http://%s\n", listener.Addr())

	server := &http.Server{Handler: newProxy(transport), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	done := make(chan error, 1)
	stopped := context.AfterFunc(ctx, func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		done <- errors.Join(server.Shutdown(limited), server.Close())
	})
	if err := server.Serve(netutil.LimitListener(listener, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
		stopped()
		return err
	}
	return <-done
}

// maxConnections is how many connections of programs are open at once; further ones wait.
const maxConnections = 1024

// newTransport makes the Transport that all programs share that use the proxy.
func newTransport(agent, state string, proof evidence.Evidence, maxWait time.Duration, private bool) (*politeness.Transport, error) {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.Proxy = nil               // http_proxy is likely to be this one
	base.DisableCompression = true // bodies pass as they are
	if !private {
		base = politeness.PublicAddresses(base)
	}
	cfg := politeness.Config{
		UserAgent: agent,
		Base:      base,
		Limits:    hostlimit.Config{MaxWait: maxWait},
		Evidence:  proof,
	}
	return politeness.New(cfg.WithState(state))
}

// listenLoopback listens on a loopback address and refuses any other.
func listenLoopback(ctx context.Context, address string) (net.Listener, error) {
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	if !resolved.IP.IsLoopback() {
		return nil, fmt.Errorf("%s is no loopback address: whoever can reach it could crawl in your name", address)
	}
	var config net.ListenConfig
	return config.Listen(ctx, "tcp", resolved.String())
}
