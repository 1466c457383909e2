package budget

import (
	"encoding/json"
	"time"

	"github.com/go-politeness/politeness/internal/durations"
)

// Usage is a snapshot of the spent part of a budget. Its JSON has each limit beside the part that
// is spent, such as pages and maxPages, bytes and maxBytes, seconds and maxSeconds. A limit of 0 is
// none. Use it to show how much is left.
type Usage struct {
	Limits  Limits
	Pages   int64
	Bytes   int64
	Started time.Time     // first page or byte taken, zero before
	Elapsed time.Duration // since Started, zero before
}

// usageJSON has the members of a Usage's JSON.
type usageJSON struct {
	Pages        int64             `json:"pages"`
	MaxPages     int64             `json:"maxPages"`
	PagesPerHost int64             `json:"maxPagesPerHost"`
	Bytes        int64             `json:"bytes"`
	MaxBytes     int64             `json:"maxBytes"`
	Elapsed      durations.Seconds `json:"seconds"`
	Duration     durations.Seconds `json:"maxSeconds"`
	Started      time.Time         `json:"started,omitzero"`
	WarnAt       float64           `json:"warnAt,omitempty"`
	Every        durations.Seconds `json:"every,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (u Usage) MarshalJSON() ([]byte, error) {
	return json.Marshal(usageJSON{
		Pages:        u.Pages,
		MaxPages:     u.Limits.Pages,
		PagesPerHost: u.Limits.PagesPerHost,
		Bytes:        u.Bytes,
		MaxBytes:     u.Limits.Bytes,
		Elapsed:      durations.Seconds(u.Elapsed),
		Duration:     durations.Seconds(u.Limits.Duration),
		Started:      u.Started,
		WarnAt:       u.Limits.WarnAt,
		Every:        durations.Seconds(u.Limits.Every),
	})
}

// UnmarshalJSON implements json.Unmarshaler.
func (u *Usage) UnmarshalJSON(data []byte) error {
	var read usageJSON
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}
	*u = Usage{
		Limits: Limits{
			Pages:        read.MaxPages,
			PagesPerHost: read.PagesPerHost,
			Bytes:        read.MaxBytes,
			Duration:     time.Duration(read.Duration),
			WarnAt:       read.WarnAt,
			Every:        time.Duration(read.Every),
		},
		Pages:   read.Pages,
		Bytes:   read.Bytes,
		Started: read.Started,
		Elapsed: time.Duration(read.Elapsed),
	}
	return nil
}
