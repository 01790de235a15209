//go:build !unix

package main

import "clawjob.dev/go/clawjob"

// watchPauses does nothing where there are no such signals.
func watchPauses(*clawjob.Executor) {}
