package statuspage

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-politeness/politeness"
)

// writePrometheus writes s in Prometheus' text format, version 0.0.4.
func writePrometheus(w *bytes.Buffer, s *politeness.Status) {
	family := func(name, kind, help string) {
		fmt.Fprintf(w, "# HELP politeness_%s %s\n# TYPE politeness_%s %s\n", name, help, name, kind)
	}
	one := func(name, kind, help string, value float64) {
		family(name, kind, help)
		fmt.Fprintf(w, "politeness_%s %s\n", name, number(value))
	}
	one("starts_total", "counter", "Requests that were sent, those for robots.txt included.", float64(s.Starts))
	labelled(w, family, "answers_total", "counter", "Answers by class of status, none where none came.", "class", s.Answers)
	labelled(w, family, "refusals_total", "counter", "Requests that were refused before or after they were sent, by reason.", "reason", s.Refusals)
	labelled(w, family, "waiting", "gauge", "Requests that wait, by what holds their host.", "hold", s.Waiting)
	labelled(w, family, "hosts", "gauge", "Hosts whose state is kept, by state.", "state", s.HostsBy)
	one("unreachable_origins", "gauge", "Origins whose robots.txt couldn't be had when it was last asked for, 1000 at most.", float64(len(s.Unreachable)))
	leaks, refused := 0, 0
	for _, h := range s.Hosts {
		if h.Leak {
			leaks++
		}
		if refusing(h) {
			refused++
		}
	}
	one("refusing_hosts", "gauge", "Hosts at work just now, 1000 at most, that refused more than a tenth of ten or more requests. For alerts take answers_total.", float64(refused))
	one("suspected_leaks", "gauge", "Hosts with a slot that was held for a minute without a sign of life.", float64(leaks))
	var answers, seconds float64
	for _, m := range s.Latency {
		answers += float64(m.Answers)
		seconds += m.Mean * float64(m.Answers)
	}
	mean := 0.0
	if answers > 0 {
		mean = seconds / answers
	}
	one("latency_mean_seconds", "gauge", "Mean time from a start to the headers of its answer, within the last hour.", mean)
	lost := 0.0
	if s.Lost != "" {
		lost = 1
	}
	one("evidence_lost", "gauge", "1 if records were lost or can't be written.", lost)
	if b := s.Budget; b != nil {
		labelled(w, family, "budget_used", "gauge", "What has been spent.", "of", map[string]float64{
			"pages":   float64(b.Pages),
			"bytes":   float64(b.Bytes),
			"seconds": b.Elapsed.Seconds(),
		})
		limits := map[string]float64{
			"pages":   float64(b.Limits.Pages),
			"bytes":   float64(b.Limits.Bytes),
			"seconds": b.Limits.Duration.Seconds(),
		}
		maps.DeleteFunc(limits, func(_ string, v float64) bool { return v == 0 })
		labelled(w, family, "budget_limit", "gauge", "What may be spent; absent where there is no limit.", "of", limits)
	}
	if c := s.Robots; c != nil {
		one("robots_origins", "gauge", "Origins whose robots.txt is known.", float64(c.Origins))
		one("robots_fetched_total", "counter", "Fetches of robots.txt that were answered.", float64(c.Fetched))
		one("robots_revalidated_total", "counter", "Fetches of robots.txt that hadn't changed.", float64(c.Revalidated))
		one("robots_unreachable_total", "counter", "Fetches of robots.txt that failed.", float64(c.Unreachable))
		one("robots_bytes", "gauge", "Memory that is used for robots.txt.", float64(c.Bytes))
	}
}

// labelled writes a family with one label, in the order of its values.
func labelled[N int | int64 | float64](w *bytes.Buffer, family func(name, kind, help string), name, kind, help, label string, values map[string]N) {
	family(name, kind, help)
	for _, value := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(w, "politeness_%s{%s=\"%s\"} %s\n", name, label, labelEscapes.Replace(value), number(float64(values[value])))
	}
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
