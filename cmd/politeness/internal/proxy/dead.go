package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// A fault is why a site can't be reached: an error type of RFC 9209, section 2.3, and a sentence
// for a person.
type fault struct {
	status int
	kind   string
	words  string
}

// faultOf returns the fault that err stands for; an empty one: it is none of those of the network.
func faultOf(err error) fault {
	if refused, ok := errors.AsType[*upstreamError](err); ok {
		return fault{http.StatusBadGateway, "destination_unavailable", refused.Error()}
	}
	if isUpstream(err) {
		const words = "the other proxy behind this one can't be reached"
		return fault{http.StatusBadGateway, "destination_unavailable", words}
	}
	if named, ok := errors.AsType[*net.DNSError](err); ok {
		if named.IsNotFound {
			return fault{http.StatusBadGateway, "dns_error", "there is no site of this name"}
		}
		return fault{http.StatusGatewayTimeout, "dns_timeout", "the name of the site can't be looked up now"}
	}
	if badCertificate(err) {
		return fault{http.StatusBadGateway, "tls_certificate_error", "the certificate of the site isn't valid"}
	}
	operation, _ := errors.AsType[*net.OpError](err)
	header := new(tls.RecordHeaderError)
	isText := func(words string) bool { return strings.Contains(err.Error(), words) }
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fault{http.StatusBadGateway, "connection_refused", "no server listens on this port of the site"}
	case errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH):
		return fault{http.StatusBadGateway, "destination_ip_unroutable", "there is no route to the address of the site"}
	case operation != nil && operation.Op == "remote error":
		return fault{http.StatusBadGateway, "tls_alert_received", "the site refused the TLS connection"}
	case errors.As(err, header) || isText("tls: "):
		return fault{http.StatusBadGateway, "tls_protocol_error", "the site speaks no TLS that the proxy understands"}
	case isText("malformed HTTP") || isText("malformed MIME"):
		return fault{http.StatusBadGateway, "http_protocol_error", "the site's response isn't HTTP"}
	case isText("server response headers exceeded"):
		return fault{http.StatusBadGateway, "http_response_header_section_size", "the response header is too long"}
	}
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case isNet && timeout.Timeout() && operation != nil && operation.Op == "read":
		return fault{http.StatusGatewayTimeout, "connection_read_timeout", "the site began a response and stopped"}
	case isNet && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded):
		return fault{http.StatusGatewayTimeout, "connection_timeout", "the site hasn't responded in time"}
	case hangsUp(err):
		return fault{http.StatusBadGateway, "connection_terminated", "the site closed without a response"}
	}
	return fault{}
}

func badCertificate(err error) bool {
	_, verified := errors.AsType[*tls.CertificateVerificationError](err)
	_, expired := errors.AsType[x509.CertificateInvalidError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, other := errors.AsType[x509.HostnameError](err)
	return errors.Is(err, errOwn) || verified || expired || unknown || other
}

func hangsUp(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed} {
		if errors.Is(err, end) {
			return true
		}
	}
	// Of net/http, which has no value for it.
	isPeek := strings.Contains(err.Error(), "readLoopPeekFailLocked")
	return isPeek || strings.Contains(err.Error(), "server closed")
}

// isDead reports whether a page was refused because the site can't be reached to ask for its
// robots.txt: a second try would be as useless as for the page itself.
func isDead(err error) bool {
	isQueue := errors.Is(err, politeness.ErrBlocked) || errors.Is(err, politeness.ErrBusy)
	isSilent := errors.Is(err, robotscache.ErrNoAnswer) || faultOf(err) != fault{}
	return errors.Is(err, politeness.ErrUnreachable) && !isQueue && isSilent
}
