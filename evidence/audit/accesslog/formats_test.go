package accesslog_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence/audit/accesslog"
)

// jsonText returns s as a text in JSON.
func jsonText(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// logFormats write a line about a request for target of a.example, in the words of servers and of what
// collects their logs. $T is the time in the common log format.
var logFormats = []struct {
	name string
	line func(at time.Time, target string) string
}{
	{"combined", inText(`192.0.2.1 - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"Debian's vhost_combined", inText(`a.example:443 192.0.2.1 - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"a port behind a proxy", inText(`a.example:8080 192.0.2.1 - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"a virtual host without a port", inText(`a.example 2001:db8::7 - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"combinedio", inText(`192.0.2.1 - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0" 312 1500`)},
	{"a duration before the referer", inText(`192.0.2.1 - - [$T] "GET $U HTTP/1.1" 200 100 0.003 "-" "TestBot/1.0"`)},
	{"ingress-nginx", inText(`192.0.2.1 - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0" 312 0.003 [web-80] [] 10.0.0.7:80 100 0.003 200 5f0c`)},
	{"Traefik's common", inText(`192.0.2.1 - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0" 17 "web@docker" "http://172.18.0.3:80" 3ms`)},
	{"X-Forwarded-For first", inText(`203.0.113.9, 198.51.100.2 192.0.2.1 - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"X-Forwarded-For first, quoted", inText(`"203.0.113.9" 192.0.2.1 - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"X-Forwarded-For first, none sent", inText(`- 192.0.2.1 - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"nginx's server_name of a default server", inText(`_ 192.0.2.1 - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"the name of a server behind a proxy", inText(`backend.internal:8080 192.0.2.1 - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"a count", inText(`17 192.0.2.1 - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"a request id", inText(`5f0c1e2d.77$S.7aa 192.0.2.1 - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"lighttpd", inText(`192.0.2.1 a.example - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"Varnish", inText(`192.0.2.1 - - [$T] "GET http://a.example$U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"Varnish behind a proxy", inText(`192.0.2.1 - - [$T] "GET http://backend.internal:6081$U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"clients with names", inText(`a.example client.example.net - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"syslog", inText(`Nov 21 03:00:00 web1 nginx: 192.0.2.1 - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"syslog on the wire, of 2001", inText(`<190>Nov 21 03:00:00 web1.internal nginx: a.example 192.0.2.1 - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"syslog of 2009", inText(`<190>1 2026-11-21T03:00:00.123456+00:00 web1.internal nginx 4711 - - 192.0.2.1 - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"rsyslog, from another machine", inText(`2026-11-21T03:00:00.123456+00:00 10.0.0.5 apache2[4711]: 192.0.2.1 - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"journalctl", inText(`Nov 21 03:00:00 web1 nginx[4711]: 192.0.2.1 - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"journalctl -o json", wrapped(`{"_HOSTNAME":"web1","PRIORITY":"6","__REALTIME_TIMESTAMP":"1795230000000000","MESSAGE":$L}`)},
	{"docker compose logs", inText(`web-1  | 192.0.2.1 - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"docker logs -t", inText(`2026-11-21T03:00:00.123456789Z 192.0.2.1 - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"docker's file", wrapped(`{"log":$L,"stream":"stdout","time":"2026-11-21T03:00:00.123456789Z"}`)},
	{"containerd's file", inText(`2026-11-21T03:00:00.123456789Z stdout F 192.0.2.1 - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"kubectl logs --prefix", inText(`[pod/web-1/nginx] 192.0.2.1 - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"nginx's time_iso8601", inText(`192.0.2.1 - - [$I] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"Apache with milliseconds", inText(`192.0.2.1 - - [$M] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)},
	{"Caddy", inText(`{"ts":$S,"request":{"client_ip":"192.0.2.1","method":"GET","host":"a.example","uri":"$U","headers":{"User-Agent":["TestBot/1.0"]}},"status":200}`)},
	{"Caddy in docker compose", inText(`caddy-1  | {"ts":$S,"request":{"client_ip":"192.0.2.1","method":"GET","host":"a.example","uri":"$U","headers":{"User-Agent":["TestBot/1.0"]}},"status":200}`)},
	{"Caddy in docker's file", func(at time.Time, target string) string {
		line := inText(`{"ts":$S,"request":{"method":"GET","host":"a.example","uri":"$U","headers":{"User-Agent":["TestBot/1.0"]}},"status":200}`)(at, target)
		return fmt.Sprintf(`{"log":%s,"stream":"stderr"}`, jsonText(line+"\n"))
	}},
	{"nginx's JSON", inText(`{"time_local":"$T","remote_addr":"192.0.2.1","http_host":"a.example","request":"GET $U HTTP/1.1","status":"200","http_user_agent":"TestBot/1.0"}`)},
	{"nginx's JSON, in parts", inText(`{"msec":"$S","remote_addr":"192.0.2.1","server_name":"_","request_method":"GET","request_uri":"$U","status":200,"http_user_agent":"TestBot/1.0"}`)},
	{"Traefik's JSON", inText(`{"ClientHost":"192.0.2.1","DownstreamStatus":200,"RequestHost":"a.example","RequestMethod":"GET","RequestPath":"$U","StartUTC":"$I","request_User-Agent":"TestBot/1.0","time":"$I"}`)},
	{"Envoy's JSON", inText(`{"start_time":"$I","authority":"a.example","method":"GET","path":"$U","response_code":200,"user_agent":"TestBot/1.0","downstream_remote_address":"192.0.2.1:4711"}`)},
}

// inText writes a line from its pattern.
func inText(pattern string) func(at time.Time, target string) string {
	return func(at time.Time, target string) string {
		return strings.NewReplacer(
			"$T", at.Format("02/Jan/2006:15:04:05 -0700"),
			"$M", at.Format("02/Jan/2006:15:04:05.000 -0700"),
			"$I", at.Format(time.RFC3339),
			"$S", fmt.Sprintf("%d.000", at.Unix()),
			"$U", target,
		).Replace(pattern)
	}
}

// wrapped writes a combined line into a JSON of a collector.
func wrapped(pattern string) func(at time.Time, target string) string {
	return func(at time.Time, target string) string {
		line := inText(`192.0.2.1 - - [$T] "GET $U HTTP/1.1" 200 100 "-" "TestBot/1.0"`)(at, target)
		return strings.Replace(pattern, "$L", jsonText(line+"\n"), 1)
	}
}

// TestFormatsOfAccessLogs: an honest crawl is cleared, and a request that the evidence lacks is found,
// whatever a server writes before its lines and whatever collects them.
func TestFormatsOfAccessLogs(t *testing.T) {
	log, _ := visitsOf(t)
	for _, f := range logFormats {
		t.Run(f.name, func(t *testing.T) {
			var access []string
			for i := range 10 {
				access = append(access, f.line(moment(fmt.Sprint(10*i)), fmt.Sprintf("/%d", i)))
			}
			hidden := append([]string{f.line(moment("5"), "/hidden")}, access...)
			for _, o := range []accesslog.Options{{}, {Host: "a.example"}, {Host: "a.example:443"}} {
				c := compare(t, log, access, o)
				if !c.OK() || c.Matched != 10 || c.Unreadable+c.Elsewhere+c.Unseen.N != 0 {
					t.Errorf("%q: %v", o.Host, c)
				}
				c = compare(t, log, hidden, o)
				if c.OK() || c.Matched != 10 || c.Missing.N != 1 || c.Missing.First[0].Target != "/hidden" {
					t.Errorf("%q, with a hidden request: %v", o.Host, c)
				}
			}
		})
	}
}

// TestALineInAnotherLineIsNone: a crawler chooses its path, its User-Agent, its user and what proxies
// forward. None of them can be read as the line.
func TestALineInAnotherLineIsNone(t *testing.T) {
	log, access := visitsOf(t)
	const line = `192.0.2.1 - - [21/Nov/2026:04:00:05 +0000] "GET /0 HTTP/1.1" 200 100 "-" "OtherBot"`
	inJSON := jsonText(line)
	for _, hidden := range []string{
		`192.0.2.1 - - [21/Nov/2026:04:00:05 +0000] "GET /hidden HTTP/1.1" 200 100 ` + inJSON + ` "TestBot"`,
		`192.0.2.1 - - [21/Nov/2026:04:00:05 +0000] "GET /hidden HTTP/1.1" 200 100 "-" ` + strings.Replace(inJSON, "OtherBot", "TestBot", 1),
		`192.0.2.1 - [21/Nov/2026:04:00:05 [21/Nov/2026:04:00:05 +0000] "GET /hidden HTTP/1.1" 200 100 "-" "TestBot"`,
		`192.0.2.1 - {"log":"x"} [21/Nov/2026:04:00:05 +0000] "GET /hidden HTTP/1.1" 200 100 "-" "TestBot"`,
		`{"ts":1795233605,"request":{"method":"GET","host":"a.example","uri":"/hidden","headers":{"User-Agent":["TestBot",` + inJSON + `]}},"log":` + inJSON + `,"status":200}`,
		`{"time_local":"21/Nov/2026:04:00:05 +0000","request":"GET /hidden HTTP/1.1","status":200,"http_user_agent":"TestBot","message":` + inJSON + `}`,
	} {
		c := compare(t, log, append([]string{hidden}, access...), accesslog.Options{})
		if c.Missing.N != 1 || c.Missing.First[0].Target != "/hidden" || c.Matched != 10 {
			t.Errorf("%s:\n%v", hidden, c)
		}
	}
}
