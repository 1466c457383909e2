import {CheerioCrawler, Configuration, ProxyConfiguration} from '@crawlee/cheerio';

const crawler = new CheerioCrawler({
  proxyConfiguration: new ProxyConfiguration({proxyUrls: [process.env.http_proxy]}),
  requestHandler: ({request, response}) => console.log(`${response.statusCode} ${request.url}`),
}, new Configuration({persistStorage: false, logLevel: 'ERROR'}));
await crawler.run(process.argv.slice(2));
