// Gets each URL with the library that the first argument names, eight at once.
const [library, ...urls] = process.argv.slice(2);
const proxy = process.env.http_proxy;

async function agents() {
  const {HttpProxyAgent, HttpsProxyAgent} = await import('hpagent');
  return {http: new HttpProxyAgent({proxy}), https: new HttpsProxyAgent({proxy})};
}

const libraries = {
  async got() {
    const {default: got} = await import('got');
    const agent = await agents();
    return async (url) => (await got(url, {agent, throwHttpErrors: false})).statusCode;
  },
  async undici() {
    const {fetch, ProxyAgent} = await import('undici');
    const dispatcher = new ProxyAgent(proxy);
    return async (url) => {
      const answer = await fetch(url, {dispatcher});
      await answer.text();
      return answer.status;
    };
  },
  async axios() {
    const {default: axios} = await import('axios');
    return async (url) => (await axios.get(url, {validateStatus: () => true})).status;
  },
  async 'node-fetch'() {
    const {default: fetch} = await import('node-fetch');
    const both = await agents();
    return async (url) => {
      const answer = await fetch(url, {agent: (to) => (to.protocol === 'http:' ? both.http : both.https)});
      await answer.text();
      return answer.status;
    };
  },
};

const get = await libraries[library]();
async function work() {
  for (let url = urls.shift(); url !== undefined; url = urls.shift()) {
    console.log(`${await get(url).catch((error) => error.code ?? error)} ${url}`);
  }
}
await Promise.all(Array.from({length: 8}, work));
process.exit();
