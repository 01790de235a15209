// Package clawjobpb is the contract clawjob.v1 as Go types: messages, clients and servers. All but
// this comment is made from proto/ by generate.sh.
package clawjobpb
