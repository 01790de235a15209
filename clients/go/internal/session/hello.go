package session

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"runtime"
	"time"

	"clawjob.dev/go/clawjobpb"
	"clawjob.dev/go/internal/engine"
	"clawjob.dev/go/internal/wire"
	"clawjob.dev/go/internal/work"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	protocolMajor = 1
	protocolMinor = 0
)

// identity is what of a Hello stays the same for the life of the process.
type identity struct {
	instanceID string
	handlers   []*clawjobpb.Handler
	labels     map[string]string
	sdk        *clawjobpb.SdkInfo
	started    *timestamppb.Timestamp
}

func newIdentity(settings *Settings, registry *work.Registry, started time.Time) identity {
	id := make([]byte, 16)
	rand.Read(id)
	hostname, _ := os.Hostname()
	i := identity{
		instanceID: hex.EncodeToString(id),
		labels:     map[string]string{},
		started:    timestamppb.New(started),
		sdk: &clawjobpb.SdkInfo{
			Language:       "go",
			SdkVersion:     Version,
			RuntimeVersion: runtime.Version(),
			Os:             runtime.GOOS,
			Arch:           runtime.GOARCH,
			Hostname:       wire.Text(hostname),
			Pid:            uint32(os.Getpid()),
		},
	}
	for key, value := range settings.Labels {
		i.labels[wire.Text(key)] = wire.Text(value)
	}
	for _, entry := range registry.Entries() {
		i.handlers = append(i.handlers, &clawjobpb.Handler{
			Name:           entry.Name,
			MaxConcurrency: entry.MaxConcurrency,
			ParamsSchema:   wire.Text(entry.Schema),
			Description:    wire.Text(entry.Description),
		})
	}
	return i
}

// hello is the Hello of this moment.
func (i *identity) hello(
	settings *Settings,
	table *engine.Engine,
	resumeToken string,
) *clawjobpb.SessionRequest {
	return &clawjobpb.SessionRequest{Frame: &clawjobpb.SessionRequest_Hello{
		Hello: &clawjobpb.Hello{
			ProtocolMajor: protocolMajor,
			ProtocolMinor: protocolMinor,
			// Optional behaviours that this SDK understands.
			Features:         []string{"checkpoint", "drain", "log", "progress", "shard"},
			App:              settings.App,
			ExecutorId:       settings.ExecutorID,
			InstanceId:       i.instanceID,
			ResumeToken:      resumeToken,
			Handlers:         i.handlers,
			Labels:           i.labels,
			Slots:            settings.Slots,
			Sdk:              i.sdk,
			Attempts:         table.Statuses(),
			ProcessStartTime: i.started,
			LastCommandSeq:   table.LastCommandSeq(),
		},
	}}
}
