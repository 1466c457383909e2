require 'net/http'
require 'openssl'

proxy = URI(ENV['http_proxy'])
places = Thread::SizedQueue.new(8)
threads = ARGV.map do |text|
  places.push(true)
  Thread.new do
    url = URI(text)
    site = Net::HTTP.new(url.host, url.port, proxy.host, proxy.port)
    site.use_ssl = url.scheme == 'https'
    site.ca_file = ENV['CA']
    puts "#{site.get(url.path).code} #{text}"
  rescue StandardError => e
    puts "#{e.class} #{text}"
  ensure
    places.pop
  end
end
threads.each(&:join)
