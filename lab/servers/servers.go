package servers

import "time"

var (
	onNginx   = []string{"nginx"}
	onHAProxy = []string{"nginx", "haproxy"}
	onApache  = []string{"apache2"}
	onVarnish = []string{"nginx", "varnishd", "varnishncsa", "gcc"}
)

// Forbidding are servers whose limit answers in words that forbid a page. They have no row in the
// table of RESULTS.md, but one in that of package limiters.
var Forbidding = []*Server{
	{
		Name: "nginx-403", Rule: "nginx `limit_req` 1r/s, 403",
		Kind: Paced, Rate: 1,
		programs: onNginx, start: limitReq("1r/s", "", "limit_req_status 403;"),
	},
	{
		Name: "nginx-403-burst", Rule: "nginx `limit_req` 1r/s, burst=5 nodelay, 403",
		Kind: Window, Rate: 1,
		programs: onNginx, start: limitReq("1r/s", "burst=5 nodelay", "limit_req_status 403;"),
	},
	{
		Name: "nginx-430", Rule: "nginx `limit_req` 2r/s, 430",
		Kind: Paced, Rate: 2,
		programs: onNginx, start: limitReq("2r/s", "", "limit_req_status 430;"),
	},
}

// Servers are the rows of the table.
var Servers = []*Server{
	{
		Name: "plain", Rule: "nginx without a limit",
		Kind:     Free,
		programs: onNginx, start: nginx("", ""),
	},
	{
		Name: "nginx-503", Rule: "nginx `limit_req` 1r/s, bare 503 (its default)",
		Kind: Paced, Rate: 1,
		programs: onNginx, start: limitReq("1r/s", "", ""),
	},
	{
		Name: "nginx-503-burst", Rule: "nginx `limit_req` 1r/s, burst=5 nodelay, bare 503",
		Kind: Window, Rate: 1,
		programs: onNginx, start: limitReq("1r/s", "burst=5 nodelay", ""),
	},
	{
		Name: "nginx-429-burst", Rule: "nginx `limit_req` 1r/s, burst=5 nodelay, 429",
		Kind: Window, Rate: 1,
		programs: onNginx, start: limitReq("1r/s", "burst=5 nodelay", "limit_req_status 429;"),
	},
	{
		Name: "nginx-delay", Rule: "nginx `limit_req` 1r/s, burst=5, served late",
		Kind: Free, Rate: 1,
		programs: onNginx, start: limitReq("1r/s", "burst=5", ""),
	},
	{
		Name: "nginx-10rm", Rule: "nginx `limit_req` 10r/m, 429",
		Kind: Paced, Rate: 10. / 60,
		programs: onNginx, start: limitReq("10r/m", "", "limit_req_status 429;"),
	},
	{
		Name: "nginx-30rm", Rule: "nginx `limit_req` 30r/m, 429 with Retry-After 10",
		Kind: Paced, Rate: 30. / 60, RetryAfter: true,
		programs: onNginx, start: slow429,
	},
	{
		// The first 2 KB of a page are sent at once, the rest when nginx's clock has gone on.
		Name: "nginx-conn", Rule: "nginx `limit_conn` 1, pages that take a second, bare 503",
		Kind: Paced, Rate: 1, Takes: time.Second,
		programs: onNginx,
		start: nginx("limit_conn_zone $binary_remote_addr zone=clients:1m;",
			"limit_conn clients 1;\nlimit_rate 2k;"),
	},
	{
		Name: "nginx-maintenance", Rule: "nginx, 503 with Retry-After 60 in the first minute",
		Kind: Free, Closed: time.Minute, RetryAfter: true,
		programs: onNginx, start: maintenance,
	},
	{
		Name: "haproxy-429", Rule: "HAProxy, 429 above 10 requests in 10 s",
		Kind: Window, Rate: 1,
		programs: onHAProxy,
		start:    haproxy(table10s + "http-request deny deny_status 429 if { sc0_http_req_rate gt 10 }"),
	},
	{
		Name: "haproxy-tarpit", Rule: "HAProxy, tarpit of 10 s, then 500, above 10 in 10 s",
		Kind: Window, Rate: 1,
		programs: onHAProxy,
		start:    haproxy(table10s + "http-request tarpit deny_status 500 if { sc0_http_req_rate gt 10 }"),
	},
	{
		Name: "haproxy-drop", Rule: "HAProxy, silent-drop above 10 in 10 s",
		Kind: Window, Rate: 1,
		root:     true, // for others HAProxy resets the connection instead, which isn't silent
		programs: onHAProxy, start: haproxy(table10s + "http-request silent-drop if { sc0_http_req_rate gt 10 }"),
	},
	{
		Name: "haproxy-ban", Rule: "HAProxy, above 20 in 10 s 403 for 60 s, renewed by each request",
		Kind: Ban, Rate: 2, Whole: true,
		programs: onHAProxy, start: haproxy(ban60s),
	},
	{
		Name: "apache-evasive", Rule: "Apache mod_evasive, above 3 in a second 403 for 10 s, renewed by each request",
		Kind: Ban, Rate: 3, Whole: true,
		programs: onApache, files: []string{apacheModules + "mod_evasive20.so"},
		start: apache("LoadModule evasive20_module $MODULESmod_evasive20.so", evasive),
	},
	{
		Name: "apache-qos", Rule: "Apache mod_qos, above 20 in 10 s 500 until the 10 s are over",
		Kind: Window, Rate: 2,
		programs: onApache, files: []string{apacheModules + "mod_qos.so"},
		start: apache(loadQoS(), qos),
	},
	{
		Name: "varnish", Rule: "Varnish vsthrottle, above 15 in 10 s 429 for 30 s",
		Kind: Window, Rate: 1.5,
		programs: onVarnish, start: varnish,
	},
	{
		Name: "crawl-delay", Rule: "nginx, `Crawl-delay: 2`",
		Kind: Free, Rate: 0.5, CrawlDelay: 2,
		programs: onNginx, start: nginx("", ""),
	},
	{
		Name: "broken-1-503", Rule: "1 % of the pages always answer 503",
		Kind: Broken, Broken: 0.01,
		programs: onNginx, start: broken("503", "-.*50.html$"),
	},
	{
		Name: "broken-5-503", Rule: "5 % always 503",
		Kind: Broken, Broken: 0.05,
		programs: onNginx, start: broken("503", "-.*[13579]5.html$"),
	},
	{
		Name: "broken-10-503", Rule: "10 % always 503",
		Kind: Broken, Broken: 0.1,
		programs: onNginx, start: broken("503", "-.*5.html$"),
	},
	{
		Name: "broken-1-500", Rule: "1 % always 500",
		Kind: Broken, Broken: 0.01,
		programs: onNginx, start: broken("500", "-.*50.html$"),
	},
	{
		Name: "broken-5-500", Rule: "5 % always 500",
		Kind: Broken, Broken: 0.05,
		programs: onNginx, start: broken("500", "-.*[13579]5.html$"),
	},
	{
		Name: "broken-10-500", Rule: "10 % always 500",
		Kind: Broken, Broken: 0.1,
		programs: onNginx, start: broken("500", "-.*5.html$"),
	},
}
