import concurrent.futures, sys, requests

with requests.Session() as session, concurrent.futures.ThreadPoolExecutor(8) as pool:
    answers = pool.map(lambda url: session.get(url, allow_redirects=False).status_code, sys.argv[1:])
    for url, status in zip(sys.argv[1:], answers):
        print(status, url)
