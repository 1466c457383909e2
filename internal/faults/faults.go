// Package faults finds the requests that had no answer by their caller's fault.
package faults

import (
	"cmp"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"

	"golang.org/x/net/http/httpguts"

	"github.com/go-politeness/politeness/publicnet"
)

// Sendable reports whether http.Transport sends h: its error for a header that it refuses has no
// type.
func Sendable(h http.Header) bool {
	for name, values := range h {
		if !httpguts.ValidHeaderFieldName(name) ||
			slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }) {
			return false
		}
	}
	return true
}

// Callers reports whether err, of a try of req without an answer, is the caller's own: a method or
// a header that net/http refuses, an address that publicnet refuses, a body that can't be read or
// isn't as long as it says. Of a request with a body that is every error but those of the network.
func Callers(req *http.Request, err error) bool {
	switch {
	case !httpguts.ValidHeaderFieldName(cmp.Or(req.Method, "GET")), !Sendable(req.Header), errors.Is(err, publicnet.ErrPrivate):
		return true
	case req.Body == nil, req.Body == http.NoBody, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return false
	}
	return !errors.As(err, new(net.Error))
}
