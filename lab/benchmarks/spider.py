import scrapy


class Spider(scrapy.Spider):
    """Asks for one page again and again, as politely as Scrapy's own template is."""

    name = "bench"
    custom_settings = {
        "ROBOTSTXT_OBEY": True,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 2,
        "DOWNLOAD_DELAY": 0,
        "LOG_LEVEL": "ERROR",
        "TELNETCONSOLE_ENABLED": False,
    }

    def __init__(self, url, requests, **kwargs):
        super().__init__(**kwargs)
        self.url, self.requests = url, int(requests)

    def start_requests(self):
        for _ in range(self.requests):
            yield scrapy.Request(self.url, dont_filter=True)

    def parse(self, response):
        if response.status != 200:
            raise scrapy.exceptions.CloseSpider("the page wasn't served")
