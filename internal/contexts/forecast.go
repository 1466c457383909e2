package contexts

import "context"

// A Forecast receives from Transport.Next why a request can't start now, as far as no limiter knows
// it.
type Forecast struct {
	Closed bool // the next start waits for the Visit-time of robots.txt
}

// WithForecast returns ctx for a call of Transport.Next that fills in f.
func WithForecast(ctx context.Context, f *Forecast) context.Context {
	return context.WithValue(ctx, (*Forecast)(nil), f)
}

// ForecastOf returns the Forecast of ctx to fill in; nil: there is none.
func ForecastOf(ctx context.Context) *Forecast {
	f, _ := ctx.Value((*Forecast)(nil)).(*Forecast)
	return f
}
