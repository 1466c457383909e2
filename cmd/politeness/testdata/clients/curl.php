<?php
// Eight at once. The number of the URL is remembered, since a handle doesn't keep the text.
$all = curl_multi_init();
curl_multi_setopt($all, CURLMOPT_MAX_TOTAL_CONNECTIONS, 8);
$handles = [];
foreach (array_slice($argv, 1) as $url) {
    $one = curl_init($url);
    curl_setopt_array($one, [
        CURLOPT_RETURNTRANSFER => true, CURLOPT_PROXY => getenv('http_proxy'), CURLOPT_NOPROXY => '', CURLOPT_CAINFO => getenv('CA'),
    ]);
    curl_multi_add_handle($all, $one);
    $handles[$url] = $one;
}
do {
    $status = curl_multi_exec($all, $active);
    curl_multi_select($all);
} while ($active && $status === CURLM_OK);
foreach ($handles as $url => $one) {
    echo curl_getinfo($one, CURLINFO_RESPONSE_CODE), " $url\n";
}
