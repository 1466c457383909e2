package servers

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

const nginxConf = `
daemon off;
worker_processes 1;
pid $DIR/nginx.pid;
error_log $DIR/nginx-errors.log;
$USER
events { worker_connections 512; }
http {
	types { text/html html; text/plain txt; }
	default_type text/plain;
	client_body_temp_path $DIR/tmp;
	proxy_temp_path $DIR/tmp;
	fastcgi_temp_path $DIR/tmp;
	uwsgi_temp_path $DIR/tmp;
	scgi_temp_path $DIR/tmp;
	# Both times have milliseconds. $msec is the time at which the line is written.
	log_format judge 'end:s:s $msec $request_time $remote_addr $remote_port $status '
		'$request_method $request_uri $sent_http_retry_after';
	access_log $LOG judge;
	$HTTP
	server {
		listen $ADDR;
		root $SITE;
		$SERVER
	}
}
`

// nginx returns a Server's start: nginx with directives of its http and its server block.
func nginx(http, server string) func(*instance) error {
	return func(r *instance) error {
		return r.nginx("nginx.conf", http, server)
	}
}

func (r *instance) nginx(name, http, server string, more ...string) error {
	user := ""
	if os.Geteuid() == 0 { // its workers would be another user, who may not read the directory
		user = "user root;"
	}
	text := strings.NewReplacer("$HTTP", http, "$SERVER", server, "$USER", user).Replace(nginxConf)
	conf, err := r.conf(name, text, more...)
	if err != nil {
		return err
	}
	return r.run("", "nginx", "-e", r.path("nginx-errors.log"), "-p", r.dir, "-c", conf)
}

// origin starts the web server behind a proxy, and returns its address.
func (r *instance) origin() (string, error) {
	front := *r
	addr, err := freeAddr()
	if err != nil {
		return "", err
	}
	back := &instance{Server: r.Server, dir: r.path("origin"), site: r.site, addr: addr, log: r.path("origin.log")}
	if err := os.MkdirAll(back.path("tmp"), 0o755); err != nil {
		return "", err
	}
	if err := os.Symlink(front.path("site"), back.path("site")); err != nil {
		return "", err
	}
	if err := back.nginx("nginx.conf", "", ""); err != nil {
		return "", err
	}
	r.stops = append(r.stops, back.Stop)
	return addr, back.ready()
}

// limitReq is a limit of nginx by the client's address: options are those of limit_req.
func limitReq(rate, options, more string) func(*instance) error {
	return nginx("limit_req_zone $binary_remote_addr zone=clients:1m rate="+rate+";",
		"limit_req zone=clients "+options+";\n"+more)
}

// retryAfter sends Retry-After with answers of a status, and with no others.
func retryAfter(status, seconds string) (http, server string) {
	return "map $status $asked { " + status + " " + seconds + "; default ''; }", "add_header Retry-After $asked always;"
}

// slow429 is limit_req with status 429 and Retry-After.
func slow429(r *instance) error {
	http, server := retryAfter("429", "10")
	return nginx("limit_req_zone $binary_remote_addr zone=clients:1m rate=30r/m;\n"+http,
		"limit_req zone=clients;\nlimit_req_status 429;\n"+server)(r)
}

// maintenance answers 503 with Retry-After to all but robots.txt for as long as r.Closed.
func maintenance(r *instance) error {
	http, server := retryAfter("503", "60")
	flag := filepath.Join(r.dir, "maintenance")
	if err := os.WriteFile(flag, nil, 0o644); err != nil {
		return err
	}
	timer := time.AfterFunc(r.Closed, func() { _ = os.Remove(flag) })
	r.stops = append(r.stops, func() { timer.Stop() })
	return nginx(http, server+`
		location = /robots.txt { }
		location / {
			if (-f $DIR/maintenance) { return 503; }
		}`)(r)
}

// broken answers status to the pages whose path matches a regular expression.
func broken(status, paths string) func(*instance) error {
	return nginx("", "location ~ "+paths+" { return "+status+"; }")
}
