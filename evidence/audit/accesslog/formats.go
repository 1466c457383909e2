package accesslog

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-politeness/politeness/evidence/audit/internal/sites"
)

// An entry is a line of an access log.
type entry struct {
	at       time.Time
	hosts    []string // words that name the host, if they are hosts of the evidence, the likeliest first
	hostname string   // word that stands where servers write a host; "": there is none
	address  string   // of the client
	method   string
	target   string
	status   int
	agent    string
}

// maxWrapped is how many collectors of logs may have wrapped a line, each in another JSON object.
const maxWrapped = 3

// parse reads a line of an access log. What a collector of logs puts before the line is skipped:
// the words of syslog, journald, docker and kubectl.
func parse(line []byte) (entry, bool) { return parseWrapped(line, maxWrapped) }

func parseWrapped(line []byte, depth int) (entry, bool) {
	begin := bytes.IndexByte(line, '{')
	if begin != 0 {
		if e, ok := parseCombined(string(line)); ok {
			return e, true
		}
	}
	if begin < 0 || depth == 0 {
		return entry{}, false
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(line[begin:], &fields) != nil {
		return entry{}, false
	}
	if e, ok := parseObject(fields); ok {
		return e, true
	}
	for _, name := range wrappers {
		if text := textOf(fields[name]); text != "" {
			return parseWrapped([]byte(text), depth-1)
		}
	}
	return entry{}, false
}

// wrappers are the fields in which collectors of logs keep a line: docker and fluentd, journald,
// others.
var wrappers = [...]string{"log", "MESSAGE", "message"}

const (
	quoted  = ` *("(?:[^"\\]|\\.)*")`
	clfTime = `\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d(?:\.\d+)? [-+]\d{4}`
	isoTime = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[-+]\d\d:?\d\d)`
)

// combined matches a line in combined format, with or without more before and behind it, numbers
// such as a duration before the referer, and the time in either form:
//
//	[vhost:port] address ident user [time] "request" status bytes "referer" "agent"
//
// Brackets, and times, may also stand in the name of a host or a user, which a crawler chooses. The
// request is right behind the time of the line.
var combined = regexp.MustCompile(
	`^(.*?)\[(` + clfTime + `|` + isoTime + `)\]` + quoted +
		` *(\d{1,3}) +(?:\d+|-)(?: +[\d.]+)*` + quoted + quoted)

// parseCombined reads a line in combined format.
func parseCombined(s string) (entry, bool) {
	part := combined.FindStringSubmatch(s)
	if part == nil {
		return entry{}, false
	}
	// Any text may be within the quotes: the crawler chooses its path and its User-Agent.
	at, timeOK := parseTime(part[2])
	request, err1 := strconv.Unquote(part[3]) // Apache and nginx escape as Go does
	agent, err2 := strconv.Unquote(part[6])
	words := strings.Fields(part[1])
	if !timeOK || err1 != nil || err2 != nil || len(words) < 3 {
		return entry{}, false
	}
	e := entry{at: at, agent: agent}
	e.status, _ = strconv.Atoi(part[4])
	e.setWords(words)
	e.setRequest(request)
	return e, true
}

// times are the forms of a time in access logs. Go reads a fraction behind the seconds of each.
var times = [...]string{
	"02/Jan/2006:15:04:05 -0700",
	time.RFC3339,
	"2006-01-02T15:04:05Z0700",
	time.DateTime, // in UTC
}

// parseTime reads a time in one of these forms, or as seconds or milliseconds since 1970.
func parseTime(s string) (time.Time, bool) {
	for _, layout := range times {
		if at, err := time.Parse(layout, s); err == nil {
			return at, true
		}
	}
	seconds, err := strconv.ParseFloat(s, 64)
	if seconds >= 1e11 { // the year 5138: they are milliseconds
		seconds /= 1000
	}
	if err != nil || seconds <= 0 || seconds >= 1e11 {
		return time.Time{}, false
	}
	return time.UnixMicro(int64(seconds * 1e6)), true
}

// setWords finds the host and the client's address in the words before the time of a line, which
// end with the address, its identity and its user:
//
//	www.example.com:443 192.0.2.1 - -
//	192.0.2.1 www.example.com -
//	Nov 21 03:00:00 web1 nginx: 192.0.2.1 - -
//	203.0.113.9, 198.51.100.2 192.0.2.1 - -
//
// A client chooses its user, and a list of addresses that proxies forward.
func (e *entry) setWords(words []string) {
	client := slices.IndexFunc(words, isAddress)
	if client < 0 || client > len(words)-3 {
		// The client has a name. Only the first word may be the host: a user may have many words.
		if len(words) > 3 {
			e.hosts = words[:1]
		}
		e.address = strings.TrimSuffix(words[0], ",")
		return
	}
	// A host may be an address itself. It has the client's behind it.
	if client+3 < len(words) && isAddress(words[client+1]) && !strings.HasSuffix(words[client], ",") {
		e.hosts = append(e.hosts, words[client])
		e.address = words[client]
		return
	}
	e.address = strings.Trim(words[client], `,"`)
	// The nearest word is the host, and words of a collector come before it.
	for _, word := range slices.Backward(words[:client]) {
		if !strings.HasSuffix(word, ",") {
			e.hosts = append(e.hosts, word)
		}
	}
	if client > 0 && !strings.HasSuffix(words[client-1], ",") {
		e.hostname = words[client-1]
	}
	// lighttpd has the host in place of the identity.
	e.hosts = append(e.hosts, words[client+1])
}

