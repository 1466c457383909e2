package politeness

import "bytes"

// StatusPage is what StatusHandler serves as JSON.
type StatusPage = statusPage

// The parts of a StatusPage.
type (
	StatusHost   = statusHost
	StatusMinute = statusMinute
	StatusDown   = statusDown
	StatusBudget = statusBudget
	StatusRobots = statusRobots
)

// HTMLOf returns the page that StatusHandler serves of s.
func HTMLOf(s *StatusPage, filter string) string {
	var page bytes.Buffer
	s.writeHTML(&page, filter)
	return page.String()
}

// PrometheusOf returns what Prometheus scrapes of s.
func PrometheusOf(s *StatusPage) string {
	var page bytes.Buffer
	s.writePrometheus(&page)
	return page.String()
}
