//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"

	"clawjob.dev/go/clawjob"
)

// watchPauses pauses echo at SIGUSR1 and resumes it at SIGUSR2.
func watchPauses(x *clawjob.Executor) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for got := range signals {
			if got == syscall.SIGUSR1 {
				x.Pause("echo")
			} else {
				x.Resume("echo")
			}
		}
	}()
}
