package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/cmd/politeness/internal/proxy"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/publicnet"
	"github.com/go-politeness/politeness/statuspage"
)

const proxyUsage = `Usage: politeness proxy -agent UA [flags]

A forward proxy that makes any program polite: robots.txt, delays, 429. If a
request may not be sent, it returns 403 (final) or 503 (retry), with the reason.

  -agent UA        User-Agent: name, version, contact (default: USER_AGENT)
  -listen ADDR     default 127.0.0.1:8118; a browser shows the status page there
  -remote          allow an ADDR that isn't loopback
  -login FILE      serve only clients that send the NAME:PASSWORD in FILE
  -ca DIR          serve https sites too, by an authority made in DIR
  -tls             speak TLS on ADDR itself, by that authority
  -purpose LIST    train, ground, search: leave out pages that sites reserve
  -evidence FILE   append every decision, for politeness audit
  -state DIR       remember blocks and robots.txt there

How fast, how long:
  -preset NAME     audit, conservative, bulk or responsive
  -delay D         time between two requests to a host
  -per-host N      most concurrent requests to a host
  -max-wait D      longest wait of a request for its host, default 50s
  -pages N         send nothing after N pages
  -time D          send nothing after D

How sites are reached:
  -upstream URL    by another proxy: http, https or socks5
  -leave FILE      send nothing to the hosts in FILE, one a line
  -roots FILE      trust the certificates in FILE as well
  -cert FILE       show sites that ask the certificate and key in FILE

For your own networks and sites:
  -private         pass on to loopback and private addresses as well
  -dangerously-ignore-robots

  politeness proxy -agent "MyBot/1.0 (+https://example.com/bot)" -ca ~/polite
  curl -x http://127.0.0.1:8118 --cacert ~/polite/authority.pem https://...
  https_proxy=http://127.0.0.1:8118 scrapy crawl spider -s ROBOTSTXT_OBEY=False
`

// longestWait is -max-wait: most programs wait for a minute at least, see the table of
// docs/proxy.md.
const longestWait = 50 * time.Second

// streams is how many pages with a stream of events a site may have open without a slot, as many as
// WebSockets.
const streams = 16

func runProxy(ctx context.Context, sh *shell, args []string) (status int, err error) {
	var p policy
	flags := flag.NewFlagSet("proxy", flag.ContinueOnError)
	p.register(flags)
	listen := flags.String("listen", "127.0.0.1:8118", "")
	dir := flags.String("ca", "", "")
	remote := flags.Bool("remote", false, "")
	secure := flags.Bool("tls", false, "")
	login := flags.String("login", "", "")
	var sites reaching
	flags.StringVar(&sites.upstream, "upstream", "", "")
	flags.StringVar(&sites.leave, "leave", "", "")
	flags.StringVar(&sites.roots, "roots", "", "")
	flags.StringVar(&sites.cert, "cert", "", "")
	if _, err := parse(flags, args, ""); err != nil {
		return 0, err
	}
	if *secure && *dir == "" {
		return 0, misused("-tls needs -ca DIR, because programs know the proxy by that authority")
	}
	password, err := readLogin(*login)
	if err != nil {
		return 0, err
	}
	var authority *proxy.Authority
	if *dir != "" {
		authority, err = proxy.OpenAuthority(*dir)
		if err != nil {
			return 0, err
		}
	}
	base := proxy.Base()
	word, err := sites.apply(base, authority)
	if err != nil {
		return 0, err
	}
	base.DisableCompression = len(p.purposes) == 0
	if !p.private {
		base = publicnet.Transport(base)
	}
	readable := len(p.purposes) > 0
	cfg, err := p.config(&onward{base: proxy.ByProgram(base), readable: readable})
	if err != nil {
		return 0, err
	}
	if err := sites.keepOff(&cfg); err != nil {
		return 0, err
	}
	cfg.RobotsBase = &onward{base: proxy.Shared(base), readable: readable} // nobody's login counts for robots.txt
	cfg.Hosts.MaxWait = cmp.Or(cfg.Hosts.MaxWait, longestWait)
	cfg.Hosts.SlotTimeout = 0 // a preset's is shorter, and many a program has no try left then
	cfg.Streams = streams
	if err := p.keep(); err != nil {
		return 0, err
	}
	done, err := p.record(sh, &cfg)
	if err != nil {
		return 0, err
	}
	console := evidence.Console(sh.errs) // prints why nothing happens
	if cfg.Evidence != nil {
		console = evidence.Multi(console, cfg.Evidence)
	}
	cfg.Evidence = console
	defer func() { err = errors.Join(err, done()) }()
	transport, err := politeness.New(cfg)
	if err != nil {
		return 0, err
	}
	listener, err := proxy.Listen(ctx, *listen, *remote)
	if err != nil {
		return 0, fmt.Errorf("-listen: %w", withFreePort(err))
	}
	own := "http://" + listener.Addr().String()
	if *secure {
		own = "https://" + listener.Addr().String()
		listener = authority.Listener(listener)
	}
	fmt.Fprintf(sh.errs, "politeness proxy: listening on %s; export http_proxy=%s\n", listener.Addr(), own)
	if authority != nil {
		fmt.Fprintf(sh.errs, "politeness proxy: export https_proxy=%s for programs that trust %s\n",
			own, authority.Certificate)
	}
	if word != "" {
		fmt.Fprintf(sh.errs, "politeness proxy: %s\n", word)
	}
	defer sh.stopping(ctx, "proxy", "requests under way are finished, for 10 s at most")()
	server := proxy.New(transport, authority)
	server.Login = password
	server.Status = statuspage.Handler(transport)
	return exitOK, server.Serve(ctx, listener, sh.errs)
}

// onward is the Base of the proxy's Transport.
type onward struct {
	base     http.RoundTripper
	readable bool // whether pages are read for what they state about their use
}

// RoundTrip implements http.RoundTripper.
func (o *onward) RoundTrip(req *http.Request) (*http.Response, error) {
	if o.readable && req.Header.Get("Accept-Encoding") != "" {
		// A program that asks for compressed pages gets them plain. The transport asks for them
		// compressed all the same, and undoes it.
		req = req.Clone(req.Context())
		req.Header.Del("Accept-Encoding")
	}
	resp, err := o.base.RoundTrip(req)
	return resp, advise(err, "-private passes on to private addresses as well")
}

// CloseIdleConnections closes those of the transport below.
func (o *onward) CloseIdleConnections() {
	if b, ok := o.base.(interface{ CloseIdleConnections() }); ok {
		b.CloseIdleConnections()
	}
}
