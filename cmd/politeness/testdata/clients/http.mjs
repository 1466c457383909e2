// Node without any library: the proxy is spoken to by hand, eight at once.
import {readFileSync} from 'node:fs';
import http from 'node:http';
import tls from 'node:tls';

const proxy = new URL(process.env.https_proxy);
const ca = readFileSync(process.env.CA);

function get(text, done) {
  const url = new URL(text);
  const headers = {host: url.host, connection: 'close'};
  if (url.protocol === 'http:') {
    http.get({host: proxy.hostname, port: proxy.port, path: text, headers}, done);
    return;
  }
  const tunnel = http.request({host: proxy.hostname, port: proxy.port, method: 'CONNECT', path: url.host});
  tunnel.on('connect', (_, socket) => {
    const secure = tls.connect({socket, ca, host: url.hostname}, () => {
      http.get({createConnection: () => secure, path: url.pathname, headers}, done);
    });
  });
  tunnel.end();
}

const urls = process.argv.slice(2);
function next() {
  const url = urls.shift();
  if (url === undefined) return;
  get(url, (answer) => {
    console.log(answer.statusCode + ' ' + url);
    answer.resume().on('end', next);
  });
}
for (let i = 0; i < 8; i++) next();
