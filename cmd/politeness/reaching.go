package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/cmd/politeness/internal/proxy"
)

// A reaching has the flags of the proxy about the way to sites.
type reaching struct{ upstream, leave, roots, cert string }

// apply makes base reach sites in this way. It returns a word for the user, or none.
func (r *reaching) apply(base *http.Transport, authority *proxy.Authority) (word string, err error) {
	if r.upstream != "" {
		u, err := url.Parse(r.upstream)
		if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme) {
			return "", misused("-upstream wants a URL such as http://proxy.example:3128, https:// or socks5://")
		}
		proxy.Upstream(base, u)
	}
	var files []string
	if r.roots != "" {
		files = append(files, r.roots)
	}
	word, err = proxy.CheckSites(base, authority, files...)
	if err != nil {
		return "", fmt.Errorf("-roots: %w", err)
	}
	if r.cert == "" {
		return word, nil
	}
	pair, err := tls.LoadX509KeyPair(r.cert, r.cert)
	if err != nil {
		return "", fmt.Errorf("-cert: %w", err)
	}
	base.TLSClientConfig.Certificates = []tls.Certificate{pair}
	return word, nil
}

// keepOff adds the hosts of -leave to those that cfg refuses.
func (r *reaching) keepOff(cfg *politeness.Config) error {
	if r.leave == "" {
		return nil
	}
	list, err := politeness.RefuseHosts(r.leave)
	if err != nil {
		return fmt.Errorf("-leave: %w", err)
	}
	cfg.Refuse = politeness.RefuseAny(list.Refuse, cfg.Refuse)
	return nil
}

// readLogin reads the name and the password of -login. They stand in a file, since everybody on a
// machine can read the arguments of its programs.
func readLogin(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("-login: %w", err)
	}
	login := strings.TrimSpace(string(text))
	name, password, ok := strings.Cut(login, ":")
	if !ok || name == "" || password == "" || strings.ContainsAny(login, "\r\n") {
		return "", misused("-login: %s has no line NAME:PASSWORD, and nothing else", file)
	}
	return login, nil
}
