package recipes

import (
	"net/http"
	"net/url"

	"github.com/go-politeness/politeness"
)

// Proxy sends everything by one proxy.
func Proxy(cfg politeness.Config, proxy *url.URL) (*politeness.Transport, error) {
	cfg.Base = &http.Transport{Proxy: http.ProxyURL(proxy)}
	return politeness.New(cfg)
}

// ProxyByHost sends the requests to some hosts by a proxy of their own, and all others directly. It
// is chosen by the URL, so robots.txt goes the same way as the pages.
func ProxyByHost(cfg politeness.Config, proxies map[string]*url.URL) (*politeness.Transport, error) {
	cfg.Base = &http.Transport{
		Proxy: func(req *http.Request) (*url.URL, error) {
			return proxies[req.URL.Hostname()], nil // nil: directly
		},
	}
	return politeness.New(cfg)
}
