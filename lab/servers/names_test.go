package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit/accesslog"
)

const (
	// One server has two names. Its start page sends clients of one name to the other.
	nginxNames = `
		server_name example.com www.example.com;
		location = / {
			if ($http_host = example.com) { return 302 http://www.example.com/s000.html; }
		}`
	apacheNames = `
		ServerName example.com
		UseCanonicalName Off
		RewriteEngine On
		RewriteCond %{HTTP_HOST} ^example
		RewriteRule ^/$ http://www.example.com/s000.html [R=302,L]`
	// A proxy sends the site behind it a name of its own, and the client's address.
	proxyNames = `
		server_name example.com www.example.com;
		location / {
			proxy_pass http://$BACK;
			proxy_set_header Host backend.internal;
			proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
		}`
)

// namedServers are servers with two names, each with a log of one format.
var namedServers = []struct {
	server *Server
	called [][]string // hosts by which the server can be called, so that an honest crawl is cleared
}{
	{
		&Server{
			Name: "nginx, combined", programs: onNginx,
			start: nginx("", "access_log "+combined+" combined;"+nginxNames),
		},
		[][]string{{"www.example.com", "example.com"}, {"www.example.com"}, {"example.com"}},
	},
	{
		&Server{
			Name: "nginx, by server_name", programs: onNginx,
			start: nginx(`log_format named '$server_name:$server_port $remote_addr - $remote_user [$time_local] '
				'"$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for"';`,
				"access_log "+combined+" named;"+nginxNames),
		},
		[][]string{nil, {"www.example.com", "example.com"}, {"www.example.com"}},
	},
	{
		&Server{
			Name: "nginx, by the Host header", programs: onNginx,
			start: nginx(`log_format named '$host $remote_addr - $remote_user [$time_iso8601] '
				'"$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_time';`,
				"access_log "+combined+" named;"+nginxNames),
		},
		[][]string{nil, {"www.example.com", "example.com"}},
	},
	{
		&Server{
			Name: "nginx, JSON", programs: onNginx,
			start: nginx(`log_format named escape=json '{"time_iso8601":"$time_iso8601","remote_addr":"$remote_addr",'
				'"server_name":"$server_name","request":"$request","status":"$status","http_user_agent":"$http_user_agent"}';`,
				"access_log "+combined+" named;"+nginxNames),
		},
		[][]string{nil, {"www.example.com", "example.com"}},
	},
	{
		&Server{
			Name: "Apache, vhost_combined", programs: onApache,
			start: namedApache(`%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"`),
		},
		[][]string{nil, {"www.example.com", "example.com"}, {"www.example.com"}},
	},
	{
		&Server{
			Name: "Apache, combined", programs: onApache,
			start: namedApache(`%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"`),
		},
		[][]string{{"www.example.com", "example.com"}, {"www.example.com"}},
	},
	{
		&Server{
			Name: "nginx behind a proxy", programs: onNginx,
			start: behindProxy(`'$server_name:$server_port $remote_addr - $remote_user [$time_local] '
				'"$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"'`),
		},
		[][]string{nil, {"www.example.com", "example.com"}, {"backend.internal", "www.example.com", "example.com"}},
	},
	{
		&Server{
			Name: "nginx behind a proxy, forwarded addresses first", programs: onNginx,
			start: behindProxy(`'$http_x_forwarded_for $remote_addr - $remote_user [$time_local] '
				'"$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"'`),
		},
		[][]string{{"www.example.com", "example.com"}, {"www.example.com"}},
	},
}

func namedApache(format string) func(*instance) error {
	const load = "LoadModule rewrite_module $MODULESmod_rewrite.so"
	return apache(load, apacheNames+"\nLogFormat \""+format+"\" named\nCustomLog "+combined+" named")
}

