package servers

import (
	"fmt"
	"os"
	"strings"
)

const apacheModules = "/usr/lib/apache2/modules/"

// apacheConf is for one process with threads: mod_evasive counts in each process for itself.
const apacheConf = `
ServerRoot $DIR
ServerName localhost
PidFile $DIR/apache.pid
DefaultRuntimeDir $DIR
Mutex file:$DIR
ErrorLog $DIR/apache-errors.log
Listen $ADDR
LoadModule mpm_event_module $MODULESmod_mpm_event.so
LoadModule authz_core_module $MODULESmod_authz_core.so
LoadModule dir_module $MODULESmod_dir.so
LoadModule mime_module $MODULESmod_mime.so
LoadModule setenvif_module $MODULESmod_setenvif.so
StartServers 1
ServerLimit 1
ThreadsPerChild 32
MaxRequestWorkers 32
KeepAlive On
MaxKeepAliveRequests 0
TypesConfig /dev/null
AddType text/html .html
AddType text/plain .txt
LogFormat "start:us:us %{usec}t %D %a %{remote}p %>s %m %U %{Retry-After}o" judge
CustomLog $LOG judge
DocumentRoot $SITE
DirectoryIndex index.html
<Directory $SITE>
	Require all granted
</Directory>
$USER
$RULES
`

// apache returns a Server's start: Apache with one more module, and directives for it.
func apache(load, rules string) func(*instance) error {
	return func(r *instance) error {
		user := ""
		if os.Geteuid() == 0 {
			user = "User www-data\nGroup www-data"
			// mod_evasive notes there whom it has banned; a directory in TMPDIR may be root's alone.
			if err := os.Chmod(r.path("tmp"), 0o777); err != nil {
				return err
			}
		}
		text := strings.NewReplacer("$RULES", load+"\n"+rules, "$USER", user).Replace(apacheConf)
		conf, err := r.conf("apache.conf", text, "$MODULES", apacheModules)
		if err != nil {
			return err
		}
		return r.run("", "apache2", "-f", conf, "-D", "FOREGROUND")
	}
}

// loadQoS loads mod_qos. Debian 12 builds it for the first PCRE and Apache for the second, so that
// nothing loads the library whose functions it calls.
func loadQoS() string {
	for _, lib := range []string{"/usr/lib/x86_64-linux-gnu/libpcre.so.3", "/usr/lib/aarch64-linux-gnu/libpcre.so.3"} {
		if _, err := os.Stat(lib); err == nil {
			return fmt.Sprintf("LoadFile %s\nLoadModule qos_module $MODULESmod_qos.so", lib)
		}
	}
	return "LoadModule qos_module $MODULESmod_qos.so"
}

const (
	// The module's site count is that of a client on all pages. A second of its clock without a
	// request begins anew; what comes beyond the count in one second is refused, and so is each
	// request until ten seconds have passed without one.
	evasive = `
DOSHashTableSize 3097
DOSPageCount 5
DOSPageInterval 1
DOSSiteCount 3
DOSSiteInterval 1
DOSBlockingPeriod 10
DOSLogDir $DIR/tmp`

	// A client's requests are counted from the first; those beyond the limit are answered 500 until
	// ten seconds after it.
	qos = `
QS_ClientEntries 1000
SetEnvIf Request_URI . QS_Limit=yes
QS_ClientEventLimitCount 20 10 QS_Limit`
)
