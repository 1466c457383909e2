package main

import (
	"net"
	"net/http"
	"sync"
	"time"

	ginlimit "github.com/JGLTechnologies/gin-rate-limit"
	"github.com/didip/tollbooth/v7"
	"github.com/gin-gonic/gin"
	"github.com/go-chi/httprate"
	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	fiberlimit "github.com/gofiber/fiber/v2/middleware/limiter"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"go.uber.org/ratelimit"
	"golang.org/x/time/rate"
)

// limiters return a handler that lets a limiter stand before pages.
var limiters = map[string]func(pages) (http.Handler, error){
	"httprate":      overHTTPRate,
	"ulule":         overUlule,
	"tollbooth":     overTollbooth,
	"throttled":     overThrottled,
	"go-limiter":    overGoLimiter,
	"echo":          overEcho,
	"gin":           overGin,
	"x-time-rate":   overRate,
	"uber":          overUber,
	"fiber":         func(p pages) (http.Handler, error) { return overFiber(p, fiberlimit.Config{}), nil },
	"fiber-sliding": overFiberSliding,
}

func overHTTPRate(p pages) (http.Handler, error) {
	return httprate.LimitByIP(60, time.Minute)(p), nil
}

func overUlule(p pages) (http.Handler, error) {
	quota, err := limiter.NewRateFromFormatted("60-M")
	if err != nil {
		return nil, err
	}
	return stdlib.NewMiddleware(limiter.New(memory.NewStore(), quota)).Handler(p), nil
}

func overTollbooth(p pages) (http.Handler, error) {
	return tollbooth.LimitHandler(tollbooth.NewLimiter(1, nil), p), nil
}

func overThrottled(p pages) (http.Handler, error) {
	store, err := memstore.NewCtx(65536)
	if err != nil {
		return nil, err
	}
	quota := throttled.RateQuota{MaxRate: throttled.PerMin(20), MaxBurst: 5}
	gcra, err := throttled.NewGCRARateLimiterCtx(store, quota)
	if err != nil {
		return nil, err
	}
	client := &throttled.VaryBy{Custom: clientIP}
	return (&throttled.HTTPRateLimiterCtx{RateLimiter: gcra, VaryBy: client}).RateLimit(p), nil
}

func overGoLimiter(p pages) (http.Handler, error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: 30, Interval: time.Minute})
	if err != nil {
		return nil, err
	}
	limit, err := httplimit.NewMiddleware(store, httplimit.IPKeyFunc())
	if err != nil {
		return nil, err
	}
	return limit.Handle(p), nil
}

func overEcho(p pages) (http.Handler, error) {
	e := echo.New()
	e.Use(middleware.RateLimiter(middleware.NewRateLimiterMemoryStoreWithConfig(
		middleware.RateLimiterMemoryStoreConfig{Rate: 1, Burst: 3})))
	e.GET("/*", echo.WrapHandler(p))
	return e, nil
}

func overGin(p pages) (http.Handler, error) {
	gin.SetMode(gin.ReleaseMode)
	g := gin.New()
	store := ginlimit.InMemoryStore(&ginlimit.InMemoryOptions{Rate: time.Second, Limit: 2})
	g.Use(ginlimit.RateLimiter(store, &ginlimit.Options{KeyFunc: func(c *gin.Context) string { return c.RemoteIP() }}))
	g.GET("/*path", gin.WrapH(p))
	return g, nil
}

// overRate is the limiter for each visitor that tutorials build around x/time/rate.
func overRate(p pages) (http.Handler, error) {
	var visitors sync.Map
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		visitor, _ := visitors.LoadOrStore(clientIP(r), rate.NewLimiter(1, 3))
		if !visitor.(*rate.Limiter).Allow() {
			http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
			return
		}
		p.ServeHTTP(w, r)
	}), nil
}

// overUber answers late, and refuses nothing.
func overUber(p pages) (http.Handler, error) {
	var visitors sync.Map
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		visitor, _ := visitors.LoadOrStore(clientIP(r), ratelimit.New(1))
		visitor.(ratelimit.Limiter).Take()
		p.ServeHTTP(w, r)
	}), nil
}

func overFiber(p pages, config fiberlimit.Config) http.Handler {
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Use(fiberlimit.New(config))
	app.Get("/*", adaptor.HTTPHandler(p))
	return adaptor.FiberApp(app)
}

func overFiberSliding(p pages) (http.Handler, error) {
	return overFiber(p, fiberlimit.Config{
		Max:               20,
		Expiration:        30 * time.Second,
		LimiterMiddleware: fiberlimit.SlidingWindow{},
	}), nil
}

func clientIP(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