// behindProxy starts nginx before another nginx, whose log has a format.
func behindProxy(format string) func(*instance) error {
	return func(r *instance) error {
		addr, err := freeAddr()
		if err != nil {
			return err
		}
		back := &instance{Server: r.Server, dir: r.path("origin"), site: r.site, addr: addr, log: r.path("origin.log")}
		if err := os.MkdirAll(back.path("tmp"), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(r.path("site"), back.path("site")); err != nil {
			return err
		}
		err = back.nginx("nginx.conf", "log_format named "+format+";",
			"server_name backend.internal;\naccess_log "+r.path("combined.log")+" named;")
		if err != nil {
			return err
		}
		r.stops = append(r.stops, back.Stop)
		if err := back.ready(); err != nil {
			return err
		}
		return r.nginx("nginx.conf", "", strings.ReplaceAll(proxyNames, "$BACK", addr))
	}
}

// collectors put words around a line, as it is read from them.
var collectors = map[string]func(line string) string{
	"as it is":        func(line string) string { return line },
	"syslog":          func(line string) string { return "Nov 28 03:00:00 web1 nginx: " + line },
	"journald":        func(line string) string { return "Nov 28 03:00:00 web1.internal apache2[4711]: " + line },
	"docker compose":  func(line string) string { return "web-1  | " + line },
	"docker, times":   func(line string) string { return "2026-11-28T03:00:00.123456789Z " + line },
	"docker's file":   func(line string) string { return inJSON("log", line+"\n") },
	"journald's JSON": func(line string) string { return inJSON("MESSAGE", line) },
	"kubectl":         func(line string) string { return "[pod/web-7d4b9/nginx] " + line },
}

func inJSON(name, line string) string {
	b, err := json.Marshal(map[string]string{name: line, "stream": "stdout"})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestNamesOfRealServers: the log of a server with two names clears an honest crawl of both, and shows
// a request that the evidence lacks, in each format and by whatever the lines were collected.
func TestNamesOfRealServers(t *testing.T) {
	for _, s := range namedServers {
		t.Run(s.server.Name, func(t *testing.T) {
			if missing := s.server.Missing(); len(missing) > 0 {
				t.Skipf("needs %s; make setup installs servers", strings.Join(missing, ", "))
			}
			r := launchLogger(t, s.server)
			log := fetchNames(t, r.addr, "http://example.com/", "http://example.com/s000.html", "http://example.com/missing", "http://www.example.com/s000-00000.html?q=a%20b")
			lines := strings.SplitAfter(string(log), "\n")
			n := countStarts(lines)
			access := strings.Split(strings.TrimSpace(string(waitForLines(t, r.path("combined.log"), n))), "\n")
			without := strings.Join(deleteLines(lines, "/s000-00000.html"), "")
			for name, collect := range collectors {
				var text strings.Builder
				for _, line := range access {
					fmt.Fprintln(&text, collect(line))
				}
				for _, called := range s.called {
					var o accesslog.Options
					if len(called) > 0 {
						o.Host = called[0]
						o.Aliases = called[1:]
					}
					c, err := accesslog.Compare(bytes.NewReader(log), o, strings.NewReader(text.String()))
					if err != nil || !c.OK() || c.Matched != n || c.Unseen.N+c.Unreadable+c.Elsewhere > 0 {
						t.Errorf("%s, called %q: %v, %v\n%s", name, called, c, err, text.String())
					}
					c, err = accesslog.Compare(strings.NewReader(without), o, strings.NewReader(text.String()))
					if err != nil || c.OK() || c.Missing.N != 1 || !strings.HasPrefix(c.Missing.First[0].Target, "/s000-00000.html") {
						t.Errorf("%s, called %q, without a request: %v, %v", name, called, c, err)
					}
				}
			}
		})
	}
}

// TestNginxLogsBySyslog: nginx itself sends its lines to a collector, with what it puts before them.
func TestNginxLogsBySyslog(t *testing.T) {
	if program("nginx") == "" {
		t.Skip("needs nginx; make setup installs servers")
	}
	collector, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer collector.Close()
	s := &Server{Name: "nginx, syslog", start: nginx("",
		"access_log "+combined+" combined;\naccess_log syslog:server="+collector.LocalAddr().String()+" combined;"+nginxNames)}
	r := launchLogger(t, s)
	log := fetchNames(t, r.addr, "http://example.com/", "http://www.example.com/missing")
	n := countStarts(strings.SplitAfter(string(log), "\n"))
	var access strings.Builder
	packet := make([]byte, 64<<10)
	for strings.Count(access.String(), "ServersBot") < n {
		size, _, err := collector.ReadFrom(packet)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&access, "%s\n", packet[:size])
	}
	o := accesslog.Options{Host: "example.com", Aliases: []string{"www.example.com"}}
	c, err := accesslog.Compare(bytes.NewReader(log), o, strings.NewReader(access.String()))
	if err != nil || !c.OK() || c.Matched != n || c.Unreadable > 0 {
		t.Errorf("%v, %v\n%s", c, err, access.String())
	}
}

// fetchNames fetches URLs one after the other from the server at addr, whatever their host, and
// returns the evidence.
func fetchNames(t *testing.T, addr string, urls ...string) []byte {
	t.Helper()
	return fetchOver(t, &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}, urls...)
}

// countStarts returns how many requests the evidence has.
func countStarts(lines []string) (n int) {
	for _, l := range lines {
		var e evidence.LogLine
		if json.Unmarshal([]byte(l), &e) == nil && (e.Type == evidence.Started || e.Type == evidence.Resent) {
			n++
		}
	}
	return n
}
