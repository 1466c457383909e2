package servers

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// run runs a program until Stop, with its output in a file of its own, out, or appended to
// errors.log if that is empty.
func (r *instance) run(out string, args ...string) error {
	path := program(args[0])
	if path == "" {
		return fmt.Errorf("%s isn't installed", args[0])
	}
	errs, err := os.OpenFile(r.path("errors.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer errs.Close()
	stdout := errs
	if out != "" {
		stdout, err = os.Create(out)
		if err != nil {
			return err
		}
		defer stdout.Close()
	}
	cmd := exec.Command(path, args[1:]...)
	cmd.Stdout = stdout
	cmd.Stderr = errs
	cmd.Dir = r.dir
	bind(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	r.stops = append(r.stops, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // children that outlived it
		<-ended
	})
	return nil
}

// bind makes a program a group of processes of its own, and end with the tests.
func bind(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
