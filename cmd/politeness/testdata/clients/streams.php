<?php
$context = stream_context_create([
    'http' => ['proxy' => str_replace('http://', 'tcp://', getenv('http_proxy')), 'request_fulluri' => true, 'ignore_errors' => true],
]);
foreach (array_slice($argv, 1) as $url) {
    file_get_contents($url, false, $context);
    echo explode(' ', $http_response_header[0])[1], " $url\n";
}
