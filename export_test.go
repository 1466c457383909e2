package politeness

// StatusPage is what StatusHandler serves as JSON.
type StatusPage = statusPage
