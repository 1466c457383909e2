package servers

import "net"

const varnishConf = `
vcl 4.1;
import vsthrottle;
backend site {
	.host = "$HOST";
	.port = "$PORT";
}
sub vcl_recv {
	if (vsthrottle.is_denied(client.ip, 15, 10s, 30s)) {
		return (synth(429, "Too Many Requests"));
	}
}
`

// varnish starts Varnish with its throttling module before a plain site.
func varnish(r *instance) error {
	origin, err := r.origin()
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(origin)
	if err != nil {
		return err
	}
	vcl, err := r.conf("site.vcl", varnishConf, "$HOST", host, "$PORT", port)
	if err != nil {
		return err
	}
	work := r.path("varnish")
	if err := r.run("", "varnishd", "-F", "-j", "none", "-n", work, "-a", r.addr, "-f", vcl,
		"-s", "malloc,32m", "-p", "thread_pools=1", "-p", "thread_pool_min=10"); err != nil {
		return err
	}
	if err := r.ready(); err != nil {
		return err
	}
	return r.run(r.log, "varnishncsa", "-n", work, "-F",
		"start:us:us %{usec}t %D %h %{VSL:ReqStart[2]}x %s %m %U %{Retry-After}o")
}
