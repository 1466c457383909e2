package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	"github.com/valyala/fasthttp"
)

// A transport is a fasthttp.RoundTripper that sends requests by one of net/http, such as a
// politeness.Transport. Set it as fasthttp.Client.Transport.
type transport struct{ http.RoundTripper }

// RoundTrip implements fasthttp.RoundTripper. It reads the body to its end, which gives the host's
// slot back, and returns fasthttp.ErrBodyTooLarge for one that is longer than MaxResponseBodySize.
// No request is to be repeated by the client: retry is false.
func (t transport) RoundTrip(
	client *fasthttp.HostClient, req *fasthttp.Request, resp *fasthttp.Response,
) (retry bool, err error) {
	out, err := outgoing(req)
	if err != nil {
		return false, err
	}
	in, err := t.RoundTripper.RoundTrip(out)
	if err != nil {
		return false, err // errors.As finds the *politeness.Error
	}
	defer in.Body.Close()
	body := io.Reader(in.Body)
	if most := client.MaxResponseBodySize; most > 0 {
		body = io.LimitReader(in.Body, int64(most)+1)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return false, err
	}
	if most := client.MaxResponseBodySize; most > 0 && len(text) > most {
		return false, fasthttp.ErrBodyTooLarge
	}
	resp.Reset()
	resp.SkipBody = out.Method == http.MethodHead
	resp.SetStatusCode(in.StatusCode)
	for name, values := range in.Header {
		for _, value := range values {
			resp.Header.Add(name, value)
		}
	}
	resp.SetBodyRaw(text)
	return false, nil
}

// outgoing returns the request as one of net/http.
func outgoing(req *fasthttp.Request) (*http.Request, error) {
	var body io.Reader = http.NoBody
	if req.IsBodyStream() {
		body = req.BodyStream()
	} else if text := req.Body(); len(text) > 0 {
		body = bytes.NewReader(text)
	}
	//nolint:noctx // fasthttp has none
	out, err := http.NewRequest(string(req.Header.Method()), req.URI().String(), body)
	if err != nil {
		return nil, fmt.Errorf("fasthttp: %w", err)
	}
	for name, value := range req.Header.All() {
		out.Header.Add(string(name), string(value))
	}
	out.Host = string(req.Host())
	out.Close = req.ConnectionClose()
	// net/http writes these by itself.
	for _, name := range []string{"Host", "Connection", "Content-Length", "Transfer-Encoding"} {
		out.Header.Del(name)
	}
	return out, nil
}
