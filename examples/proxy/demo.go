package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/examples/internal/localsite"
)

// demo lets an impolite program, all requests at once, crawl a site through the proxy.
func demo(ctx context.Context, out io.Writer, agent string) error {
	var log bytes.Buffer
	proof := evidence.JSONLines(&log)
	transport, err := newTransport(agent, "", proof, time.Minute, true) // the site is on loopback
	if err != nil {
		return err
	}
	proxy := localsite.Serve(newProxy(transport)) // on loopback, as always
	defer proxy.Close()
	site := localsite.Start()
	defer site.Close()
	fmt.Fprintf(out, "http_proxy=%s\n", proxy.URL)

	address, err := url.Parse(proxy.URL)
	if err != nil {
		return err
	}
	through := http.DefaultTransport.(*http.Transport).Clone()
	through.Proxy = http.ProxyURL(address)
	client := &http.Client{Transport: through}
	begin := time.Now()
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, path := range append([]string{"/"}, localsite.Paths...) {
		group.Go(func() {
			what := get(ctx, client, site.URL+path)
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(out, "%5.1f s  %-15s  %s\n", time.Since(begin).Seconds(), path, what)
		})
	}
	group.Wait()
	client.CloseIdleConnections()

	if err := proof.Close(); err != nil {
		return err
	}
	report, err := audit.Check(&log)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(out, "\n", report)
	return err
}

func get(ctx context.Context, client *http.Client, url string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	resp, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	if ours(resp.Header) {
		return fmt.Sprintf("%s, by the proxy: %s", resp.Status, bytes.TrimSpace(body))
	}
	return fmt.Sprintf("%s, %d bytes", resp.Status, len(body))
}
