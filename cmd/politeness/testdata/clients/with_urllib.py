import concurrent.futures, sys, urllib.error, urllib.request

def get(url):
    try:
        with urllib.request.urlopen(url) as answer:
            answer.read()
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code

with concurrent.futures.ThreadPoolExecutor(8) as pool:
    for url, status in zip(sys.argv[1:], pool.map(get, sys.argv[1:])):
        print(status, url)
