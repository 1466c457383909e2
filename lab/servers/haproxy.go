package servers

// haproxyConf is for an HAProxy that stamps a request when its first rule runs. With silent-drop
// there is no answer, and tarpit answers late. Its own %Ts is the time at which the connection was
// accepted.
const haproxyConf = `
global
	log stdout len 4096 format raw local0
	maxconn 500
	nbthread 1
defaults
	mode http
	log global
	timeout connect 5s
	timeout client 60s
	timeout server 60s
	timeout tarpit 10s
	log-format "start:us:ms %[var(txn.began)] %Ta %ci %cp %ST %HM %HP -"
frontend web
	bind $ADDR
	http-request set-var(txn.began) date(0,us)
	$RULES
	default_backend site
backend site
	server origin $ORIGIN
`

// haproxy returns a Server's start: HAProxy with the given rules before a plain site.
func haproxy(rules string) func(*instance) error {
	return func(r *instance) error {
		origin, err := r.origin()
		if err != nil {
			return err
		}
		conf, err := r.conf("haproxy.cfg", haproxyConf, "$RULES", rules, "$ORIGIN", origin)
		if err != nil {
			return err
		}
		return r.run(r.log, "haproxy", "-db", "-f", conf)
	}
}

const (
	table10s = "stick-table type ip size 10k expire 60s store http_req_rate(10s)\n\thttp-request track-sc0 src\n\t"

	// Each request of a client in the table sets the time anew at which its entry expires.
	ban60s = `stick-table type ip size 10k expire 60s store http_req_rate(10s),gpc0
	http-request track-sc0 src
	http-request deny deny_status 403 if { sc0_get_gpc0 gt 0 }
	http-request deny deny_status 403 if { sc0_http_req_rate gt 20 } { sc0_inc_gpc0 ge 0 }`
)