// isAddress reports whether a word is an IP address, perhaps the first of several.
func isAddress(word string) bool {
	_, err := netip.ParseAddr(strings.Trim(word, `,"`))
	return err == nil
}

// setRequest reads a request line such as "GET /path HTTP/1.1". A request that the server couldn't
// read is "-" or garbage.
func (e *entry) setRequest(line string) {
	method, rest, ok := strings.Cut(line, " ")
	if !ok {
		return
	}
	target, _, _ := strings.Cut(rest, " ")
	e.method = method
	e.setTarget(target)
}

// setTarget sets the target of a request, which has the host before it with Varnish.
func (e *entry) setTarget(target string) {
	e.target = target
	if strings.HasPrefix(target, "/") || !strings.Contains(target, "://") {
		return
	}
	host := sites.Authority(target)
	_, e.target = sites.SplitURL(target)
	e.hosts = append(e.hosts, host)
	if !isHost(e.hostname) {
		e.hostname = host
	}
}

// Names of fields in logs that are JSON: nginx's and Apache's by the names of nginx's variables,
// Traefik's, Envoy's. The first that is there counts.
var (
	timeFields = []string{
		"StartUTC", "time_iso8601", "time_local", "msec", "start_time", "timestamp", "@timestamp", "time", "ts",
	}
	requestFields = []string{"request"}
	methodFields  = []string{"request_method", "RequestMethod", "method"}
	targetFields  = []string{"request_uri", "RequestPath", "uri", "path"}
	statusFields  = []string{"status", "DownstreamStatus", "response_code"}
	hostFields    = []string{"http_host", "host", "RequestHost", "authority", "vhost", "server_name"}
	addressFields = []string{"remote_addr", "ClientHost", "client_ip", "remote_ip", "downstream_remote_address"}
	agentFields   = []string{"http_user_agent", "user_agent", "request_User-Agent", "userAgent", "agent"}
)

// parseObject reads a line that is a JSON object.
func parseObject(fields map[string]json.RawMessage) (entry, bool) {
	if nested := fields["request"]; len(nested) > 0 && nested[0] == '{' {
		return parseCaddy(fields)
	}
	at, ok := parseTime(first(fields, timeFields))
	if !ok {
		return entry{}, false
	}
	e := entry{
		at:      at,
		address: first(fields, addressFields),
		method:  first(fields, methodFields),
		agent:   first(fields, agentFields),
	}
	e.setHost(first(fields, hostFields))
	e.status, _ = strconv.Atoi(first(fields, statusFields))
	e.setTarget(first(fields, targetFields))
	if e.method == "" || e.target == "" {
		e.setRequest(first(fields, requestFields))
	}
	return e, e.method != ""
}

// setHost sets the host that a separate field names.
func (e *entry) setHost(host string) {
	e.hosts = append(e.hosts, host)
	e.hostname = host
}

// first returns the first of the named fields that has a text or a number.
func first(fields map[string]json.RawMessage, names []string) string {
	for _, name := range names {
		if text := textOf(fields[name]); text != "" && text != "-" {
			return text
		}
	}
	return ""
}

// textOf returns the text of a field: a string, a number, or, as journald has a line that isn't
// UTF-8, a list of bytes.
func textOf(field json.RawMessage) string {
	if len(field) == 0 {
		return ""
	}
	switch field[0] {
	case '"':
		var text string
		_ = json.Unmarshal(field, &text)
		return text
	case '[':
		// A []byte would be read as a text in base64.
		var numbers []uint16
		if json.Unmarshal(field, &numbers) != nil {
			return ""
		}
		line := make([]byte, len(numbers))
		for i, n := range numbers {
			line[i] = byte(n)
		}
		return string(line)
	case '{', 'n', 't', 'f':
		return ""
	}
	return string(field)
}

// parseCaddy reads a line of Caddy's access log, written when the request has ended.
func parseCaddy(fields map[string]json.RawMessage) (entry, bool) {
	var in struct {
		Method, Host, URI string
		RemoteIP          string `json:"remote_ip"`
		ClientIP          string `json:"client_ip"`
		Headers           map[string][]string
	}
	if json.Unmarshal(fields["request"], &in) != nil || in.Method == "" {
		return entry{}, false
	}
	// Caddy's filters may have left out any other field.
	at, ok := parseTime(textOf(fields["ts"]))
	e := entry{
		at:      at,
		address: in.ClientIP, // behind trusted proxies
		method:  in.Method,
		target:  in.URI,
		agent:   strings.Join(in.Headers["User-Agent"], " "),
	}
	if e.address == "" {
		e.address = in.RemoteIP
	}
	e.setHost(in.Host)
	e.status, _ = strconv.Atoi(textOf(fields["status"]))
	return e, ok
}
