package statuspage

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// writePrometheus writes s in Prometheus' text format, version 0.0.4.
func writePrometheus(w *bytes.Buffer, s *politeness.Status) {
	metric{"starts_total", "counter", "Requests that were sent, those for robots.txt included."}.
		write(w, float64(s.Starts))
	metric{
		"answers_total", "counter",
		"Responses by class of status. The class none counts requests without a response.",
	}.writeAll(w, "class", floats(s.Answers))
	metric{
		"refusals_total", "counter",
		"Requests that politeness ended with an error, before or after they were sent, by reason.",
	}.writeAll(w, "reason", floats(s.Refusals))
	metric{"waiting", "gauge", "Requests that wait, by reason."}.
		writeAll(w, "hold", floats(s.Waiting))
	writeHosts(w, s)
	writeCrawls(w, s.Crawls)
	metric{
		"latency_mean_seconds", "gauge",
		"Mean time from a start to the headers of its response, within the last hour.",
	}.write(w, meanLatency(s.Latency))
	lost := 0.0
	if s.Lost != "" {
		lost = 1
	}
	metric{"evidence_lost", "gauge", "1 if records were lost or can't be written."}.write(w, lost)
	if s.Budget != nil {
		writeBudget(w, s.Budget)
	}
	if s.Robots != nil {
		writeRobots(w, s.Robots)
	}
}

func writeHosts(w *bytes.Buffer, s *politeness.Status) {
	leaks := 0
	refused := 0
	for _, h := range s.Hosts {
		if h.Leak {
			leaks++
		}
		if refusing(h) {
			refused++
		}
	}
	metric{"hosts", "gauge", "Hosts whose state is kept, by state."}.writeAll(w, "state", floats(s.HostsBy))
	metric{
		"unreachable_origins", "gauge",
		"Origins whose robots.txt couldn't be fetched at the last fetch, 1000 at most.",
	}.write(w, float64(len(s.Unreachable)))
	metric{
		"refusing_hosts", "gauge",
		"Hosts at work just now, 1000 at most, that refused more than a tenth of ten or more requests. " +
			"For alerts take answers_total.",
	}.write(w, float64(refused))
	metric{"suspected_leaks", "gauge", "Hosts with a slot that was in use for a minute without a sign of life."}.
		write(w, float64(leaks))
}

// writeCrawls writes the sums over crawls. URLs of a crawl that doesn't know their number don't
// count.
func writeCrawls(w *bytes.Buffer, crawls []politeness.CrawlStatus) {
	if len(crawls) == 0 {
		return
	}
	visited := 0
	left := 0
	for _, c := range crawls {
		visited += c.Visited
		left += max(0, c.Left)
	}
	metric{"crawl_pages", "gauge", "Pages visited by the crawls that run, or by the last one."}.
		write(w, float64(visited))
	metric{"crawl_urls_left", "gauge", "URLs of these crawls that wait or are in flight."}.write(w, float64(left))
}

// meanLatency is the mean of all answers: a minute with many counts for as many.
func meanLatency(minutes []politeness.MinuteStatus) float64 {
	answers := 0.0
	sum := 0.0
	for _, m := range minutes {
		answers += float64(m.Answers)
		sum += m.Mean * float64(m.Answers)
	}
	if answers == 0 {
		return 0
	}
	return sum / answers
}

func writeBudget(w *bytes.Buffer, u *budget.Usage) {
	metric{"budget_used", "gauge", "Part of the budget that is spent."}.writeAll(w, "of", map[string]float64{
		"pages":   float64(u.Pages),
		"bytes":   float64(u.Bytes),
		"seconds": u.Elapsed.Seconds(),
	})
	limits := map[string]float64{
		"pages":   float64(u.Limits.Pages),
		"bytes":   float64(u.Limits.Bytes),
		"seconds": u.Limits.Duration.Seconds(),
	}
	maps.DeleteFunc(limits, func(_ string, limit float64) bool { return limit == 0 })
	metric{"budget_limit", "gauge", "Limit of the budget. A budget without a limit has no value here."}.
		writeAll(w, "of", limits)
}

func writeRobots(w *bytes.Buffer, c *robotscache.Stats) {
	metric{"robots_origins", "gauge", "Origins whose robots.txt is known."}.write(w, float64(c.Origins))
	metric{"robots_fetched_total", "counter", "Fetches of robots.txt that got a response."}.write(w, float64(c.Fetched))
	metric{"robots_revalidated_total", "counter", "Fetches of robots.txt that hadn't changed."}.
		write(w, float64(c.Revalidated))
	metric{"robots_unreachable_total", "counter", "Fetches of robots.txt that failed."}.write(w, float64(c.Unreachable))
	metric{"robots_bytes", "gauge", "Memory that is used for robots.txt."}.write(w, float64(c.Bytes))
}

// A metric is a family of values, whose names begin with politeness_.
type metric struct{ name, kind, help string }

// head writes the lines about the family.
func (m metric) head(w *bytes.Buffer) {
	fmt.Fprintf(w, "# HELP politeness_%s %s\n# TYPE politeness_%s %s\n", m.name, m.help, m.name, m.kind)
}

// write writes a family of one value.
func (m metric) write(w *bytes.Buffer, value float64) {
	m.head(w)
	fmt.Fprintf(w, "politeness_%s %s\n", m.name, number(value))
}

// writeAll writes a family with one label, in the order of its values.
func (m metric) writeAll(w *bytes.Buffer, label string, values map[string]float64) {
	m.head(w)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		escaped := labelEscapes.Replace(name)
		fmt.Fprintf(w, "politeness_%s{%s=\"%s\"} %s\n", m.name, label, escaped, number(values[name]))
	}
}

// floats returns counts as Prometheus has them.
func floats[N int | int64](counts map[string]N) map[string]float64 {
	values := make(map[string]float64, len(counts))
	for name, n := range counts {
		values[name] = float64(n)
	}
	return values
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
