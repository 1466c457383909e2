package transparency_test

const (
	userAgent = "the User-Agent is the crawler's, whatever the request says"
	scheme    = "a scheme other than http and https has no robots.txt: an error of our own refuses it"
	tunnel    = "in a tunnel, which CONNECT with a target in URL.Opaque asks for, neither robots.txt nor a delay could be kept"
	cancel    = "Request.Cancel, deprecated since Go 1.5, gives context.Canceled before the request is sent: net/http's own error for it isn't exported"
)

// differences are the tests that fail through a Transport, each with the reason why it
// should. The tests that they are subtests of fail with them.
var differences = map[string]string{
	"TestAltProtoCancellation":                                 scheme,
	"TestClientCopyHeadersOnRedirect/h1":                       userAgent,
	"TestClientCopyHeadersOnRedirect/h2":                       userAgent,
	"TestRetryRequestsOnError/h1/IdempotentGetBodySomeWritten": userAgent,
	"TestRetryRequestsOnError/h1/IdempotentNoBodySomeWritten":  userAgent,
	"TestRetryRequestsOnError/h1/NothingWrittenGetBody":        userAgent,
	"TestRetryRequestsOnError/h1/NothingWrittenNoBody":         userAgent,
	"TestTransportAltProto":                                    scheme,
	"TestTransportCONNECTBidi/h1":                              tunnel,
	"TestTransportCancelRequestBeforeDo/h1/RequestCancel":      cancel,
	"TestTransportCancelRequestBeforeDo/h2/RequestCancel":      cancel,
	"TestTransportEventTrace/h1":                               userAgent,
	"TestTransportUserAgent/h1":                                userAgent,
	"TestTransportUserAgent/h2":                                userAgent,
}

// timers is the reason of tests of http.Client's Timeout that any RoundTripper fails by
// chance, a struct around http.Transport without a method of its own as well.
const timers = "for a RoundTripper that isn't http.Transport itself, http.Client starts two timers, and which fires first decides the error's text"

// unsteady are tests that aren't compared, each with the reason.
var unsteady = map[string]string{
	"TestClientTimeout":         timers,
	"TestClientTimeout_Headers": timers,
	"TestTransportAndServerSharedBodyRace": "http.Transport.CancelRequest, deprecated since Go 1.6, takes the very request that was sent, which " +
		"is a clone; and without politeness the test fails by chance as well",
}
