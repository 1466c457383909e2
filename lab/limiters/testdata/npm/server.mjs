// One limiter of npm before a folder of pages: node server.mjs LIMITER ADDRESS SITE LOG.
//
// Each limiter is set up as its README shows. What stands around it is ours: the pages, and a log
// with one line for each request, in the form that package servers reads. The last field of a line
// is for how many seconds the limiter goes on refusing, as the limiter itself counts.
import { createServer } from "node:http";
import { openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";

const [, , name, address, site, log] = process.argv;
const [host, port] = address.split(":");
const file = openSync(log, "a");

// page returns the text of a path; undefined: there is no such page.
function page(path) {
  try {
    return readFileSync(join(site, path === "/" ? "index.html" : path), "utf8");
  } catch {
    return undefined;
  }
}

const type = (path) => (path.endsWith(".txt") ? "text/plain" : "text/html");

// answer is the handler behind the limiters of node's own http and of express.
function answer(req, res) {
  const text = page(req.url);
  res.statusCode = text === undefined ? 404 : 200;
  res.setHeader("Content-Type", type(req.url));
  res.end(text ?? "not found");
}

// stated reads from a refusal's Retry-After for how many seconds it holds.
const stated = (req, res) => Number(res.written?.["retry-after"] ?? res.getHeader("retry-after"));

// until returns a function that reads the end of a window from a request: a Date, or milliseconds
// since 1970.
const until = (read) => (req) => (Number(read(req)) - Date.now()) / 1000;

async function express() {
  const app = (await import("express")).default();
  app.disable("x-powered-by");
  app.disable("etag");
  return app;
}

// expressRateLimit has 60 requests a minute.
function expressRateLimit(options) {
  return async () => {
    const { rateLimit } = await import("express-rate-limit");
    const app = await express();
    app.use(rateLimit({ windowMs: 60_000, limit: 60, ...options }), answer);
    return { listener: app, refusedFor: until((req) => req.rateLimit?.resetTime) };
  };
}

// flexible is the middleware of rate-limiter-flexible's README. headers may set some of an answer.
function flexible(options, headers) {
  return async () => {
    const { RateLimiterMemory } = (await import("rate-limiter-flexible")).default;
    const limiter = new RateLimiterMemory(options);
    const app = await express();
    app.use((req, res) => {
      const set = (state) => res.set(headers?.(state, options) ?? {});
      limiter.consume(req.socket.remoteAddress).then(
        (state) => {
          if (options.onEveryAnswer) set(state);
          answer(req, res);
        },
        (state) => {
          set(state);
          req.opensAt = Date.now() + state.msBeforeNext;
          res.status(429).send("Too Many Requests");
        },
      );
    });
    return { listener: app, refusedFor: until((req) => req.opensAt) };
  };
}

const flexibleHeaders = (reset) => (state, options) => ({
  "Retry-After": state.msBeforeNext / 1000,
  "X-RateLimit-Limit": options.points,
  "X-RateLimit-Remaining": state.remainingPoints,
  "X-RateLimit-Reset": reset(Date.now() + state.msBeforeNext),
});

function fastify(options) {
  return async (serve) => {
    const app = (await import("fastify")).default({ serverFactory: (handler) => serve(handler) });
    await app.register((await import("@fastify/rate-limit")).default, { timeWindow: 60_000, ...options });
    app.get("/*", (req, reply) => {
      const text = page(req.url);
      reply.code(text === undefined ? 404 : 200).type(type(req.url)).send(text ?? "not found");
    });
    await app.ready();
    return { refusedFor: stated };
  };
}

function koa(options) {
  return async () => {
    const app = new (await import("koa")).default();
    const limit = (await import("koa-ratelimit")).default;
    app.use(limit({ driver: "memory", db: new Map(), ...options }));
    app.use((ctx) => {
      const text = page(ctx.path);
      ctx.status = text === undefined ? 404 : 200;
      ctx.type = type(ctx.path);
      ctx.body = text ?? "not found";
    });
    app.silent = true;
    const reset = options.headers?.reset ?? "X-RateLimit-Reset";
    return { listener: app.callback(), refusedFor: (req, res) => Number(res.getHeader(reset)) - Date.now() / 1000 };
  };
}

async function hapi(serve) {
  const app = (await import("@hapi/hapi")).default.server({ listener: serve(), autoListen: false });
  await app.register({
    plugin: await import("hapi-rate-limit"),
    options: { userLimit: 30, userCache: { expiresIn: 30_000 }, pathLimit: false, authLimit: false },
  });
  app.route({
    method: "GET",
    path: "/{path*}",
    handler: (req, h) => {
      const text = page(req.path);
      return h.response(text ?? "not found").code(text === undefined ? 404 : 200).type(type(req.path));
    },
  });
  await app.initialize();
  await app.start();
  return { refusedFor: (req, res) => (Number(res.getHeader("x-ratelimit-userreset")) - Date.now()) / 1000 };
}

async function hono() {
  const { Hono } = await import("hono");
  const { getRequestListener } = await import("@hono/node-server");
  const { getConnInfo } = await import("@hono/node-server/conninfo");
  const { rateLimiter } = await import("hono-rate-limiter");
  const app = new Hono();
  const keyGenerator = (c) => getConnInfo(c).remote.address;
  app.use(rateLimiter({ windowMs: 60_000, limit: 60, standardHeaders: "draft-6", keyGenerator }));
  app.get("*", (c) => {
    const text = page(c.req.path);
    return c.body(text ?? "not found", text === undefined ? 404 : 200, { "Content-Type": type(c.req.path) });
  });
  return { listener: getRequestListener(app.fetch), refusedFor: stated };
}

async function slowDown() {
  const { slowDown: slow } = await import("express-slow-down");
  const app = await express();
  app.use(slow({ windowMs: 60_000, delayAfter: 30, delayMs: (hits) => (hits - 30) * 500 }), answer);
  return { listener: app };
}

async function bottleneck() {
  const Bottleneck = (await import("bottleneck")).default;
  const group = new Bottleneck.Group({ minTime: 1000, highWater: 5, strategy: Bottleneck.strategy.OVERFLOW });
  return {
    listener: (req, res) => {
      const served = () => {
        answer(req, res);
        return Promise.resolve();
      };
      group.key(req.socket.remoteAddress).schedule(served).catch(() => {
        res.statusCode = 429;
        res.end("too many jobs wait");
      });
    },
  };
}

const limiters = {
  "express-draft-8": expressRateLimit({ standardHeaders: "draft-8", legacyHeaders: false }),
  "express-draft-7": expressRateLimit({ standardHeaders: "draft-7", legacyHeaders: false }),
  "express-draft-6": expressRateLimit({ standardHeaders: "draft-6", legacyHeaders: false }),
  "express-legacy": expressRateLimit({}),
  "express-bare": expressRateLimit({ standardHeaders: false, legacyHeaders: false }),
  "express-420": expressRateLimit({ standardHeaders: false, legacyHeaders: false, statusCode: 420 }),
  "flexible-bare": flexible({ points: 3, duration: 1 }),
  "flexible-headers": flexible({ points: 10, duration: 10 }, flexibleHeaders((at) => Math.ceil(at / 1000))),
  "flexible-date": flexible({ points: 10, duration: 10 }, flexibleHeaders((at) => String(new Date(at)))),
  "flexible-block": flexible({ points: 30, duration: 60, blockDuration: 60 }, flexibleHeaders((at) => Math.ceil(at / 1000))),
  "fastify": fastify({ max: 60 }),
  "fastify-ban": fastify({ max: 60, ban: 2 }),
  "koa": koa({ duration: 10_000, max: 15 }),
  "koa-readme": koa({
    duration: 60_000,
    max: 60,
    errorMessage: "Sometimes You Just Have to Slow Down.",
    headers: { remaining: "Rate-Limit-Remaining", reset: "Rate-Limit-Reset", total: "Rate-Limit-Total" },
  }),
  "hapi": hapi,
  "hono": hono,
  "slow-down": slowDown,
  "bottleneck": bottleneck,
};

let limiter;

// logged returns a listener that logs what another one answers.
function logged(listener) {
  return (req, res) => {
    const start = Date.now();
    const { remoteAddress, remotePort } = req.socket;
    // Headers that a framework hands to writeHead aren't among those of getHeader.
    const writeHead = res.writeHead;
    res.writeHead = (...args) => {
      const headers = args.at(-1);
      if (typeof headers === "object") res.written = headers;
      return writeHead.apply(res, args);
    };
    res.on("close", () => {
      const status = res.headersSent ? res.statusCode : 0;
      const seconds = status >= 400 ? limiter.refusedFor?.(req, res) : NaN;
      const left = seconds > 0 ? seconds.toFixed(3) : "-";
      const took = Date.now() - start;
      writeSync(file, `start:ms:ms ${start} ${took} ${remoteAddress} ${remotePort} ${status} ${req.method} ${req.url} ${left}\n`);
    });
    listener(req, res);
  };
}

// serve makes the server for frameworks that bring a handler, or add theirs to it later.
let server;
function serve(handler) {
  server = createServer();
  const on = server.on.bind(server);
  server.on = (event, listener) => on(event, event === "request" ? logged(listener) : listener);
  if (handler) server.on("request", handler);
  return server;
}

limiter = await limiters[name](serve);
if (limiter.listener) serve(limiter.listener);
server.keepAliveTimeout = 60_000;
server.listen(Number(port), host);
