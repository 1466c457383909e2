# Scrapy with its defaults, but for what docs/proxy.md names.
import scrapy

class Spider(scrapy.Spider):
    name = "site"
    handle_httpstatus_list = [403]

    def __init__(self, urls):
        self.start_urls = urls.split()

    def parse(self, response):
        print(response.status, response.url, flush=True)
