// Command goclients gets URLs with a library of Go through the proxy in http_proxy, and writes a
// line "STATUS URL" for each. The tests of politeness proxy run it beside the programs of other
// languages.
//
//	go run ./goclients colly http://...     # or net/http
package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/gocolly/colly/v2"
)

func main() {
	proxy, err := url.Parse(os.Getenv("http_proxy"))
	if err != nil || len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: http_proxy=URL goclients colly|net/http URL...", err)
		os.Exit(2)
	}
	// By hand, since the environment's proxy isn't asked for loopback.
	transport := &http.Transport{Proxy: http.ProxyURL(proxy)}
	get := byNetHTTP(transport)
	if os.Args[1] != "net/http" {
		get = byColly(transport)
	}
	places := make(chan bool, 8)
	var all sync.WaitGroup
	for _, target := range os.Args[2:] {
		places <- true
		all.Go(func() {
			fmt.Fprintln(os.Stdout, get(target), target)
			<-places
		})
	}
	all.Wait()
}

// byNetHTTP gets a URL with http.Client, and returns the status or the error.
func byNetHTTP(transport *http.Transport) func(target string) any {
	client := &http.Client{Transport: transport}
	return func(target string) any {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, target, http.NoBody)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
}

// byColly does so with a collector with colly's defaults, whose timeout is that in COLLY_TIMEOUT if
// there is one.
func byColly(transport *http.Transport) func(target string) any {
	return func(target string) any {
		c := colly.NewCollector()
		c.WithTransport(transport)
		if timeout, err := time.ParseDuration(os.Getenv("COLLY_TIMEOUT")); err == nil {
			c.SetRequestTimeout(timeout)
		}
		var status any
		c.OnResponse(func(r *colly.Response) { status = r.StatusCode })
		c.OnError(func(r *colly.Response, err error) {
			status = err
			if r.StatusCode > 0 {
				status = r.StatusCode
			}
		})
		_ = c.Visit(target) // OnError has its error
		return status
	}
}
