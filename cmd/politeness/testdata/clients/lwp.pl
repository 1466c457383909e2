use strict;
use LWP::UserAgent;
my $ua = LWP::UserAgent->new;
$ua->proxy(['http', 'https'], $ENV{http_proxy});
print $ua->get($_)->code, " $_\n" for @ARGV;
